"""A checkpoint that was kept is read in every form it is handed on in."""

from pathlib import Path

import pytest

from reactive_desched.audit.pinned_checkpoint import PinnedCheckpoint, parse_pinned
from reactive_desched.errors import ConfigError
from tests.support.journals import new_signer, some_events, write_journal

ROOT = "0123456789abcdef" * 4


def test_a_note_is_taken(tmp_path: Path) -> None:
    note = new_signer(tmp_path).sign(5, ROOT)

    kept = parse_pinned(note)

    assert (kept.size, kept.root) == (5, ROOT)
    assert kept.note is not None


@pytest.mark.parametrize("blank", ["\n", "\n\n\n"])
def test_blank_lines_behind_a_note_are_no_harm(tmp_path: Path, blank: str) -> None:
    note = new_signer(tmp_path).sign(5, ROOT)

    assert parse_pinned(note + blank) == parse_pinned(note)


def test_blank_lines_elsewhere_in_a_note_are_refused(tmp_path: Path) -> None:
    lines = new_signer(tmp_path).sign(5, ROOT).splitlines(keepends=True)

    for at in range(len(lines)):
        with pytest.raises(ConfigError, match="not a checkpoint's note"):
            parse_pinned("".join([*lines[:at], "\n", *lines[at:]]))


def test_of_lines_of_events_the_last_checkpoint_is_taken(tmp_path: Path) -> None:
    records = write_journal(tmp_path, some_events(6), checkpoint_every=2)
    lines = "".join(f"{entry.raw.decode()}\n" for entry in records)

    kept = parse_pinned(lines)

    assert kept.size == records[-1].seq - 1
    assert kept == parse_pinned(records[-1].raw.decode())


@pytest.mark.parametrize("digits", [12, 13, 64])
def test_size_and_the_beginning_of_the_hash_are_taken(digits: int) -> None:
    assert parse_pinned(f" 77:{ROOT[:digits].upper()}\n") == PinnedCheckpoint(77, ROOT[:digits])


@pytest.mark.parametrize(
    "text",
    ["", "77:0123456789a", f"77:{ROOT}0", "77", "x:0123456789ab", "{}", "[]", "{", "a note\n"],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="SIZE:HEX"):
        parse_pinned(text)


def test_events_without_a_checkpoint_among_them_are_refused(tmp_path: Path) -> None:
    records = write_journal(tmp_path, some_events(3))

    with pytest.raises(ConfigError, match=r"no audit\.checkpoint\.v1 event"):
        parse_pinned(records[1].raw.decode())
