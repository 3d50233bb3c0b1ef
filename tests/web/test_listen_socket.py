"""An address is ours once it is taken, and nobody is answered there before it is time."""

import asyncio
import socket
from typing import cast

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.web.listen_socket import bound
from tests.support.ports import free_port

pytestmark = pytest.mark.anyio


class Greeting(asyncio.Protocol):
    """Says hello and hangs up."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)
        stream.write(b"hello")
        stream.close()


async def test_connections_are_refused_until_the_server_answers() -> None:
    listen = ListenAddress("127.0.0.1", free_port())

    async with bound(listen) as address:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*listen)
        assert await address.serve(Greeting) == listen.url()
        reader, writer = await asyncio.open_connection(*listen)
        assert await reader.read() == b"hello"
        writer.close()

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*listen)


async def test_any_free_port_is_named_once_it_is_answered_at() -> None:
    async with bound(ListenAddress("127.0.0.1", 0)) as address:
        url = await address.serve(Greeting)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        assert await reader.read() == b"hello"
        writer.close()


async def test_an_address_that_is_in_use_cannot_be_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as others:
        port = others.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"127.0.0.1:{port}.*choose another address"):
            async with bound(ListenAddress("127.0.0.1", port)):
                pass


async def test_of_two_that_took_an_address_at_once_one_answers_and_the_other_fails() -> None:
    listen = ListenAddress("127.0.0.1", free_port())

    async with bound(listen) as first, bound(listen) as second:
        await first.serve(Greeting)
        with pytest.raises(ConfigError, match="choose another address"):
            await second.serve(Greeting)
