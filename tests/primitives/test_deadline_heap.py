from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.primitives.deadline_heap import Timers, earliest


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

    assert len(timers._heap) < 200
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


def test_rebuilding_the_heap_loses_no_timer() -> None:
    timers: Timers[int] = Timers()
    for key in reversed(range(50)):
        timers.set(key, key)
    for _ in range(1000):
        timers.set(7, 7)

    assert [timers.pop_due(100) for _ in range(51)] == [*range(50), None]


steps = st.lists(
    st.tuples(st.sampled_from(["set", "cancel"]), st.sampled_from("abcd"), st.integers(0, 20)),
    max_size=60,
)


@given(steps)
def test_timers_ring_as_a_plain_table_would(steps: list[tuple[str, str, int]]) -> None:
    timers: Timers[str] = Timers()
    table: dict[str, int] = {}
    for step, key, at in steps:
        if step == "set":
            timers.set(key, at)
            table[key] = at
        else:
            timers.cancel(key)
            table.pop(key, None)
        assert timers.next_due() == min(table.values(), default=None)
    rung = []
    while (ringing := timers.pop_due(20)) is not None:
        rung.append(table[ringing])
    assert rung == sorted(table.values())


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
