"""Who we are to the API server, kept current while we run."""

from collections.abc import Mapping

import anyio
import anyio.to_thread

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.client_config import Access, AccessReader, place
from reactive_desched.kube.auth.kubeconfig import Source
from reactive_desched.kube.client.clock import Clock

__all__ = ["Credentials"]

_REREAD_S = 60.0
_AFTER_A_401_S = 5.0


class Credentials:
    """The present `access`, read again every minute and after a 401, in a worker thread.

    Whatever rotates is covered: mounted tokens, token files, certificates and keys on disk,
    plugins and OIDC tokens near their end. A plugin that names no end is asked only after a 401.
    A 401 has them read at most once in five seconds, beside the calls, which do not wait for it.
    A reload that fails keeps what we have and is told in `problem`.
    """

    def __init__(self, source: Source, clock: Clock, environ: Mapping[str, str]) -> None:
        self.problem: str | None = None
        self._clock = clock
        self._loaded_at = float("-inf")
        self._doubted = anyio.Event()
        self._place = place(source)
        self._reader = AccessReader(source, environ)
        self._access: Access | None = None

    @property
    def access(self) -> Access:
        """What requests use now."""
        assert self._access is not None, "load() comes first"
        return self._access

    async def load(self) -> None:
        """Read everything; raises ConfigError naming the file and what is wrong with it.

        When cancelled, a plugin that runs is killed, and nothing can be loaded any more.
        """
        self._loaded_at = self._clock.now()
        try:
            self._access = await anyio.to_thread.run_sync(self._reader.read, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            self._reader.stop()
            raise

    def doubt(self) -> None:
        """Note that the server does not know us: they are read again at the next occasion."""
        self._doubted.set()

    async def keep_fresh(self) -> None:
        """Read again every minute, and after a doubt, for ever."""
        while True:
            await self._a_minute_or_a_doubt()
            if self._doubted.is_set():
                if (wait_s := self._loaded_at + _AFTER_A_401_S - self._clock.now()) > 0:
                    await self._clock.sleep(wait_s)
                self._doubted = anyio.Event()
                await self._reload()
            elif self._reader.repeatable:
                await self._reload()

    async def _a_minute_or_a_doubt(self) -> None:
        async def a_minute() -> None:
            await self._clock.sleep(_REREAD_S)
            either.cancel_scope.cancel()

        async with anyio.create_task_group() as either:
            either.start_soon(a_minute)
            await self._doubted.wait()
            either.cancel_scope.cancel()

    async def _reload(self) -> None:
        try:
            await self.load()
        except ConfigError as error:
            self.problem = str(error)
        except Exception as error:  # noqa: BLE001 -- no thread to read in, say: later there may be
            self.problem = (
                f"{self._place} cannot be read: {type(error).__name__}; it is tried again"
            )
        else:
            self.problem = None
