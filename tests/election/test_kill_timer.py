"""The kernel ends a process at the time that was set, stopped or not."""

import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import math, os, signal, sys, time
from reactive_desched.election.kill_timer import KillTimer

timer = KillTimer()
now = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
timer.set(now() + 0.4)
match sys.argv[1]:
    case "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    case "busy":
        time.sleep(5)
    case "renewed":
        for _ in range(6):
            time.sleep(0.1)
            timer.set(now() + 0.4)
        timer.set(math.inf)
        time.sleep(0.6)
    case "child":
        if os.fork() == 0:
            time.sleep(0.8)
            print("the child lives on", flush=True)
            os._exit(0)
        time.sleep(5)
print("alive", flush=True)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a timer of Linux")


def run(how: str) -> tuple[int, str, float]:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout, time.monotonic() - began


@pytest.mark.parametrize("how", ["stopped", "busy"])
def test_a_process_whose_time_is_over_ends(how: str) -> None:
    code, said, took_s = run(how)

    assert (code, said) == (-signal.SIGKILL, "")
    assert took_s < 5


def test_a_process_that_renews_its_time_is_not_killed() -> None:
    code, said, _ = run("renewed")

    assert (code, said) == (0, "alive\n")


def test_a_child_does_not_inherit_the_timer() -> None:
    code, said, _ = run("child")

    assert (code, said) == (-signal.SIGKILL, "the child lives on\n")
