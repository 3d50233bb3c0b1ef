"""Ports and locks that all test runs of this machine share, whatever folder each has for itself."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

__all__ = ["free_port", "free_ports", "machine_lock"]

PORTS = range(15_000, 30_000)
"""What tests listen on; connections are made from 32768 on, where Linux is as it comes."""

_FOLDER = Path("/tmp")  # that of `tempfile` is another one in each run
_NAME = f"reactive-desched-tests-{os.getuid()}"


@contextmanager
def machine_lock(name: str) -> Iterator[TextIO]:
    """Hold a lock of this name, as one test of this user at a time; yield its file."""
    with (_FOLDER / f"{_NAME}.{name}").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def free_ports(count: int) -> list[int]:
    """Return loopback ports that nobody listens on, and that no other test of this user gets.

    They lie below those that the kernel gives to connections: one that its owner takes later, or
    again after a restart, is no other program's by then.
    """
    with machine_lock("ports") as taken:
        taken.seek(0)
        following = int(taken.read() or PORTS.start)
        ports: list[int] = []
        while len(ports) < count:
            if following not in PORTS:
                following = PORTS.start
            if _is_free(following):
                ports.append(following)
            following += 1
        taken.truncate(0)
        taken.write(str(following))
    return ports


def free_port() -> int:
    """Return one of them."""
    (port,) = free_ports(1)
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
