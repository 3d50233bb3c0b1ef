"""Records, journals and a disk that fails when told to, for the journal's tests."""

import errno
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from reactive_desched.journal.disk import Disk
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.records import IntentRecord, OutcomeRecord

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


class TroubledDisk(Disk):
    """A real disk that can be made to fail, to write only part, or to hang."""

    def __init__(self) -> None:
        self.fault: OSError | None = None
        self.creation_fault: OSError | None = None
        self.longest_write: int | None = None
        self.written_before_fault = 0
        self.appends: list[bytes] = []
        self.free = threading.Event()
        self.free.set()

    def create(self, path: Path) -> int:
        if self.creation_fault:
            raise self.creation_fault
        return super().create(path)

    def append(self, descriptor: int, data: bytes) -> None:
        self.free.wait(30)
        self.appends.append(data)
        if fault := self.fault:
            os.write(descriptor, data[: self.written_before_fault])
            raise OSError(fault.errno, fault.strerror)
        if self.longest_write is not None and len(data) > self.longest_write:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(descriptor, data)


Running = Callable[..., AbstractAsyncContextManager[Journal]]


@pytest.fixture
def clock() -> Callable[[], datetime]:
    return lambda: NOW


@pytest.fixture
def disk() -> TroubledDisk:
    return TroubledDisk()


@pytest.fixture
def running(tmp_path: Path, clock: Callable[[], datetime], disk: TroubledDisk) -> Running:
    """Return a way to have a journal in tmp_path running on the troubled disk."""

    @asynccontextmanager
    async def run(
        max_segment_bytes: int = 1 << 20,
        committed: Callable[[int, float], None] = lambda _records, _seconds: None,
    ) -> AsyncIterator[Journal]:
        journal = await Journal.open(
            tmp_path,
            max_segment_bytes=max_segment_bytes,
            clock=clock,
            committed=committed,
            disk=disk,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(journal.run)
            try:
                yield journal
            finally:
                disk.free.set()
                await journal.close()

    return run


@pytest.fixture
def intent() -> Callable[[str], IntentRecord]:
    return lambda key: IntentRecord(
        time=NOW,
        id=key,
        namespace="shop",
        pod=f"web-{key}",
        uid=f"uid-{key}",
        node="n1",
        owner="ReplicaSet/web",
        plugin="RemovePodsViolatingNodeTaints",
        reason="does not tolerate gpu:NoSchedule on n1",
        trigger="NodeTaintsChanged",
        dry_run=False,
    )


@pytest.fixture
def outcome() -> Callable[[str], OutcomeRecord]:
    return lambda key: OutcomeRecord(time=NOW, intent=key, result="evicted", status=201)
