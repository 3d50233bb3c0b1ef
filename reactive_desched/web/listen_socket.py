"""Binds an address early, so that an address in use stops the start before anything else runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.listen_address import ListenAddress

ProtocolFactory = Callable[[], asyncio.Protocol]
"""Returns the protocol for a new connection."""


class ListenSocket:
    """A bound address; connections are refused until `serve`."""

    def __init__(self, listen: ListenAddress) -> None:
        self._listen = listen
        self._new_protocol: ProtocolFactory = asyncio.Protocol
        self._server: asyncio.Server | None = None

    async def bind(self) -> None:
        """Bind it; raises ConfigError when it is in use, or not of this machine."""
        host, port = self._listen
        loop = asyncio.get_running_loop()
        with self._bind_errors():
            self._server = await loop.create_server(
                self._make_protocol, host or None, port, start_serving=False
            )

    async def serve(self, new_protocol: ProtocolFactory) -> str:
        """Accept connections from now on, and return the URL; raises ConfigError."""
        assert self._server is not None, "it is bound first"
        self._new_protocol = new_protocol
        with self._bind_errors():  # two processes may bind it at once, but only one can listen
            await self._server.start_serving()
        port = self._server.sockets[0].getsockname()[1]
        return self._listen._replace(port=port).url

    def close(self) -> None:
        """Stop listening; accepted connections stay."""
        if self._server is not None:
            self._server.close()

    def _make_protocol(self) -> asyncio.Protocol:
        """Return the protocol for a new connection; `serve` says of which server."""
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
async def bound_if_set(listen: ListenAddress | None) -> AsyncIterator[ListenSocket | None]:
    """Bind an address, where there is one, while the block lasts; raises ConfigError."""
    if listen is None:
        yield None
    else:
        async with bound(listen) as listen_socket:
            yield listen_socket


@asynccontextmanager
async def bound(listen: ListenAddress) -> AsyncIterator[ListenSocket]:
    """Bind an address while the block lasts; raises ConfigError when it is in use."""
    listen_socket = ListenSocket(listen)
    await listen_socket.bind()
    try:
        yield listen_socket
    finally:
        listen_socket.close()
