import asyncio
from typing import cast

import pytest

from reactive_desched.web.connections import LIFETIME_S, Connections, Server

pytestmark = pytest.mark.anyio


class Connection:
    transport = None

    def __init__(self) -> None:
        self.closed = False

    def force_close(self) -> None:
        self.closed = True


class FakeServer:
    def __init__(self, *connections: Connection) -> None:
        self.connections = list(connections)


async def test_a_connection_ends_when_it_has_had_its_time_and_a_younger_one_stays() -> None:
    old, young = Connection(), Connection()
    server = FakeServer(old)
    connections = Connections(cast("Server", server), asyncio.get_running_loop())

    connections.sweep(now=0)
    server.connections.append(young)
    connections.sweep(now=LIFETIME_S)
    assert (old.closed, young.closed) == (False, False)
    connections.sweep(now=LIFETIME_S + 1)

    connections.close()
    assert (old.closed, young.closed) == (True, False)


async def test_connections_that_are_gone_are_forgotten() -> None:
    server = FakeServer(Connection())
    connections = Connections(cast("Server", server), asyncio.get_running_loop())
    connections.sweep(now=0)

    server.connections.clear()
    connections.sweep(now=1)

    connections.close()
    assert connections._since == {}
