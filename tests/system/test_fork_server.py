"""Forked programs end with those that asked for them."""

import os
import select
import signal
import time
from pathlib import Path

import pytest

from tests.support.fork_server import ForkedProgram, ForkServer

GIVE_UP_S = 60


def start(server: ForkServer, folder: Path) -> ForkedProgram:
    """Start a simulated cluster, which runs until it is ended."""
    with (folder / "log").open("wb") as output:
        return server.start("reactive_desched", ["sim", "--nodes", "2", "--pods", "4"], output)


def is_gone(pid: int) -> bool:
    """Wait until a process has ended; False if it takes too long."""
    give_up = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_a_program_is_killed_when_it_is_awaited_no_longer(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    program = start(fork_server, tmp_path)

    program.close()

    assert is_gone(program.pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_id_of_a_program_is_its_own_until_its_end_is_known(
    fork_server: ForkServer, tmp_path: Path, number: int
) -> None:
    program = start(fork_server, tmp_path)
    os.kill(program.pid, signal.SIGKILL)
    select.select([program], [], [], GIVE_UP_S)  # its exit status is there, and nobody has read it

    os.kill(program.pid, number)

    assert program.wait(GIVE_UP_S) == -signal.SIGKILL
    assert is_gone(program.pid)


def test_the_exit_status_of_a_program_is_what_it_returned(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    with (tmp_path / "log").open("wb") as output:
        program = fork_server.start("reactive_desched", ["plan", "--no-such-flag"], output)

    assert program.wait(GIVE_UP_S) == 2
