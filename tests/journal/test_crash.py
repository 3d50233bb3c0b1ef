"""The promise itself: kill the writer at any moment, and what it acknowledged is there."""

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from reactive_desched.journal.reading import read
from reactive_desched.journal.records import IntentRecord, OutcomeRecord
from reactive_desched.journal.recovery import recover

WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
import anyio
from reactive_desched.journal.journal import open_journal
from reactive_desched.journal.records import IntentRecord, OutcomeRecord

def clock():
    return datetime.now(UTC)

async def write(journal, run, task):
    for number in range(1_000_000):
        key = f"{run}-{task}-{number}"
        intent = IntentRecord(time=clock(), id=key, namespace="shop", pod="web", uid="u", node="n",
                              plugin="p", reason="r" * 300, dry_run=False)
        seq = await journal.append(intent)
        sys.stdout.write(f"{seq} intent {key}\\n")
        sys.stdout.flush()
        if number % 2:
            seq = await journal.append(OutcomeRecord(time=clock(), intent=key, result="evicted"))
            sys.stdout.write(f"{seq} outcome {key}\\n")
            sys.stdout.flush()

async def main():
    async with open_journal(Path(sys.argv[1]), max_segment_bytes=20_000, clock=clock) as journal:
        async with anyio.create_task_group() as group:
            for task in range(8):
                group.start_soon(write, journal, sys.argv[2], task)

anyio.run(main)
"""


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_every_acknowledged_record_survives_a_kill(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    acknowledged: list[str] = []
    for run in range(2):
        acknowledged += written_until_killed(tmp_path, run, after_s=chance.uniform(0, 0.15))

    found = recover(tmp_path)

    there = {f"{record.seq} {named(record)}" for record in read(tmp_path)}
    assert len(acknowledged) > 0
    assert set(acknowledged) <= there
    seqs = [record.seq for record in read(tmp_path)]
    assert seqs == list(range(1, len(seqs) + 1))
    begun = {record.id for record in read(tmp_path) if isinstance(record, IntentRecord)}
    ended = {record.intent for record in read(tmp_path) if isinstance(record, OutcomeRecord)}
    assert set(found.open) == begun - ended


def named(record: object) -> str:
    match record:
        case IntentRecord(id=key):
            return f"intent {key}"
        case OutcomeRecord(intent=key):
            return f"outcome {key}"
        case _:
            return "other"


def written_until_killed(directory: Path, run: int, after_s: float) -> list[str]:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), str(run)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(after_s)
        writer.kill()
        rest = writer.stdout.read().splitlines(keepends=True)
    return [line.strip() for line in (first, *rest) if line.endswith("\n")]
