"""Where a process of `crash_program` writes down what was promised, and where it kills itself.

Parts are wrapped from outside; none of them knows of it.
"""

import functools
import inspect
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

from msgspec import Struct

from reactive_desched.api.event import (
    CHECKPOINT,
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    JOURNAL_LOST,
)
from reactive_desched.audit.index import AuditIndex
from reactive_desched.journal import atomic_files, recovery
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.journal import PendingRecord
from reactive_desched.journal.log import SegmentWriter
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.journal.signing import key_file
from reactive_desched.journal.tail import LiveTail
from reactive_desched.journal.upkeep import compression
from reactive_desched.journal.upkeep.loss_log import LossLog
from reactive_desched.sinks.kafka.sink import KafkaSink
from tests.support.crash_world import FileApiServer

__all__ = [
    "CRASH_POINTS",
    "FIRST_START_CRASH_POINTS",
    "LOSS_CRASH_POINTS",
    "REPAIR_CRASH_POINTS",
    "CrashPoint",
    "kill_at",
    "monkeypatch",
    "record_promises",
]

CrashTiming = Literal["before", "half", "after"]
AppliesTo = Callable[..., bool]
"""Says by the arguments of a call whether it is the one that is meant."""


class CrashPoint(Struct, frozen=True):
    """A moment in a run: before a call, after it, or when half of what it writes is written."""

    when: CrashTiming
    owner: Any  # a class or a module
    name: str
    applies: AppliesTo = lambda *_: True


def _writes_types(*types: str) -> AppliesTo:
    """Mean writes that hold an event of one of these types."""
    marks = [f'"type":"{type_}"'.encode() for type_ in types]
    return lambda _disk, _descriptor, data: any(mark in data for mark in marks)


def _path_ends_with(ending: str) -> AppliesTo:
    """Mean paths that end so."""
    return lambda path, *_: str(path).endswith(ending)


def _creates_segment(_: Disk, path: Path) -> bool:
    return path.name.startswith("journal-")


def _is_kafka_cursor(_: Cursors, name: str, *__: object) -> bool:
    return name == "kafka"


_OUTCOME: Final = _writes_types(*EVICTION_OUTCOME_TYPES)
_INTENT: Final = _writes_types(EVICTION_REQUESTED)
_CHECKPOINT: Final = _writes_types(CHECKPOINT)

CRASH_POINTS: Final[Mapping[str, CrashPoint]] = {
    "before the intent is written": CrashPoint("before", Disk, "append", _INTENT),
    "when half of the intent is written": CrashPoint("half", Disk, "append", _INTENT),
    "when the intent is durable and nothing else is done": CrashPoint(
        "after", Disk, "append", _INTENT
    ),
    "before the call": CrashPoint("before", FileApiServer, "evict"),
    "after the server accepted and before it answers": CrashPoint("after", FileApiServer, "accept"),
    "after the answer and before the outcome": CrashPoint(
        "before", JournalRecorder, "record_outcome"
    ),
    "before the outcome is written": CrashPoint("before", Disk, "append", _OUTCOME),
    "when half of the outcome is written": CrashPoint("half", Disk, "append", _OUTCOME),
    "after the outcome and before the relay": CrashPoint("after", Disk, "append", _OUTCOME),
    "after the outcome is given to followers": CrashPoint("after", LiveTail, "publish"),
    "before Kafka gets a record": CrashPoint("before", KafkaSink, "deliver"),
    "after Kafka acknowledged and before it is kept": CrashPoint("after", KafkaSink, "deliver"),
    "before the position is written": CrashPoint("before", Cursors, "save", _is_kafka_cursor),
    "while the position is written": CrashPoint(
        "before", Path, "replace", _path_ends_with("kafka.json.tmp")
    ),
    "after the position is kept": CrashPoint("after", Cursors, "save", _is_kafka_cursor),
    "before a segment is made": CrashPoint("before", Disk, "create", _creates_segment),
    "after a segment is made and before its heading": CrashPoint(
        "after", Disk, "create", _creates_segment
    ),
    "after a segment's heading": CrashPoint("after", SegmentWriter, "_begin_segment"),
    "before a checkpoint is written": CrashPoint("before", Disk, "append", _CHECKPOINT),
    "when half of a checkpoint is written": CrashPoint("half", Disk, "append", _CHECKPOINT),
    "after a checkpoint is written": CrashPoint("after", Disk, "append", _CHECKPOINT),
    "before a segment is compressed": CrashPoint("before", compression, "_write"),
    "while a segment is compressed": CrashPoint("before", compression, "_check"),
    "before a compressed segment is in place": CrashPoint(
        "before", Path, "replace", _path_ends_with(".gz.tmp")
    ),
    "when a segment is there twice": CrashPoint(
        "before", Path, "unlink", _path_ends_with(".jsonl")
    ),
    "before the index takes records in": CrashPoint("before", AuditIndex, "_index_batch"),
    "before the index is committed": CrashPoint("after", AuditIndex, "_save_cursor"),
}
"""What every run comes to that works for a while."""

LOSS_CRASH_POINTS: Final[Mapping[str, CrashPoint]] = {
    "before a loss is noted": CrashPoint("before", LossLog, "mark_pending"),
    "after a loss is noted and before it is recorded": CrashPoint("after", LossLog, "mark_pending"),
    "when a loss is half recorded": CrashPoint("half", Disk, "append", _writes_types(JOURNAL_LOST)),
    "after journal.lost and before that is noted": CrashPoint("before", LossLog, "mark_recorded"),
    "after journal.lost and before the removal": CrashPoint("before", compression, "remove"),
    "in the middle of the removal": CrashPoint("after", compression, "remove"),
}
"""What happens where records must go that a sink has not read."""

FIRST_START_CRASH_POINTS: Final[Mapping[str, CrashPoint]] = {
    "before there is a key": CrashPoint("before", key_file, "_write"),
    "before the key has its name": CrashPoint("before", Path, "hardlink_to"),
    "when the key has two names": CrashPoint("after", Path, "hardlink_to"),
    "before the public key is there": CrashPoint("before", key_file, "publish"),
    "while the public key is written": CrashPoint(
        "before", Path, "replace", _path_ends_with(".pub.tmp")
    ),
    "before the first segment": CrashPoint("before", Disk, "create", _creates_segment),
    "before the first heading": CrashPoint("after", Disk, "create", _creates_segment),
    "when half of the first heading is written": CrashPoint("half", Disk, "append", _CHECKPOINT),
    "after the first heading": CrashPoint("after", Disk, "append", _CHECKPOINT),
    "before the folder of positions is durable": CrashPoint(
        "before", atomic_files, "make_directory"
    ),
}
"""What happens only while a journal is begun."""

REPAIR_CRASH_POINTS: Final[Mapping[str, CrashPoint]] = {
    "before a torn end is set aside": CrashPoint("before", recovery, "_set_aside"),
    "after a torn end is copied and before it is cut off": CrashPoint("before", recovery, "fsync"),
    "after a torn end is cut off": CrashPoint("after", recovery, "_set_aside"),
    "while what was left open is sought": CrashPoint("before", recovery, "_find_open_intents"),
    "while the open end is made durable": CrashPoint("before", Disk, "reopen"),
}
"""What happens while the next run repairs the last one's end."""


def monkeypatch(owner: Any, name: str, value: object) -> None:  # a class or a module
    """Put something else in the place of a part that exists, in this process only."""
    assert hasattr(owner, name), f"{owner} has no {name}"
    setattr(owner, name, value)


def record_promises(path: Path) -> None:
    """From now on write down, in a file that outlives us, whatever was promised to a caller."""
    file = _opened(path)

    def write(line: str) -> None:
        os.write(file, f"{line}\n".encode())

    durable, begin, end = (
        PendingRecord.durable,
        JournalRecorder.record_intent,
        JournalRecorder.record_outcome,
    )

    async def appended(self: PendingRecord) -> int:
        seq = await durable(self)
        write(f"appended {seq} {self.event.id}")
        return seq

    async def begun(self: JournalRecorder, intent: Any) -> str:  # as record_intent
        id_ = await begin(self, intent)
        write(f"begun {id_} {intent.pod.uid}")
        return id_

    async def outcome_recorded(
        self: JournalRecorder, intent_id: str, outcome: Any
    ) -> None:  # as record_outcome
        await end(self, intent_id, outcome)
        write(f"ended {intent_id} {outcome.result}")

    monkeypatch(PendingRecord, "durable", appended)
    monkeypatch(JournalRecorder, "record_intent", begun)
    monkeypatch(JournalRecorder, "record_outcome", outcome_recorded)


def kill_at(name: str, nth: int, path: Path) -> None:
    """Have this process killed when it comes to a step for the nth time; the file says so."""
    step = {**CRASH_POINTS, **LOSS_CRASH_POINTS, **FIRST_START_CRASH_POINTS, **REPAIR_CRASH_POINTS}[
        name
    ]
    file, original = _opened(path), getattr(step.owner, step.name)
    left = nth

    def is_due(when: CrashTiming, *arguments: object) -> bool:
        nonlocal left
        if step.when != when or not step.applies(*arguments):
            return False
        left -= 1
        return left == 0

    def before(*arguments: Any) -> None:  # whatever the part takes
        if is_due("half", *arguments):
            _, descriptor, data = arguments
            half = data[: len(data) // 2]
            # two lines of one length: half of them would be a whole line, and nothing torn
            os.write(descriptor, half[:-10] if half.endswith(b"\n") else half)
            _kill_self(file, name)
        if is_due("before", *arguments):
            _kill_self(file, name)

    def after(*arguments: object) -> None:
        if is_due("after", *arguments):
            _kill_self(file, name)

    monkeypatch(step.owner, step.name, _wrapped(original, before, after))


def _wrapped(
    original: Callable[..., Any], before: Callable[..., None], after: Callable[..., None]
) -> Callable[..., Any]:
    """Return the same with something before and after it."""
    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def waiting(*arguments: Any, **named: Any) -> Any:  # whatever the part takes
            before(*arguments)
            result = await original(*arguments, **named)
            after(*arguments)
            return result

        return waiting

    @functools.wraps(original)
    def around(*arguments: Any, **named: Any) -> Any:  # whatever the part takes
        before(*arguments)
        result = original(*arguments, **named)
        after(*arguments)
        return result

    return around


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)


def _kill_self(file: int, name: str) -> NoReturn:
    os.write(file, f"died {name}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives that")
