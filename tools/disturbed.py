"""Runs a command while processes below it stand still for seconds, as on a machine that is loaded.

`python -m tools.disturbed .venv/bin/pytest -n 4 tests/e2e` finds tests that wait for a time where
they should wait for a state. Now and then it stops one process that the command started, or all of
them at once, as a machine does that is suspended; other processes compete for the processor.
"""

import argparse
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from os import kill
from pathlib import Path
from typing import Final

_BUSY: Final = (sys.executable, "-c", "while True: pass")
_STOPPED: Final = "TtZ"
"""States of a process that others have stopped, or that has ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command to its end, and return its exit status."""
    parser = argparse.ArgumentParser("disturbed", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=0, help="which processes, when and for how long"
    )
    parser.add_argument("--all", type=float, default=0.5, help="the share of stops that are of all")
    parser.add_argument("--busy", type=int, default=1, help="how many processes compete")
    parser.add_argument("--most", type=float, default=5.0, help="seconds of the longest stop")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    dice = random.Random(options.seed)  # noqa: S311 - repeats a run
    with ExitStack() as others:
        for _ in range(options.busy):
            others.callback(subprocess.Popen(_BUSY).kill)  # noqa: S603 - our own words
        command = subprocess.Popen(options.command)  # noqa: S603 - what was typed
        while not _ends(command, dice.uniform(2, 8)):
            below = sorted(_below(command.pid))
            chosen = below if dice.random() < options.all else below and [dice.choice(below)]
            with _stopped(chosen):
                time.sleep(dice.uniform(2, options.most))
    return command.returncode


def _ends(command: subprocess.Popen[bytes], within_s: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        command.wait(within_s)
    return command.returncode is not None


def _below(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started, and those that these have.

    Those of another terminal are left alone: to a shell there, a program that is stopped has ended.
    """
    children = defaultdict[int, list[int]](list)
    terminals = dict[int, str]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            after_name = stat.read_text(errors="replace").rpartition(")")[2]
            state, parent, _group, _session, terminal, *_ = after_name.split()
            child = int(stat.parent.name)
            children[int(parent)].append(child)
            if state not in _STOPPED:
                terminals[child] = terminal
    found = [pid]
    for each in found:
        found += children[each]
    for each in found[1:]:
        if each in terminals and terminals[each] == terminals.get(pid):
            yield each


@contextmanager
def _stopped(pids: Sequence[int]) -> Iterator[None]:
    """Have processes stand still while the block lasts, and say on standard error which did."""
    named = ", ".join(filter(None, map(_name, pids)))
    print(f"{time.strftime('%H:%M:%S')} stopped: {named}", file=sys.stderr)  # noqa: T201 - its log
    try:
        _send(pids, signal.SIGSTOP)
        yield
    finally:
        _send(pids, signal.SIGCONT)


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            kill(pid, number)


def _name(pid: int) -> str:
    with suppress(OSError):
        return f"{pid} {Path(f'/proc/{pid}/comm').read_text().strip()}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
