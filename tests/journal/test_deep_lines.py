"""A line nested more deeply than anything can be read is one damaged line, and no more."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reactive_desched.api.event import POLICY_LOADED
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.journal import open_journal
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import JournalConfig
from reactive_desched.journal.records import parse_header, recorded_at
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.upkeep import limits
from tests.support.dead_letters import read_dead_letters
from tests.support.journals import some_events, write_journal

DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def as_type(line: bytes) -> object:
    return decode_event(POLICY_LOADED, line)


def as_unknown(line: bytes) -> object:
    return decode_event("of.a.later.version", line)


@pytest.mark.parametrize("read", [parse_header, recorded_at, as_type, as_unknown])
def test_it_says_nothing(read: Callable[[bytes], object]) -> None:
    assert read(DEEP) is None


def test_as_a_position_it_is_none(tmp_path: Path) -> None:
    positions = Cursors(tmp_path)
    positions.save("kafka", 3, "")
    positions.save("webhook", 4, "")
    (tmp_path / "kafka.json").write_bytes(DEEP)

    assert positions.read("kafka") is None
    assert list(positions.all()) == ["webhook"]


def test_as_limits_it_is_none(tmp_path: Path) -> None:
    limits.write(tmp_path, limits.RetentionLimits(1, 1.0, 1, compress=True))
    [path] = tmp_path.iterdir()
    path.write_bytes(DEEP)

    assert limits.read(tmp_path) is None


def test_among_dead_letters_it_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "kafka.jsonl"
    letter = b'{"sink":"kafka","sequence":7,"time":"","reason":"","event":""}'
    path.write_bytes(b"\n".join((letter, DEEP, letter, b"")))

    assert [one.sequence for one in read_dead_letters(path)] == [7, 7]


@pytest.mark.anyio
async def test_a_journal_that_holds_it_is_opened_and_gone_on_with(tmp_path: Path) -> None:
    records = write_journal(tmp_path, some_events(20))
    [file] = list_segments(tmp_path)
    lines = file.path.read_bytes().splitlines(keepends=True)
    file.path.write_bytes(b"".join((*lines[:5], DEEP + b"\n", *lines[5:])))

    making = JournalConfig(Rotation(1 << 24, 1e9))
    async with open_journal(tmp_path, making, clock=lambda: datetime.now(UTC)) as journal:
        assert journal.recovery.damaged_lines == 1
        await journal.append(some_events(1, source=journal.source)[0])
        assert journal.tail.last_seq > records[-1].seq
