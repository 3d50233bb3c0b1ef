"""Takes the address to serve at before anything is begun that its lack would undo."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.listen_address import ListenAddress

ProtocolFactory = Callable[[], asyncio.Protocol]
"""Returns the protocol for a new connection."""


class ListenSocket:
    """An address that is ours; whoever connects is refused until somebody answers."""

    def __init__(self, listen: ListenAddress) -> None:
        self._listen = listen
        self._new_protocol: ProtocolFactory = asyncio.Protocol
        self._server: asyncio.Server | None = None

    async def bind(self) -> None:
        """Have it; raises ConfigError when somebody else does, or it is not of this machine."""
        host, port = self._listen
        loop = asyncio.get_running_loop()
        with self._bind_errors():
            self._server = await loop.create_server(
                self._make_protocol, host or None, port, start_serving=False
            )

    async def serve(self, new_protocol: ProtocolFactory) -> str:
        """Let connections in from now on, and return the URL; raises ConfigError."""
        assert self._server is not None, "it is taken first"
        self._new_protocol = new_protocol
        with self._bind_errors():  # two may have taken it at once, but only one can answer
            await self._server.start_serving()
        port = self._server.sockets[0].getsockname()[1]
        return self._listen._replace(port=port).url

    def close(self) -> None:
        """Let it go; connections that were let in stay."""
        if self._server is not None:
            self._server.close()

    def _make_protocol(self) -> asyncio.Protocol:
        """Return the protocol for a new connection: who answers is known only later."""
        return self._new_protocol()

    @contextmanager
    def _bind_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {self._listen.host}:{self._listen.port}:"
                f" {error.strerror or error}; choose another address"
            ) from error


@asynccontextmanager
async def bound(listen: ListenAddress) -> AsyncIterator[ListenSocket]:
    """Have an address while the block lasts; raises ConfigError when it cannot be had."""
    listen_socket = ListenSocket(listen)
    await listen_socket.bind()
    try:
        yield listen_socket
    finally:
        listen_socket.close()
