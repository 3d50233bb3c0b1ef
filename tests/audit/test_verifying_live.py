"""What the controller's own journal writes is whole: while it writes, and after a restart."""

import gzip
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from reactive_desched.audit.findings import VerifyReport
from reactive_desched.audit.pinned_checkpoint import PinnedCheckpoint
from reactive_desched.audit.verification import verify
from reactive_desched.journal.journal import Journal, open_journal
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import JournalConfig
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.signing.signed_note import parse_key
from tests.support.journals import some_events

pytestmark = pytest.mark.anyio


def running(folder: Path) -> AbstractAsyncContextManager[Journal]:
    """Run a journal whose files are small, with a checkpoint after each ten records."""
    making = JournalConfig(Rotation(30_000, 1e9), every_records=10)
    return open_journal(folder, making, clock=lambda: datetime.now(UTC))


def look(folder: Path, kept: PinnedCheckpoint | None = None) -> VerifyReport:
    return verify(folder, [parse_key((folder / "checkpoint.pub").read_text())], "", kept)


async def test_a_journal_is_whole_while_it_is_written(tmp_path: Path) -> None:
    looks: list[VerifyReport] = []

    async def keep_looking() -> None:
        while True:
            looks.append(await to_thread.run_sync(look, tmp_path))

    async with running(tmp_path) as journal, anyio.create_task_group() as group:
        group.start_soon(keep_looking)
        events = iter(some_events(20_000, source=journal.source))
        while journal.tail.last_seq < 400 or len(looks) < 3:
            await journal.append(next(events))
        kept = PinnedCheckpoint(journal.checkpointer.size, journal.checkpointer.root)
        group.cancel_scope.cancel()

    assert [one.bad for one in looks if not one.ok] == []
    assert looks[-1].records > looks[0].records
    after = look(tmp_path, kept)
    assert after.ok, after.bad
    assert after.segments > 5
    assert after.records >= 400


async def test_a_journal_continues_whole_after_a_torn_line_and_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as journal:
        for event in some_events(40, source=journal.source):
            await journal.append(event)
    last = list_segments(tmp_path)[-1].path
    last.write_bytes(last.read_bytes()[:-10])
    for one in list_segments(tmp_path)[:-1]:
        one.path.with_name(one.path.name + ".gz").write_bytes(gzip.compress(one.path.read_bytes()))
        one.path.unlink()
    torn = look(tmp_path)
    assert torn.torn is not None

    async with running(tmp_path) as journal:
        for event in some_events(40, seed=1, source=journal.source):
            await journal.append(event)

    report = look(tmp_path)
    assert report.ok, report.bad
    assert report.torn is None
    assert report.records > torn.records + 40
