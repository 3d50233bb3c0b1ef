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

from reactive_desched.api.event import CHECKPOINT, EVICTION_REQUESTED, JOURNAL_LOST, OUTCOMES
from reactive_desched.audit.index import Index
from reactive_desched.journal import durable, recovery
from reactive_desched.journal.cursors import Positions
from reactive_desched.journal.disk import Disk
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.log import Log
from reactive_desched.journal.recorder import Ledger
from reactive_desched.journal.signing import key_file
from reactive_desched.journal.tail import Tail
from reactive_desched.journal.upkeep import compression
from reactive_desched.journal.upkeep.loss_log import Losses
from reactive_desched.sinks.kafka.sink import KafkaSink
from tests.support.crash_world import World

__all__ = ["FIRST", "LOSSES", "REPAIRS", "STEPS", "Step", "acknowledge", "die_at", "replace"]

When = Literal["before", "half", "after"]
Held = Callable[..., bool]
"""Told the arguments of a call: whether it is the one that is meant."""


class Step(Struct, frozen=True):
    """A moment in a life: before a call, after it, or when half of what it writes is written."""

    when: When
    owner: Any  # a class or a module
    name: str
    is_meant: Held = lambda *_: True


def _writes(*types: str) -> Held:
    """Mean writes that hold an event of one of these types."""
    marks = [f'"type":"{type_}"'.encode() for type_ in types]
    return lambda _disk, _descriptor, data: any(mark in data for mark in marks)


def _named(ending: str) -> Held:
    """Mean paths that end so."""
    return lambda path, *_: str(path).endswith(ending)


def _creates_segment(_: Disk, path: Path) -> bool:
    return path.name.startswith("journal-")


def _position_of_kafka(_: Positions, name: str, *__: object) -> bool:
    return name == "kafka"


_OUTCOME: Final = _writes(*OUTCOMES)
_INTENT: Final = _writes(EVICTION_REQUESTED)
_SEAL: Final = _writes(CHECKPOINT)

STEPS: Final[Mapping[str, Step]] = {
    "before the intent is written": Step("before", Disk, "append", _INTENT),
    "when half of the intent is written": Step("half", Disk, "append", _INTENT),
    "when the intent is durable and nobody knows": Step("after", Disk, "append", _INTENT),
    "before the call": Step("before", World, "evict"),
    "after the server accepted and before it answers": Step("after", World, "accept"),
    "after the answer and before the outcome": Step("before", Ledger, "end"),
    "before the outcome is written": Step("before", Disk, "append", _OUTCOME),
    "when half of the outcome is written": Step("half", Disk, "append", _OUTCOME),
    "after the outcome and before the relay": Step("after", Disk, "append", _OUTCOME),
    "after the outcome is told to those who follow": Step("after", Tail, "published"),
    "before Kafka is told": Step("before", KafkaSink, "deliver"),
    "after Kafka acknowledged and before it is kept": Step("after", KafkaSink, "deliver"),
    "before the position is written": Step("before", Positions, "keep", _position_of_kafka),
    "while the position is written": Step("before", Path, "replace", _named("kafka.json.tmp")),
    "after the position is kept": Step("after", Positions, "keep", _position_of_kafka),
    "before a segment is made": Step("before", Disk, "create", _creates_segment),
    "after a segment is made and before its heading": Step(
        "after", Disk, "create", _creates_segment
    ),
    "after a segment's heading": Step("after", Log, "_begin_segment"),
    "before a checkpoint is written": Step("before", Disk, "append", _SEAL),
    "when half of a checkpoint is written": Step("half", Disk, "append", _SEAL),
    "after a checkpoint is written": Step("after", Disk, "append", _SEAL),
    "before a segment is compressed": Step("before", compression, "_write"),
    "while a segment is compressed": Step("before", compression, "_check"),
    "before a compressed segment is in place": Step("before", Path, "replace", _named(".gz.tmp")),
    "when a segment is there twice": Step("before", Path, "unlink", _named(".jsonl")),
    "before the index takes records in": Step("before", Index, "_take"),
    "before the index is committed": Step("after", Index, "_keep"),
}
"""What everybody goes through who works for a while."""

LOSSES: Final[Mapping[str, Step]] = {
    "before a loss is noted": Step("before", Losses, "begin"),
    "after a loss is noted and before it is told": Step("after", Losses, "begin"),
    "when a loss is half told": Step("half", Disk, "append", _writes(JOURNAL_LOST)),
    "after journal.lost and before that is noted": Step("before", Losses, "end"),
    "after journal.lost and before the removal": Step("before", compression, "remove"),
    "in the middle of the removal": Step("after", compression, "remove"),
}
"""What happens where records must go that a sink has not read."""

FIRST: Final[Mapping[str, Step]] = {
    "before there is a key": Step("before", key_file, "_write"),
    "before the key has its name": Step("before", Path, "hardlink_to"),
    "when the key has two names": Step("after", Path, "hardlink_to"),
    "before the public key is there": Step("before", key_file, "publish"),
    "while the public key is written": Step("before", Path, "replace", _named(".pub.tmp")),
    "before the first segment": Step("before", Disk, "create", _creates_segment),
    "before the first heading": Step("after", Disk, "create", _creates_segment),
    "when half of the first heading is written": Step("half", Disk, "append", _SEAL),
    "after the first heading": Step("after", Disk, "append", _SEAL),
    "before the folder of positions is durable": Step("before", durable, "make_directory"),
}
"""What happens only while a journal is begun."""

REPAIRS: Final[Mapping[str, Step]] = {
    "before a torn end is set aside": Step("before", recovery, "_set_aside"),
    "after a torn end is copied and before it is cut off": Step("before", recovery, "fsync"),
    "after a torn end is cut off": Step("after", recovery, "_set_aside"),
    "while what was left open is sought": Step("before", recovery, "_find_open"),
    "while the open end is made durable": Step("before", Disk, "reopen"),
}
"""What happens while the next life repairs the last one's end."""


def replace(owner: Any, name: str, value: object) -> None:  # a class or a module
    """Put something else in the place of a part, in this process only."""
    setattr(owner, name, value)


def acknowledge(path: Path) -> None:
    """From now on write down, in a file that outlives us, whatever was promised to a caller."""
    file = _opened(path)

    def write(line: str) -> None:
        os.write(file, f"{line}\n".encode())

    append, begin, end = Journal.append, Ledger.begin, Ledger.end

    async def appended(self: Journal, event: Any) -> int:  # any kind of data
        seq = await append(self, event)
        write(f"appended {seq} {event.id}")
        return seq

    async def begun(self: Ledger, intent: Any) -> str:  # as Ledger.begin
        id_ = await begin(self, intent)
        write(f"begun {id_} {intent.pod.uid}")
        return id_

    async def ended(self: Ledger, intent_id: str, outcome: Any) -> None:  # as Ledger.end
        await end(self, intent_id, outcome)
        write(f"ended {intent_id} {outcome.result}")

    replace(Journal, "append", appended)
    replace(Ledger, "begin", begun)
    replace(Ledger, "end", ended)


def die_at(name: str, nth: int, path: Path) -> None:
    """Have this process killed when it comes to a step for the nth time; the file says so."""
    step = {**STEPS, **LOSSES, **FIRST, **REPAIRS}[name]
    file, original = _opened(path), getattr(step.owner, step.name)
    left = nth

    def is_due(when: When, *arguments: object) -> bool:
        nonlocal left
        if step.when != when or not step.is_meant(*arguments):
            return False
        left -= 1
        return left == 0

    def before(*arguments: Any) -> None:  # whatever the part takes
        if is_due("half", *arguments):
            _, descriptor, data = arguments
            os.write(descriptor, data[: len(data) // 2])
            _die(file, name)
        if is_due("before", *arguments):
            _die(file, name)

    def after(*arguments: object) -> None:
        if is_due("after", *arguments):
            _die(file, name)

    replace(step.owner, step.name, _around(original, before, after))


def _around(
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


def _die(file: int, name: str) -> NoReturn:
    os.write(file, f"died {name}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives that")
