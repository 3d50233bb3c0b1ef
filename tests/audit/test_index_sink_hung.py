"""A disk that hangs keeps nobody who has to go."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from reactive_desched.audit.index import AuditIndex
from reactive_desched.audit.index_sink import IndexSink
from reactive_desched.audit.schema import INDEX_FILE
from reactive_desched.journal.records import JournalRecord
from tests.support.journals import some_events, write_journal

pytestmark = pytest.mark.anyio

LONGEST_HANG_S = 10.0


class HungDisk:
    """Has methods hang until it is released, at the latest after LONGEST_HANG_S."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self.ended = threading.Event()
        self._released = threading.Event()
        self._monkeypatch = monkeypatch

    def hang(self, name: str) -> None:
        """Have this method of the index hang before it does anything."""
        method: Callable[..., object] = getattr(AuditIndex, name)

        def late(*args: Any, **kwargs: Any) -> object:  # of any method
            self.reached.set()
            self._released.wait(LONGEST_HANG_S)
            try:
                return method(*args, **kwargs)
            finally:
                self.ended.set()

        self._monkeypatch.setattr(AuditIndex, name, late)

    def release(self) -> None:
        """Let it go on."""
        self._released.set()
        assert not self.reached.is_set() or self.ended.wait(LONGEST_HANG_S)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[HungDisk]:
    hung = HungDisk(monkeypatch)
    yield hung
    hung.release()


@pytest.fixture
def entries(tmp_path: Path) -> list[JournalRecord]:
    return write_journal(tmp_path, some_events(5))


async def test_closing_is_given_up_when_its_time_is_over(
    tmp_path: Path, entries: list[JournalRecord], disk: HungDisk
) -> None:
    sink = IndexSink(tmp_path)
    await sink.deliver(entries)
    disk.hang("close")

    with anyio.move_on_after(0.05, shield=True) as scope:
        await sink.close()

    assert scope.cancelled_caught
    assert not disk.ended.is_set()


async def test_a_delivery_is_left_when_it_is_cancelled_and_closing_waits_in_line(
    tmp_path: Path, entries: list[JournalRecord], disk: HungDisk
) -> None:
    sink = IndexSink(tmp_path)
    disk.hang("catch_up")

    async with anyio.create_task_group() as group:
        group.start_soon(sink.deliver, entries)
        await to_thread.run_sync(disk.reached.wait, LONGEST_HANG_S)
        group.cancel_scope.cancel()
    assert not disk.ended.is_set()

    disk.release()
    await sink.close()
    index = AuditIndex.open_read_only(tmp_path, tmp_path / INDEX_FILE)
    assert index.cursor.seq == entries[-1].seq
    index.close()
