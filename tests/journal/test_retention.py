"""What goes and what stays of a journal, and what that costs whom."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.journal.upkeep.retention import (
    CleanupPlan,
    Loss,
    Pins,
    SegmentInfo,
    plan_cleanup,
)
from reactive_desched.policy.settings.recording import RetentionSettings

KIB = 1024
DAY = 86_400.0


def limits(
    max_kib: int = 100, hard_kib: int = 200, max_age_s: float = 30 * DAY
) -> RetentionSettings:
    return RetentionSettings(
        max_bytes=max_kib * KIB, hard_max_bytes=hard_kib * KIB, max_age_s=max_age_s
    )


def held(first: int, kib: int = 10, *, compressed: bool = True) -> SegmentInfo:
    return SegmentInfo(first, kib * KIB, compressed)


def needs(open_from: int, oldest_open: int | None = None, **read_to: int) -> Pins:
    return Pins(active_first_seq=open_from, oldest_open_seq=oldest_open, acked_seqs=read_to)


FOUR = [held(1), held(11), held(21), held(31)]
"""Three closed segments of ten records and 10 KiB each, and an open one of the same size."""


def test_an_empty_journal_needs_nothing() -> None:
    assert plan_cleanup([], needs(1), limits()) == CleanupPlan()


def test_below_every_limit_nothing_goes() -> None:
    assert plan_cleanup(FOUR, needs(31), limits(max_kib=40)) == CleanupPlan()


def test_beyond_the_size_the_oldest_go_until_the_rest_fits() -> None:
    assert plan_cleanup(FOUR, needs(31), limits(max_kib=25)).remove == (1, 11)


def test_beyond_its_age_the_oldest_goes_and_no_other_in_the_same_round() -> None:
    assert plan_cleanup(FOUR, needs(31), limits(), oldest_age_s=40 * DAY).remove == (1,)
    assert plan_cleanup(FOUR, needs(31), limits(), oldest_age_s=30 * DAY).remove == ()


def test_where_segments_go_by_size_none_goes_by_age_in_the_same_round() -> None:
    done = plan_cleanup(FOUR, needs(31), limits(max_kib=30), oldest_age_s=400 * DAY)

    assert done.remove == (1,)


def test_the_open_segment_is_never_touched() -> None:
    huge = [held(1, kib=500, compressed=False)]

    assert plan_cleanup(huge, needs(1), limits(), oldest_age_s=400 * DAY) == CleanupPlan()


def test_a_segment_that_was_just_closed_is_closed_before_its_successor_has_a_file() -> None:
    alone = [held(1, kib=500, compressed=False)]

    done = plan_cleanup(alone, needs(11, kafka=3), limits())

    assert done == CleanupPlan(compress=(1,), losses=(Loss("kafka", 4, 10),), drop_unread=(1,))


def test_closed_segments_are_compressed_once() -> None:
    some = [held(1), held(11, compressed=False), held(21), held(31, compressed=False), held(41)]

    assert plan_cleanup(some, needs(41), limits()).compress == (11, 31)


def test_what_goes_by_age_is_not_compressed_first_but_what_goes_by_size_is() -> None:
    plain = [held(1, compressed=False), held(11, compressed=False), held(21)]

    by_age = plan_cleanup(plain, needs(21), limits(), oldest_age_s=40 * DAY)
    by_size = plan_cleanup(plain, needs(21), limits(max_kib=10))

    assert (by_age.compress, by_age.remove) == ((11,), (1,))
    assert (by_size.compress, by_size.remove) == ((1, 11), (1, 11))


def test_size_and_age_leave_what_a_sink_has_not_read() -> None:
    by_size = plan_cleanup(FOUR, needs(31, kafka=25, webhook=19), limits(max_kib=4))
    by_age = plan_cleanup(FOUR, needs(31, kafka=9), limits(), oldest_age_s=400 * DAY)

    assert by_size == CleanupPlan(remove=(1,))
    assert by_age == CleanupPlan()


def test_a_segment_goes_once_its_last_record_is_read() -> None:
    assert plan_cleanup(FOUR, needs(31, kafka=10), limits(max_kib=4)).remove == (1,)
    assert plan_cleanup(FOUR, needs(31, kafka=9), limits(max_kib=4)).remove == ()


def test_the_hard_cap_takes_what_a_sink_has_not_read_and_says_so_for_each_sink() -> None:
    done = plan_cleanup(FOUR, needs(31, kafka=15, stdout=30, webhook=0), limits(4, hard_kib=25))

    losses = (Loss("kafka", 16, 20), Loss("webhook", 1, 20))
    assert done == CleanupPlan(losses=losses, drop_unread=(1, 11))


def test_files_that_no_sink_needs_are_removed_before_the_losses_are_recorded() -> None:
    done = plan_cleanup(FOUR, needs(31, kafka=15), limits(4, hard_kib=25))

    assert done == CleanupPlan(remove=(1,), losses=(Loss("kafka", 16, 20),), drop_unread=(11,))


def test_a_sink_loses_only_what_was_still_there() -> None:
    rest = [held(21, kib=300), held(31)]

    assert plan_cleanup(rest, needs(31, kafka=5), limits()).losses == (Loss("kafka", 21, 30),)


def test_the_hard_cap_takes_no_more_than_it_must() -> None:
    assert plan_cleanup(FOUR, needs(31, kafka=0), limits(4, hard_kib=40)).drop_unread == ()
    assert plan_cleanup(FOUR, needs(31, kafka=0), limits(4, hard_kib=39)).drop_unread == (1,)


@pytest.mark.parametrize(
    ("oldest_open", "gone"),
    [(1, ()), (10, ()), (11, (1,)), (20, (1,)), (21, (1, 11)), (35, (1, 11, 21))],
)
def test_nothing_from_the_oldest_open_intent_on_goes_whatever_the_cap(
    oldest_open: int, gone: tuple[int, ...]
) -> None:
    big = [held(first, kib=500) for first in (1, 11, 21, 31)]

    assert plan_cleanup(big, needs(31, oldest_open), limits()).remove == gone
    assert plan_cleanup(big, needs(31, oldest_open, kafka=0), limits()).drop_unread == gone


def test_segments_with_an_open_intent_are_still_compressed() -> None:
    plain = [held(1, compressed=False), held(11)]

    assert plan_cleanup(plain, needs(11, oldest_open=1), limits()).compress == (1,)


# A tiny world, so that limits, positions and the open intent often meet.
@st.composite
def journals(draw: st.DrawFn) -> tuple[list[SegmentInfo], Pins, RetentionSettings]:
    lengths = draw(st.lists(st.integers(1, 3), max_size=8))
    first, segments = draw(st.integers(1, 4)), []
    for length in lengths:
        segments.append(held(first, draw(st.integers(1, 4)), compressed=draw(st.booleans())))
        first += length
    last = max(first, 1)
    open_from = draw(st.sampled_from([one.first_seq for one in segments] or [1]))
    seqs = st.integers(0, last)
    wanted = Pins(
        active_first_seq=draw(st.sampled_from([open_from, last])),
        oldest_open_seq=draw(st.none() | st.integers(1, last)),
        acked_seqs=draw(st.dictionaries(st.sampled_from(["kafka", "webhook"]), seqs)),
    )
    small = draw(st.integers(4, 12))
    return segments, wanted, limits(small, small + draw(st.integers(0, 8)))


def last_seqs(segments: Sequence[SegmentInfo], wanted: Pins) -> dict[int, int]:
    starts = [one.first_seq for one in segments] + [10**6]
    return {
        start: min(after, wanted.active_first_seq) - 1 if start < wanted.active_first_seq else 10**6
        for start, after in pairwise(starts)
    }


@given(journals(), st.sampled_from([DAY, 40 * DAY]))
def test_the_promises_hold_for_every_journal(
    journal: tuple[list[SegmentInfo], Pins, RetentionSettings], age_s: float
) -> None:
    segments, wanted, bounds = journal
    done, ends = (
        plan_cleanup(segments, wanted, bounds, oldest_age_s=age_s),
        last_seqs(segments, wanted),
    )
    gone = done.remove + done.drop_unread
    left = sum(one.size for one in segments[len(gone) :])
    smallest = segments[len(gone) - 1].size if gone else 0

    assert gone == tuple(one.first_seq for one in segments[: len(gone)]), "oldest first, no gap"
    assert all(first < wanted.active_first_seq for first in (*gone, *done.compress)), (
        "the open one stays"
    )
    assert all(ends[first] < (wanted.oldest_open_seq or 10**6) for first in gone), (
        "open intents stay"
    )
    lost = {loss.sink for loss in done.losses}
    unread = {sink for sink, read in wanted.acked_seqs.items() if gone and read < ends[gone[-1]]}
    assert lost == unread, "every loss is told"
    assert all(read >= ends[first] for read in wanted.acked_seqs.values() for first in done.remove)
    assert bool(done.drop_unread) == bool(lost)
    assert not lost or left + smallest > bounds.hard_max_bytes, "only the cap makes losses"
    stays = segments[len(gone) :]
    may_go = stays and ends[stays[0].first_seq] < min(
        wanted.active_first_seq, wanted.oldest_open_seq or 10**6
    )
    assert left <= bounds.hard_max_bytes or not may_go, "the cap is kept where it may be"
    for loss in done.losses:
        assert loss.first == max(wanted.acked_seqs[loss.sink] + 1, gone[0], done.drop_unread[0])
        assert loss.last == ends[gone[-1]]


@given(journals())
def test_doing_it_and_looking_again_finds_nothing_more_to_remove(
    journal: tuple[list[SegmentInfo], Pins, RetentionSettings],
) -> None:
    segments, wanted, bounds = journal
    done = plan_cleanup(segments, wanted, bounds)
    rest = [
        one._replace(is_compressed=one.is_compressed or one.first_seq in done.compress)
        for one in segments
        if one.first_seq not in done.remove + done.drop_unread
    ]

    assert plan_cleanup(rest, wanted, bounds) == CleanupPlan()
