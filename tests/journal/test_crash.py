"""The promise in small: kill the writer at any moment, and what it acknowledged is there."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random

import pytest

from reactive_desched.api.event import EVICTION_OUTCOME_TYPES, EVICTION_REQUESTED
from reactive_desched.audit.verification import verify
from reactive_desched.journal.events import read_events
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.recovery import recover
from reactive_desched.journal.signing.signed_note import parse_key

WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
import anyio
from msgspec.structs import replace
from reactive_desched.api.event import EVICTION_REQUESTED
from reactive_desched.journal.journal import open_journal
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import JournalConfig
from tests.support.journals import some_events

def clock():
    return datetime.now(UTC)

async def write(journal, task):
    while True:
        own_ids = f"//test/{journal.tail.last_seq}/{task}"
        for event in some_events(100, seed=task, source=own_ids):
            seq = await journal.append(replace(event, source=journal.source))
            sys.stdout.write(f"{seq} {event.id}\\n")
            sys.stdout.flush()

async def main():
    making = JournalConfig(Rotation(20_000, 1e9), every_records=10)
    async with open_journal(Path(sys.argv[1]), making, clock=clock) as journal:
        async with anyio.create_task_group() as group:
            for task in range(8):
                group.start_soon(write, journal, task)

anyio.run(main)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_every_acknowledged_record_survives_a_kill(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    acknowledged: list[str] = []
    for _ in range(2):
        acknowledged += written_until_killed(tmp_path, after_s=chance.uniform(0, 0.15))

    found = recover(tmp_path)

    events = list(read_events(tmp_path))
    assert acknowledged
    assert set(acknowledged) <= {f"{int(one.sequence)} {one.id}" for one in events}
    assert [int(one.sequence) for one in events] == list(range(1, len(events) + 1))
    begun = {one.id for one in events if one.type == EVICTION_REQUESTED}
    ended = {one.causationid for one in events if one.type in EVICTION_OUTCOME_TYPES}
    assert set(found.open_intents) == begun - ended
    keys = [parse_key(line) for line in (tmp_path / "checkpoint.pub").read_text().split()]
    assert verify(tmp_path, keys, "", None).ok


@pytest.mark.anyio
async def test_what_a_crash_left_while_it_tried_the_disk_goes_at_the_next_start(
    running: Callable[[], AbstractAsyncContextManager[Journal]], tmp_path: Path
) -> None:
    (tmp_path / "room").write_bytes(bytes(5000))

    async with running():
        assert not (tmp_path / "room").exists()


def written_until_killed(directory: Path, after_s: float) -> list[str]:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(after_s)
        writer.kill()
        rest = writer.stdout.read().splitlines(keepends=True)
    return [line.strip() for line in (first, *rest) if line.endswith("\n")]
