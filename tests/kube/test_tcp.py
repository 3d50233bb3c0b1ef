"""A connection whose other end is gone is noticed by the kernel."""

import socket

import pytest

from reactive_desched.kube.client.cluster_guard import open_tcp_socket
from reactive_desched.kube.client.session import Session
from tests.support.scripted_api import ScriptedApi

INET = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 0))


def test_a_socket_is_kept_alive_every_half_minute_and_given_up_within_a_minute() -> None:
    with open_tcp_socket(INET) as opened:
        asked = opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        times = [opened.getsockopt(socket.IPPROTO_TCP, name) for name in names]
        unacknowledged_ms = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert (bool(asked), times, unacknowledged_ms) == (True, [30, 10, 3], 60_000)


@pytest.mark.anyio
async def test_the_connections_of_a_session_are_such_sockets(
    api: ScriptedApi, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_options: list[int] = []
    real = socket.socket.setsockopt

    def setsockopt(self: socket.socket, level: int, name: int, value: int) -> None:
        set_options.append(name)
        real(self, level, name, value)

    monkeypatch.setattr(socket.socket, "setsockopt", setsockopt)
    await session.request("GET", api.path)
    assert socket.SO_KEEPALIVE in set_options
    assert socket.TCP_KEEPIDLE in set_options
