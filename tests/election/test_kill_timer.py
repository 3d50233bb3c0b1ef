"""The kernel ends a process at the time that was set, stopped or not."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import math, os, signal, sys, time
from reactive_desched.election.kill_timer import KillTimer

timer = KillTimer()
now = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
timer.set(now() + (2.0 if sys.argv[1] in ("renewed", "child") else 0.4))
match sys.argv[1]:
    case "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    case "busy":
        time.sleep(5)
    case "renewed":
        for _ in range(6):
            timer.set(now() + 60.0)
        time.sleep(2.2)
        timer.set(now() + 2.0)
        timer.set(math.inf)
        time.sleep(2.2)
    case "child":
        if os.fork() == 0:
            time.sleep(3)
            print("the child lives on", flush=True)
            os._exit(0)
        time.sleep(10)
print("alive", flush=True)
"""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="a timer of Linux"),
    pytest.mark.waits,
]


def run(how: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.parametrize("how", ["stopped", "busy"])
def test_a_process_whose_time_is_over_ends(how: str) -> None:
    assert run(how) == (-signal.SIGKILL, "")


def test_a_process_that_renews_its_time_is_not_killed() -> None:
    assert run("renewed") == (0, "alive\n")


def test_a_child_does_not_inherit_the_timer() -> None:
    assert run("child") == (-signal.SIGKILL, "the child lives on\n")
