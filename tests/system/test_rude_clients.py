"""The server against those who mean no good: it answers, says little, and stays within reach."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.control_plane import wait_until
from tests.support.ports import free_port

MANY = 40
"""More than the lines that a busy machine has a controller write meanwhile."""
CROWD = 300
"""More than there are places in the stream."""
SILENT = 450
"""More than there are places for connections, with those of the stream."""


@pytest.fixture
def probe_port() -> int:
    return free_port()


@pytest.fixture
def settings(probe_port: int) -> str:
    address = f"127.0.0.1:{probe_port}"
    return f"sinks: {{stream: {{}}}}\nserver: {{healthProbeBindAddress: '{address}'}}\n"


@pytest.fixture
def program(controller: Callable[..., Any]) -> Any:  # a Program
    program = controller()
    program.wait_for("the first evaluation is complete")
    return program


@pytest.fixture
def port(program: Any) -> int:
    return int(program.wait_for(r"url=http://127\.0\.0\.1:(\d+)")[1])


@pytest.fixture
def hold() -> Iterator[Callable[[int], socket.socket]]:
    """Open connections that stay until the end of the test."""
    with ExitStack() as held:

        def one(port: int) -> socket.socket:
            return held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))

        yield one


def answer(connection: socket.socket, request: bytes) -> bytes:
    """Return the first bytes of the answer; none when the connection was closed without one."""
    try:
        connection.sendall(request)
        return connection.recv(4096)
    except ConnectionError:
        return b""


def asked(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n", id="a NUL in a header"),
        pytest.param(b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n\r\n", id="a long line"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 100 + b"\r\n", id="many headers"),
    ],
)
def test_a_request_that_is_none_is_answered_400_and_leaves_no_traceback_in_the_log(
    request_: bytes, program: Any, port: int, hold: Callable[[int], socket.socket]
) -> None:
    before = program.output.count("\n")
    for _ in range(MANY):
        reply = answer(hold(port), request_)
        assert reply.split(b" ", 2)[1] == b"400"
    assert b" 200 " in answer(hold(port), asked("/livez"))
    assert "Traceback" not in program.output
    assert program.output.count("\n") - before < MANY


def test_a_client_beyond_the_limit_in_a_crowd_gets_a_refusal(
    port: int, hold: Callable[[int], socket.socket]
) -> None:
    crowd = [hold(port) for _ in range(CROWD)]
    for one in crowd:
        one.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
    statuses = [answer(one, b"")[9:12].decode() for one in crowd]
    assert set(statuses) == {"200", "503"}
    assert statuses.count("200") == 256


def test_probes_are_answered_while_the_main_address_is_crowded(
    port: int, probe_port: int, hold: Callable[[int], socket.socket]
) -> None:
    for _ in range(SILENT):
        hold(port)
    assert b" 200 " in answer(hold(probe_port), asked("/livez"))
    wait_until(  # one that stood still has to sync first, and says so
        lambda: b" 200 " in answer(hold(probe_port), asked("/readyz")),
        within_s=60,
        what="/readyz says that it is ready",
    )
    assert b" 404 " in answer(hold(probe_port), asked("/metrics"))
    assert b" 200 " in answer(hold(port), asked("/livez"))
