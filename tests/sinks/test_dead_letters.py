import os
from pathlib import Path

import pytest

from reactive_desched.journal.records import JournalRecord
from reactive_desched.sinks.dead_letters import DeadLetterFiles
from tests.support.dead_letters import read_dead_letters
from tests.support.entries import eviction_entries

TIME = "2026-03-29T01:30:01.000Z"


def kept(path: Path) -> list[int]:
    return [letter.sequence for letter in read_dead_letters(path)]


def test_a_letter_holds_the_event_byte_for_byte(tmp_path: Path) -> None:
    graves = DeadLetterFiles(tmp_path / "dead-letters")
    (entry,) = eviction_entries(1)

    graves.append("kafka", entry, "too large", TIME)

    (letter,) = read_dead_letters(graves.path("kafka"))
    assert (letter.sink, letter.sequence, letter.reason) == ("kafka", 1, "too large")
    assert letter.time == TIME
    assert letter.event.encode() == entry.raw


def test_letters_are_appended_and_each_sink_has_a_file_of_its_own(tmp_path: Path) -> None:
    one, two, three = eviction_entries(3)
    for entry in (one, three):
        DeadLetterFiles(tmp_path / "dead-letters").append("kafka", entry, "no", TIME)
    DeadLetterFiles(tmp_path / "dead-letters").append("webhook", two, "no", TIME)

    assert kept(tmp_path / "dead-letters/kafka.jsonl") == [1, 3]
    assert kept(tmp_path / "dead-letters/webhook.jsonl") == [2]


def test_a_line_that_a_crash_tore_does_not_take_the_next_with_it(tmp_path: Path) -> None:
    graves = DeadLetterFiles(tmp_path)
    one, two, three = eviction_entries(3)
    graves.append("kafka", one, "no", TIME)
    graves.append("kafka", two, "no", TIME)
    path = graves.path("kafka")
    os.truncate(path, path.stat().st_size - 20)

    graves.append("kafka", three, "no", TIME)

    assert kept(path) == [1, 3]


def test_at_the_bound_the_older_half_moves_and_what_moved_before_is_dropped(
    tmp_path: Path,
) -> None:
    entries = eviction_entries(60)
    graves = DeadLetterFiles(tmp_path, max_bytes=20 * (len(entries[0].raw) + 200))
    older = tmp_path / "kafka.jsonl.1"
    dropped = 0
    for number, entry in enumerate(entries, 1):
        dropped += graves.append("kafka", entry, "no", TIME)
        assert [*range(dropped + 1, number + 1)] == [
            *(kept(older) if older.exists() else []),
            *kept(graves.path("kafka")),
        ]
        assert graves.path("kafka").stat().st_size <= 20 * (len(entries[0].raw) + 200)

    assert dropped > 0


def test_a_letter_that_could_not_be_written_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graves = DeadLetterFiles(tmp_path)
    one, two, three = eviction_entries(3)
    graves.append("kafka", one, "no", TIME)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            graves.append("kafka", two, "no", TIME)
    graves.append("kafka", three, "no", TIME)

    assert kept(graves.path("kafka")) == [1, 3]


def test_an_event_that_is_not_unicode_is_kept_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    graves = DeadLetterFiles(tmp_path)

    graves.append("kafka", JournalRecord(7, b'{"a":"\xff"}'), "no", TIME)

    (letter,) = read_dead_letters(graves.path("kafka"))
    assert letter.event == '{"a":"\ufffd"}'
