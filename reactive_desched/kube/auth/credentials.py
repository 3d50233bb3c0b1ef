"""Keeps the credentials for the API server current while the process runs."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.client_config import (
    ClientConfig,
    ClientConfigLoader,
    describe_source,
)
from reactive_desched.kube.auth.kubeconfig import KubeConfigSource
from reactive_desched.kube.client.clock import Clock
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.telemetry.metrics import Metric, counter, gauge

__all__ = ["IN_THE_HANDSHAKE", "UNAUTHORIZED", "Credentials"]

UNAUTHORIZED: Final = "401"
IN_THE_HANDSHAKE: Final = "its certificate, in the TLS handshake"
"""How the API server refuses credentials."""

_RELOAD_EVERY_S = 60.0
_MIN_RELOAD_INTERVAL_S = 5.0
_MAX_FORCE_INTERVAL_S = 300.0
_MAX_FAILED_INTERVAL_S = 30.0
"""A plugin that failed runs at least so often: it gave nothing that the API server could refuse."""
_FORGET_REJECTIONS_S = 900.0
LATE_S: Final = 10.0
"""A load that has had no answer for so long is reported, while it goes on."""


LOADS = counter(
    "credential_loads",
    "How often the credentials for the API server were loaded again, by result: ok or failed.",
    "result",
)
FAILING = gauge(
    "credentials_failing",
    "Whether the credentials for the API server cannot be loaded, or are not accepted: 1 or 0.",
)


def _ignore(_: str | None) -> None:
    """Do nothing with it."""


class Credentials:
    """The current `config`; a worker thread reads it again every minute and when it fails.

    This covers everything that rotates: mounted tokens, token files, certificates and keys on
    disk, exec plugins and OIDC tokens, which are renewed before they end. A 401, or a server whose
    certificate is not trusted, triggers at most one reload in five seconds; requests do not wait
    for it. A 401 makes a plugin run again, too, at once for the first, and then at growing
    intervals of up to five minutes while 401s keep coming, and of half a minute while it fails.
    A reload that fails keeps the old credentials and sets `last_error`; so does a kubeconfig that
    leads to another cluster now, whose credentials are left alone, an API server that does not
    accept new ones either, until it serves a request that has them, and a load that has had no
    answer for ten seconds, until it ends. `on_change` is called with each
    new `last_error`, and None at its end.
    """

    def __init__(
        self,
        source: KubeConfigSource,
        clock: Clock,
        environ: Mapping[str, str],
        on_change: Callable[[str | None], None] = _ignore,
    ) -> None:
        self.last_error: str | None = None
        self._clock = clock
        self._on_change = on_change
        self._loaded_at = float("-inf")
        self._invalidated = self._is_refresh_wanted = False
        self._rejections = self._failures = 0
        self._rejected_at = self._forced_at = float("-inf")
        self._refused_as = ""
        self._late: str | None = None
        self._load_error: str | None = None
        self._run_error: str | None = None
        """How the last run of a plugin ended that a rejection led to, where it failed."""
        self._refresh_wanted = Wakeup()
        self._source_text = describe_source(source)
        self._loader = ClientConfigLoader(source, environ)
        self._config: ClientConfig | None = None
        self._loads: Counter[str] = Counter(ok=0, failed=0)

    def collect(self) -> Iterator[Metric]:
        """Yield how loads ended, and whether the credentials fail now."""
        yield LOADS.by_label(self._loads)
        yield FAILING.value(float(self.last_error is not None))

    @property
    def config(self) -> ClientConfig:
        """Return what requests use now."""
        assert self._config is not None, "load() comes first"
        return self._config

    def error(self) -> str | None:
        """Return `last_error`: why the credentials are not renewed, or not accepted."""
        return self.last_error

    async def load(self, *, is_rejected: bool = False) -> None:
        """Read everything; raises ConfigError naming the file and what is wrong with it.

        When cancelled, a plugin that runs is killed, and nothing can be loaded any more.
        """
        self._loaded_at = self._clock.now()
        load = partial(self._loader.load, self._clock.wall(), is_rejected=is_rejected)
        try:
            self._config = await anyio.to_thread.run_sync(load, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            self._loader.cancel()
            raise

    def invalidate(self, rejected: ClientConfig, refusal: str = UNAUTHORIZED) -> None:
        """Make the worker thread read the credentials again: the API server rejected these.

        `refusal` says how. Nothing happens where they are not the current ones any more.
        """
        if not self._is_current(rejected):
            return
        self._refused_as, self._invalidated = refusal, True
        self._want_refresh()

    def note_distrust(self) -> None:
        """Make the worker thread read the files again: the server's certificate is not trusted.

        Its authority may have been exchanged. No plugin runs for it.
        """
        self._want_refresh()

    def _want_refresh(self) -> None:
        self._is_refresh_wanted = True
        self._refresh_wanted.notify()

    def accept(self, accepted: ClientConfig) -> None:
        """Note that the API server accepted these credentials, if they are the current ones."""
        if self._refused_as and self._is_current(accepted):
            self._refused_as, self._run_error = "", None
            self._report()

    @property
    def have_ended(self) -> bool:
        """Say whether the client certificate in use has ended."""
        end_s = self.config.certificate_end_s
        return end_s is not None and end_s <= self._clock.wall()

    def _is_current(self, config: ClientConfig) -> bool:
        return config.headers == self.config.headers and config.tls is self.config.tls

    async def refresh_forever(self) -> None:
        """Read the credentials every minute, and soon where that is wanted, until cancelled."""
        while True:
            await self._wait_for_refresh()
            wait_s = self._loaded_at + _MIN_RELOAD_INTERVAL_S - self._clock.now()
            if self._is_refresh_wanted and wait_s > 0:
                await self._clock.sleep(wait_s)
            self._is_refresh_wanted = False
            is_rejected, self._invalidated = self._invalidated and self._may_force(), False
            await self._reload(is_rejected=is_rejected)

    def _may_force(self) -> bool:
        """Count a rejection, and say whether a plugin is to run for it."""
        now = self._clock.now()
        if now - self._rejected_at > _FORGET_REJECTIONS_S:
            self._rejections = 0
        self._rejected_at = now
        waited_s = _MIN_RELOAD_INTERVAL_S * 2 ** min(self._rejections, 16) / 2
        most_s = _MAX_FAILED_INTERVAL_S if self._run_error else _MAX_FORCE_INTERVAL_S
        if now - self._forced_at < min(waited_s, most_s):
            return False
        self._forced_at = now
        self._rejections += 1
        return True

    async def _wait_for_refresh(self) -> None:
        wait_s = _RELOAD_EVERY_S
        if (renew_at_s := self.config.renew_at_s) is not None:
            least_s = _MIN_RELOAD_INTERVAL_S * 2 ** min(self._failures, 4)
            until_s = max(renew_at_s - self._clock.wall(), least_s)
            wait_s = min(wait_s, until_s)

        async def until_due() -> None:
            await self._clock.sleep(wait_s)
            either.cancel_scope.cancel()

        async with anyio.create_task_group() as either:
            either.start_soon(until_due)
            if not self._is_refresh_wanted:
                await self._refresh_wanted.wait()
            either.cancel_scope.cancel()

    async def _reload(self, *, is_rejected: bool) -> None:
        before = self.config
        late = asyncio.get_running_loop().call_later(LATE_S, self._note_late)
        try:
            await self.load(is_rejected=is_rejected)
        except ConfigError as error:
            if is_rejected and self._loader.may_keep:
                self._run_error = str(error)
            self._end_load("failed", str(error))
        except Exception as error:  # noqa: BLE001 -- no thread to read in, say: later there may be
            self._end_load(
                "failed",
                f"{self._source_text} cannot be read: {type(error).__name__}; it is tried again",
            )
        else:
            is_other = not self._is_current(before)
            if is_other:
                self._refused_as = ""
            if is_other or is_rejected:
                self._run_error = None
            self._end_load("ok", self._loader.rejection or None)
        finally:
            late.cancel()

    def _note_late(self) -> None:
        self._late = self._loader.describe_wait(LATE_S)
        self._report()

    def _refusal(self) -> str | None:
        """Say that the credentials are not accepted, though they were read again."""
        if not self._refused_as:
            return None
        return (
            f"{self._source_text}: the API server does not accept its credentials"
            f" ({self._refused_as}), and {self._loader.refused_hint}"
        )

    def _end_load(self, result: str, error: str | None) -> None:
        self._loads[result] += 1
        self._failures = 0 if result == "ok" else self._failures + 1
        self._load_error, self._late = error, None
        self._report()

    def _report(self) -> None:
        error = self._load_error or self._run_error or self._late or self._refusal()
        if error != self.last_error:
            self.last_error = error
            self._on_change(error)
