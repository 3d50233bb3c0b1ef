"""Of a journal of weeks, a controller that is run over minutes of it reads what it needs alone."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.segments import list_segments, segments_of_time
from reactive_desched.replay.recorded_decisions import (
    AROUND_S,
    OPEN_S,
    JournalPart,
    MadeDecision,
    read_entries,
)
from tests.support.journals import some_events, write_journal

BEGAN = datetime(2026, 5, 1, tzinfo=UTC)
APART = timedelta(minutes=10)
EVENTS, PER_SEGMENT = 1000, 20
ENDED_S = (BEGAN + EVENTS * APART).timestamp()


def spread_events() -> Iterator[AnyEvent]:
    """Yield events of a week, each of shortly before its record is written."""
    for number, each in enumerate(some_events(EVENTS)):
        sequence = number + number // PER_SEGMENT + 2  # each segment has a checkpoint at its head
        yield replace(each, time=BEGAN + sequence * APART - timedelta(seconds=30))


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("journal")
    write_journal(
        directory,
        spread_events(),
        per_segment=PER_SEGMENT,
        began=BEGAN,
        apart=APART,
        compress=True,
    )
    return directory


@given(
    st.floats(BEGAN.timestamp() - OPEN_S, ENDED_S + OPEN_S),
    st.floats(0.0, 2 * OPEN_S),
    st.integers(0, EVENTS),
)
def test_the_part_of_a_time_has_the_decisions_about_it_and_the_evictions_of_a_day_before(
    week: Path, began_s: float, lasts_s: float, sequence: int
) -> None:
    part = JournalPart(sequence, began_s, began_s + lasts_s)

    assert read_entries(week, part) == [
        (number, each)
        for number, each in read_entries(week)
        if number > sequence
        and began_s - (AROUND_S if is_verdict(each) else OPEN_S) <= each.at.wall_s
        and each.at.wall_s <= began_s + lasts_s + AROUND_S
    ]


def is_verdict(entry: object) -> bool:
    return isinstance(entry, MadeDecision) and entry.verdict in ("evict", "defer", "refuse")


def test_of_the_segments_of_other_days_the_first_record_is_read_alone(tmp_path: Path) -> None:
    write_journal(tmp_path, spread_events(), per_segment=PER_SEGMENT, began=BEGAN, apart=APART)
    part = JournalPart(0, ENDED_S - 3 * OPEN_S, ENDED_S - 3 * OPEN_S + 60.0)
    before = read_entries(tmp_path, part)
    needed = segments_of_time(tmp_path, part.since_s, part.until_s)

    for each in list_segments(tmp_path):
        if each not in needed:
            first, _, rest = each.path.read_bytes().partition(b"\n")
            each.path.write_bytes(first + b"\n" + bytes(len(rest)))

    assert before
    assert read_entries(tmp_path, part) == before
    assert 1 < len(needed) < len(list_segments(tmp_path)) // 3


def test_a_segment_during_which_the_clock_was_set_back_may_have_any_time(tmp_path: Path) -> None:
    events = list(spread_events())[:PER_SEGMENT]
    write_journal(tmp_path, events, per_segment=5, began=BEGAN, apart=APART)
    first, *_, last_but_one, _ = list_segments(tmp_path)
    began, of_next_day = (f'"recordedtime":"2026-05-0{day}'.encode() for day in (1, 2))
    first.path.write_bytes(first.path.read_bytes().replace(began, of_next_day, 1))

    at_s = (BEGAN + 3 * APART).timestamp()
    found = segments_of_time(tmp_path, at_s, at_s)

    assert first in found
    assert last_but_one not in found
