from collections.abc import Callable
from pathlib import Path

from reactive_desched.journal.events import read_events
from reactive_desched.journal.records import GENESIS, AnyEvent, encode, format_line

MakeIntent = Callable[[str], AnyEvent]


def whole(seq: int, event: AnyEvent) -> bytes:
    return format_line(encode(event), GENESIS, "2026-03-29T01:30:00.000000Z", seq) + b"\n"


def segment(directory: Path, first: int, *raw: bytes) -> Path:
    path = directory / f"journal-{first:020}.jsonl"
    path.write_bytes(b"".join(raw))
    return path


def test_segments_are_read_in_the_order_of_their_numbers_and_nothing_else_is(
    tmp_path: Path, intent: MakeIntent
) -> None:
    for seq, key in ((10, "third"), (2, "second"), (1, "first")):
        segment(tmp_path, seq, whole(seq, intent(key)))
    (tmp_path / "journal-00000000000000000001.jsonl.torn").write_bytes(b"x\n")
    (tmp_path / "lock").write_bytes(b"process 1\n")

    records = list(read_events(tmp_path))

    assert [event.id for event in records] == ["first", "second", "third"]


def test_what_cannot_be_read_is_reported_with_its_place(tmp_path: Path, intent: MakeIntent) -> None:
    good = whole(1, intent("a"))
    path = segment(tmp_path, 1, good, b"nonsense\n", good)
    skipped = []

    records = list(
        read_events(tmp_path, lambda path, line: skipped.append((path, line.offset, line.raw)))
    )

    assert len(records) == 2
    assert skipped == [(path, len(good), b"nonsense\n")]


def test_an_event_of_a_type_from_a_later_version_is_read_as_plain_json(
    tmp_path: Path, intent: MakeIntent
) -> None:
    later = whole(1, intent("a")).replace(b"eviction.requested.v1", b"eviction.pondered.v3")
    segment(tmp_path, 1, later)

    [event] = read_events(tmp_path)

    assert event.type.endswith(".eviction.pondered.v3")
    assert event.data["who"]["name"] == "web-a"


def test_a_line_that_is_still_being_written_is_not_reported(
    tmp_path: Path, intent: MakeIntent
) -> None:
    good = whole(1, intent("a"))
    segment(tmp_path, 1, good, good[:-1])
    skipped: list[object] = []

    assert len(list(read_events(tmp_path, lambda *place: skipped.append(place)))) == 1
    assert skipped == []


def test_fields_of_a_later_version_do_not_disturb(tmp_path: Path, intent: MakeIntent) -> None:
    raw = whole(1, intent("a"))[:-2] + b',"zeal":"c0ffee"}\n'
    segment(tmp_path, 1, raw)

    assert [event.id for event in read_events(tmp_path)] == ["a"]
