"""Ends the demo: prints the case of one pod and verifies the journal."""

import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
from rich.console import Console

from reactive_desched.api.event import EVICTION_SUCCEEDED
from reactive_desched.journal.events import read_events

_TIMEOUT_S = 30


async def print_audit(console: Console, journal: Path) -> None:
    """Print the output of `audit show` and `audit verify` on the demo's journal."""
    for command in (("audit", "show", _longest_case(journal)), ("audit", "verify")):
        console.print()
        words = (*command, "--journal", str(journal))
        console.print(f"$ {shlex.join(('reactive-desched', *words))}", style="bold", soft_wrap=True)
        console.print((await run_cli(*words)).rstrip(), highlight=False, soft_wrap=True)


def closing_words(keep: str | None) -> str:
    """Say where the journal is, or how to keep the next one."""
    if keep is None:
        return "This journal is gone. To look into one: reactive-desched demo --keep demo-journal"
    query, diff = (
        shlex.join(("reactive-desched", *words, keep))
        for words in (("audit", "query", "--journal"), ("policy", "diff", "NEW", "--recording"))
    )
    return (
        f"The journal stays in {keep}; the commands above work on it, and: {query}\n"
        f"What another policy would have done on that day: {diff}"
    )


def _longest_case(journal: Path) -> str:
    """Return the case of an evicted pod that has the most events."""
    events = list(read_events(journal))
    length = Counter(event.correlationid for event in events)
    evicted = [event.correlationid for event in events if event.type == EVICTION_SUCCEEDED]
    return max(evicted, key=lambda case: length[case])


async def run_cli(*args: str) -> str:
    """Run a command of ours in a process of its own; return what it prints."""
    with anyio.fail_after(_TIMEOUT_S):
        done = await anyio.run_process(
            [sys.executable, "-m", "reactive_desched", *args],
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.stdout.decode(errors="replace")
