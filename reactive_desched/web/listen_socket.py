"""Binds an address early, so that an address in use stops the start before anything else runs."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.web.tls import BACKLOG, TlsHandshakes

ProtocolFactory = Callable[[], asyncio.Protocol]
"""Returns the protocol for a new connection."""


class ListenSocket:
    """A bound address; connections are refused until `serve`."""

    def __init__(self, listen: ListenAddress, sockets: Sequence[socket.socket]) -> None:
        self._listen = listen
        self._sockets = sockets
        self._servers: list[asyncio.Server] = []
        self._handshakes: TlsHandshakes | None = None

    async def serve(self, new_protocol: ProtocolFactory, tls: ssl.SSLContext | None = None) -> str:
        """Accept connections from now on, over TLS if asked, and return the URL.

        Raises ConfigError when another process listens here.
        """
        loop = asyncio.get_running_loop()
        if tls is not None:
            self._handshakes = TlsHandshakes(tls, new_protocol)
        port = self._sockets[0].getsockname()[1]
        with _bind_errors(self._listen):  # two processes may bind it, but only one can listen
            for each in self._sockets:
                each.listen(BACKLOG)  # uvloop would not say that another process listens
                if self._handshakes is None:
                    self._servers.append(await loop.create_server(new_protocol, sock=each))
                else:
                    self._handshakes.accept_from(each)
        return self._listen._replace(port=port).url("http" if tls is None else "https")

    def close(self) -> None:
        """Stop listening; accepted connections stay."""
        for server in self._servers:
            server.close()
        if self._handshakes is not None:
            self._handshakes.close()
        for each in self._sockets:
            each.close()


async def _bind(listen: ListenAddress) -> list[socket.socket]:
    """Return sockets that are bound to every IP address of the host, as asyncio binds them."""
    loop = asyncio.get_running_loop()
    with _bind_errors(listen):
        server = await loop.create_server(
            asyncio.Protocol, listen.host or None, listen.port, start_serving=False
        )
    sockets = [each.dup() for each in server.sockets]
    server.close()
    return sockets


@contextmanager
def _bind_errors(listen: ListenAddress) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {listen.host}:{listen.port}:"
            f" {error.strerror or error}; choose another address with --listen HOST:PORT, or in"
            " the section server of the settings"
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
    listen_socket = ListenSocket(listen, await _bind(listen))
    try:
        yield listen_socket
    finally:
        listen_socket.close()
