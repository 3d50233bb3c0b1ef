"""Keeps the credentials for the API server current while the process runs."""

from collections.abc import Mapping

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

__all__ = ["Credentials"]

_RELOAD_EVERY_S = 60.0
_MIN_RELOAD_INTERVAL_S = 5.0


class Credentials:
    """The current `config`; a worker thread reads it again every minute and after a 401.

    This covers everything that rotates: mounted tokens, token files, certificates and keys on
    disk, exec plugins, and OIDC tokens that expire soon. An exec plugin that names no expiry runs
    again only after a 401. A 401 triggers at most one reload in five seconds; requests do not
    wait for it. A reload that fails keeps the old one and sets `last_error`; so does a kubeconfig
    that leads to another cluster now, whose credentials are left alone.
    """

    def __init__(self, source: KubeConfigSource, clock: Clock, environ: Mapping[str, str]) -> None:
        self.last_error: str | None = None
        self._clock = clock
        self._loaded_at = float("-inf")
        self._invalidated = False
        self._refresh_wanted = Wakeup()
        self._source_text = describe_source(source)
        self._loader = ClientConfigLoader(source, environ)
        self._config: ClientConfig | None = None

    @property
    def config(self) -> ClientConfig:
        """What requests use now."""
        assert self._config is not None, "load() comes first"
        return self._config

    async def load(self) -> None:
        """Read everything; raises ConfigError naming the file and what is wrong with it.

        When cancelled, a plugin that runs is killed, and nothing can be loaded any more.
        """
        self._loaded_at = self._clock.now()
        try:
            self._config = await anyio.to_thread.run_sync(self._loader.load, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            self._loader.cancel()
            raise

    def invalidate(self) -> None:
        """Have the worker thread read the credentials again: the API server rejected them."""
        self._invalidated = True
        self._refresh_wanted.notify()

    async def refresh_forever(self) -> None:
        """Read the credentials every minute, and soon after `invalidate`, until cancelled."""
        while True:
            await self._wait_for_refresh()
            if self._invalidated:
                if (wait_s := self._loaded_at + _MIN_RELOAD_INTERVAL_S - self._clock.now()) > 0:
                    await self._clock.sleep(wait_s)
                self._invalidated = False
                await self._reload()
            elif self._loader.reloadable:
                await self._reload()

    async def _wait_for_refresh(self) -> None:
        async def a_minute() -> None:
            await self._clock.sleep(_RELOAD_EVERY_S)
            either.cancel_scope.cancel()

        async with anyio.create_task_group() as either:
            either.start_soon(a_minute)
            if not self._invalidated:
                await self._refresh_wanted.wait()
            either.cancel_scope.cancel()

    async def _reload(self) -> None:
        try:
            await self.load()
        except ConfigError as error:
            self.last_error = str(error)
        except Exception as error:  # noqa: BLE001 -- no thread to read in, say: later there may be
            self.last_error = (
                f"{self._source_text} cannot be read: {type(error).__name__}; it is tried again"
            )
        else:
            self.last_error = self._loader.rejection or None
