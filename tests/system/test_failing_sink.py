"""A sink that takes no records is named where a person looks; the controller stays ready."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.limits import UNLIMITED


@pytest.fixture
def port() -> Iterator[int]:
    """Keep a port at which nothing listens."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


@pytest.fixture
def settings(port: int) -> str:
    return f"sinks: {{webhook: {{url: 'http://127.0.0.1:{port}/in'}}}}\n{UNLIMITED}"


def answer(url: str) -> str:
    """Return what a page says, with whatever status: 503 until the first lists are read."""
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            return str(reply.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return str(error.read().decode())


def test_a_sink_that_takes_no_records_is_named_on_readyz_and_in_status(
    cluster: Any, controller: Callable[..., Any]
) -> None:
    program = controller()
    program.wait_for("the cluster is synced")
    cluster.taint("node-1", "gpu")  # and so there is something to send
    ready = f"{program.url}/readyz?verbose"
    program.wait_until(lambda: "[!]sinks: webhook: http" in answer(ready))
    program.wait_until(lambda: "readyz check passed" in answer(ready))

    sinks = json.loads(answer(f"{program.url}/debug/status"))["sinks"]
    assert [each["name"] for each in sinks if each.get("error")] == ["webhook"]
    assert program.stop() == 0
