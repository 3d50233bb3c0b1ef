"""Records, journals and a disk that fails when told to, for the journal's tests."""

import errno
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from reactive_desched.api import event as api
from reactive_desched.journal import journal as journal_module
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.event_builder import Correlation, build_event
from reactive_desched.journal.events import read_events
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import JournalConfig
from reactive_desched.journal.records import AnyEvent, parse_header

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

    @property
    def records_per_write(self) -> list[int]:
        """How many records each write held, besides checkpoints."""
        lines = ([parse_header(one + b"\n") for one in data.splitlines()] for data in self.appends)
        return [
            sum(one is not None and one.type != api.CHECKPOINT for one in each) for each in lines
        ]

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
        every_records: int = 1_000_000,
        every_s: float = 1e6,
    ) -> AsyncIterator[Journal]:
        journal = await Journal.open(
            tmp_path,
            JournalConfig(
                Rotation(max_segment_bytes, 1e9), every_records=every_records, every_s=every_s
            ),
            clock=clock,
            disk=disk,
        )
        async with anyio.create_task_group() as group:
            await group.start(journal.run)
            try:
                yield journal
            finally:
                disk.free.set()
                await journal.close()

    return run


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a failing disk be tried again at once."""
    monkeypatch.setattr(journal_module, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(journal_module, "MAX_RETRY_S", 0.02)


@pytest.fixture
def requested(tmp_path: Path) -> Callable[[], list[str]]:
    """Return a way to read which evictions the journal in tmp_path says were requested, by id."""
    return lambda: [one.id for one in read_events(tmp_path) if one.type == api.EVICTION_REQUESTED]


def about(key: str) -> dict[str, Any]:
    return {
        "mode": api.MODE_LIVE,
        "trigger": api.Cause(change="NodeTaintsChanged", object="node n1", resource_version="7"),
        "what": api.What(action="evict"),
        "who": api.Who(
            name=f"web-{key}", namespace="shop", node="n1", owners=(), uid=f"uid-{key}", zone=""
        ),
        "why": api.Why(
            message="does not tolerate gpu:NoSchedule on n1",
            numbers={},
            plugin="RemovePodsViolatingNodeTaints",
            policy_revision="r1",
            profile="day",
        ),
    }


def made(type_: str, key: str, id_: str, cause: str, data: Any) -> AnyEvent:
    story = Correlation(f"case-{key}", f"shop/web-{key}", f"uid-{key}")
    return build_event(
        "//test/descheduler/host/epoch", type_, story, NOW, data, id_=id_, causation_id=cause
    )


@pytest.fixture
def intent() -> Callable[[str], AnyEvent]:
    """Return a way to make the request to evict a pod; the key is its id."""

    def make(key: str) -> AnyEvent:
        data = api.EvictionRequested(attempt=1, **about(key))
        return made(api.EVICTION_REQUESTED, key, key, "cause", data)

    return make


@pytest.fixture
def outcome() -> Callable[..., AnyEvent]:
    """Return a way to make the end of such a request."""

    def make(key: str, message: str = "") -> AnyEvent:
        ending = api.Ending(result="evicted", message=message)
        data = api.EvictionEnded(attempt=1, outcome=ending, **about(key))
        return made(api.EVICTION_SUCCEEDED, key, f"end-{key}", key, data)

    return make


@pytest.fixture
def finding() -> Callable[[str], AnyEvent]:
    """Return a way to make a finding, for which nobody waits."""

    def make(key: str) -> AnyEvent:
        return made(api.FINDING_MADE, key, f"found-{key}", "change", api.FindingMade(**about(key)))

    return make
