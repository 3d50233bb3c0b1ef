"""The journal, its checkpoints and its folder in numbers."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from reactive_desched.journal.signing.checkpointer import Checkpointer
from tests.support.exposition import exposed
from tests.support.kept_journal import RetainedJournal, size_limits

pytestmark = pytest.mark.anyio


async def test_a_journal_counts_its_records_and_times_its_writes(
    running: Callable[..., Any], intent: Callable[[str], Any]
) -> None:
    async with running() as journal:
        await journal.append(intent("a"))
        await anyio.wait_all_tasks_blocked()  # the write is timed a turn later
        journal.records_refused, journal.records_unrecorded = 2, 5
        found = exposed(journal)

    assert 0 < found["journal_sequence"] <= journal.tail.last_seq
    assert 0 < found["journal_records_total"] <= journal.records_written
    assert found["journal_records_refused_total"] == 2
    assert found["journal_records_unrecorded_total"] == 5
    assert found["journal_healthy"] == 1
    assert found["journal_torn_bytes"] == found["journal_damaged_lines"] == 0
    assert 0 < found["journal_fsync_seconds_count"] <= sum(journal.write_times.counts)


async def test_a_checkpoint_shows_its_size_and_the_beginning_of_its_root() -> None:
    checkpointer = Checkpointer(
        SimpleNamespace(sign=lambda *_: ""),
        every_records=1,
        every_s=1,
        clock=lambda: None,  # type: ignore[arg-type,return-value]  # not read here
        monotonic=lambda: 0,
    )
    before = exposed(checkpointer)
    checkpointer.checkpointed(39, "c0ffee012345" + "f" * 52)

    after = exposed(checkpointer)

    assert (before["journal_checkpoint_size"], after["journal_checkpoint_size"]) == (0, 39)
    assert before["journal_checkpoint_root_prefix"] == 0
    assert after["journal_checkpoint_root_prefix"] == 0xC0FFEE012345


async def test_a_folder_shows_its_segments_and_what_retention_did(tmp_path: Path) -> None:
    worker = RetainedJournal(tmp_path, 3).retention_worker(size_limits(4, 8))
    worker.stats.faults["compress: EIO"] = 2
    await worker.run_once()

    found = exposed(worker)

    assert found["journal_segments"] == worker.stats.segments
    assert found["journal_bytes"] == worker.stats.bytes
    assert found["journal_hard_max_bytes"] == 8192
    assert found["journal_oldest_sequence"] == worker.stats.oldest_seq
    assert found["journal_segments_removed_total"] == worker.stats.removed > 0
    assert found['journal_upkeep_faults_total{what="compress: EIO"}'] == 2
