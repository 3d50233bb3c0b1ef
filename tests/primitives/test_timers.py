from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.primitives.timers import Timers, earliest


def test_a_timer_rings_at_its_time_and_once() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10)

    assert timers.pop_due(9.9) is None
    assert timers.pop_due(10) == "a"
    assert timers.pop_due(11) is None


def test_a_new_time_replaces_the_old_one() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10)
    timers.set("a", 20)

    assert timers.pop_due(15) is None
    assert timers.next_due() == 20


def test_a_cancelled_timer_stays_silent() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10)
    timers.cancel("a")

    assert timers.next_due() is None
    assert timers.pop_due(100) is None


def test_setting_one_timer_again_and_again_does_not_grow_the_heap() -> None:
    timers: Timers[str] = Timers()
    for at in range(10_000):
        timers.set("a", at)

    assert len(timers._heap) == 1
    assert timers.pop_due(10_000) == "a"


def test_setting_a_timer_if_sooner_never_puts_it_off() -> None:
    timers: Timers[str] = Timers()
    timers.set_if_sooner("a", 10)
    timers.set_if_sooner("a", 20)
    assert timers.next_due() == 10
    timers.set_if_sooner("a", 5)
    assert timers.next_due() == 5

    assert timers.pop_due(5) == "a"
    timers.set_if_sooner("a", 20)
    assert timers.next_due() == 20


def test_timers_ring_in_the_order_of_their_times_and_equal_ones_as_they_were_set() -> None:
    timers: Timers[str] = Timers()
    for key, at in (("late", 9), ("b", 5), ("a", 5), ("early", 1)):
        timers.set(key, at)

    assert [timers.pop_due(10) for _ in range(5)] == ["early", "b", "a", "late", None]
    assert len(timers) == 0


def test_a_cancelled_timer_can_be_set_again_for_the_same_time() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10)
    timers.cancel("a")
    timers.set("a", 10)

    assert [timers.pop_due(10), timers.pop_due(10)] == ["a", None]


@pytest.mark.parametrize("times", [1, 2, 1000])
def test_setting_one_timer_anew_loses_no_other(times: int) -> None:
    timers: Timers[int] = Timers()
    for key in reversed(range(50)):
        timers.set(key, key)
    for _ in range(times):
        timers.set(7, 7)

    assert [timers.pop_due(100) for _ in range(51)] == [*range(50), None]


class CountedKey:
    """A key that counts how often it is looked up."""

    looked_up = 0

    def __hash__(self) -> int:
        CountedKey.looked_up += 1
        return id(self)


MANY = 1000
MOST_LOOKUPS = 25
"""Two for each level of a heap of a thousand, and a few more."""


def test_no_call_pays_for_timers_that_were_set_anew_or_cancelled_before() -> None:
    timers: Timers[CountedKey] = Timers()
    keys = [CountedKey() for _ in range(MANY)]
    most = 0

    def call(ask: Callable[[], object]) -> object:
        nonlocal most
        before = CountedKey.looked_up
        answer = ask()
        most = max(most, CountedKey.looked_up - before)
        return answer

    for turn in range(10):
        for key in keys:
            call(partial(timers.set, key, 1000 - turn))
    for key in keys:
        call(partial(timers.set, key, 5000))
    assert call(timers.next_due) == 5000
    for key in keys[:-1]:
        call(partial(timers.cancel, key))

    assert call(timers.next_due) == 5000
    assert call(partial(timers.pop_due, 5000)) is keys[-1]
    assert most <= MOST_LOOKUPS


steps = st.lists(
    st.tuples(
        st.sampled_from(["set", "set often", "cancel", "ring"]),
        st.sampled_from("abcdefghijkl"),
        st.integers(0, 20),
    ),
    max_size=120,
)


@given(steps)
def test_timers_ring_as_a_plain_table_would(steps: list[tuple[str, str, int]]) -> None:
    timers: Timers[str] = Timers()
    table: dict[str, tuple[int, int]] = {}
    turns = count()
    for step, key, at in steps:
        if step == "cancel":
            timers.cancel(key)
            table.pop(key, None)
        elif step == "ring":
            due = sorted((key for key in table if table[key][0] <= at), key=lambda key: table[key])
            assert timers.pop_due(at) == next(iter(due), None)
            for first in due[:1]:
                del table[first]
        else:
            for _ in range(40 if step == "set often" else 1):
                timers.set(key, at)
                table[key] = at, next(turns)
        assert timers.next_due() == min(table.values(), default=(None,))[0]
    rung = []
    while (ringing := timers.pop_due(20)) is not None:
        rung.append(ringing)
    assert rung == sorted(table, key=lambda key: table[key])


def test_the_earliest_time_is_that_of_those_that_come_at_all() -> None:
    assert earliest(None, 3.0, 2.0, None) == 2.0
    assert earliest(None, None) is None


def test_the_rounding_of_sums_does_not_decide_which_of_two_timers_rings_first() -> None:
    orders = []
    for booted_at in (0.0, 118.0482, 4083.212, 16_373.2246):
        timers: Timers[str] = Timers()
        timers.set("waits longest", booted_at + 0.001 + (100.0 - 17.001))
        timers.set("waits since later", booted_at + 26.001 + (100.0 - 43.001))
        timers.set("a millisecond later", booted_at + 83.001)
        orders.append([timers.pop_due(booted_at + 83.01) for _ in range(3)])

    assert orders == [["waits longest", "waits since later", "a millisecond later"]] * 4


def test_no_timer_rings_before_its_time() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10.0 + 1e-7)

    assert timers.pop_due(10.0) is None
    assert timers.next_due() == 10.0 + 1e-7
    assert timers.pop_due(10.0 + 1e-7) == "a"
