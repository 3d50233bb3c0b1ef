"""Who we are to the API server, kept current while we run."""

from collections.abc import Mapping

import anyio
import anyio.to_thread

from reactive_desched.errors import ConfigError
from reactive_desched.kube.access import Access, AccessReader
from reactive_desched.kube.clock import Clock
from reactive_desched.kube.kubeconfig import Source

__all__ = ["Credentials"]

_REREAD_S = 60.0
_AFTER_A_401_S = 5.0


class Credentials:
    """The present `access`, read again every minute and after a 401, in a worker thread.

    Whatever rotates is covered: mounted tokens, token files, certificates and keys on disk,
    plugins and OIDC tokens near their end. A plugin that names no end is asked only after a 401.
    A reload that fails keeps what we have and is told in `problem`.
    """

    def __init__(self, source: Source, clock: Clock, environ: Mapping[str, str]) -> None:
        self.problem: str | None = None
        self._source = source
        self._clock = clock
        self._environ = environ
        self._loaded_at = float("-inf")
        self._turn = anyio.Lock()
        self._reader: AccessReader | None = None
        self._access: Access | None = None

    @property
    def access(self) -> Access:
        """What requests use now."""
        assert self._access is not None, "load() comes first"
        return self._access

    async def load(self) -> None:
        """Read everything; raises ConfigError naming the file and what is wrong with it."""
        self._loaded_at = self._clock.now()
        self._access = await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True)

    async def renew(self) -> None:
        """Read again because the server no longer knows us; at most once in five seconds."""
        async with self._turn:
            if self._clock.now() - self._loaded_at >= _AFTER_A_401_S:
                await self._reload()

    async def keep_fresh(self) -> None:
        """Read again every minute, for ever."""
        while True:
            await self._clock.sleep(_REREAD_S)
            async with self._turn:
                if self._reader is not None and self._reader.repeatable:
                    await self._reload()

    async def _reload(self) -> None:
        try:
            await self.load()
        except ConfigError as error:
            self.problem = str(error)
        else:
            self.problem = None

    def _read(self) -> Access:
        if self._reader is None:
            self._reader = AccessReader(self._source, self._environ)
        return self._reader.read()
