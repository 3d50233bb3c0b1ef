from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.primitives.timers import DebounceConfig, DebounceQueue


def due(held: DebounceQueue[str, str], now: float) -> list[tuple[str, str]]:
    keys = []
    while (key := held.pop_due(now)) is not None:
        keys.append(key)
    return keys


def test_a_key_is_due_once_it_has_been_quiet() -> None:
    held: DebounceQueue[str, str] = DebounceQueue(DebounceConfig(5, 30))
    held.enqueue("n1", 0, "first")
    held.enqueue("n1", 4, "second")

    assert due(held, 8.9) == []
    assert due(held, 9) == [("n1", "first")]
    assert due(held, 100) == []


def test_a_key_that_never_rests_is_due_after_the_longest_wait() -> None:
    held: DebounceQueue[str, str] = DebounceQueue(DebounceConfig(5, 12))
    for now in range(12):
        held.enqueue("n1", now, str(now))

    assert due(held, 11.9) == []
    assert due(held, 12) == [("n1", "0")]


def test_a_restless_key_does_not_hold_up_a_quiet_one() -> None:
    held: DebounceQueue[str, str] = DebounceQueue(DebounceConfig(5, 30))
    held.enqueue("restless", 0, "")
    held.enqueue("quiet", 1, "")
    held.enqueue("restless", 5, "")

    assert due(held, 6) == [("quiet", "")]


def test_without_a_pause_a_key_is_due_at_once() -> None:
    held: DebounceQueue[str, str] = DebounceQueue(DebounceConfig(0, 0))
    held.enqueue("n1", 7, "now")

    assert held.next_due() == 7
    assert due(held, 7) == [("n1", "now")]


touches = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), max_size=40)


@given(touches, st.integers(0, 5), st.integers(0, 15))
def test_every_key_is_due_exactly_when_its_rule_says(
    touches: list[tuple[str, int]], quiet: int, longest: int
) -> None:
    held: DebounceQueue[str, int] = DebounceQueue(DebounceConfig(quiet, longest))
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    now = 0
    for key, pause in touches:
        now += pause
        expected = {k for k in first if last[k] + quiet <= now or first[k] + longest <= now}
        if expected:
            nearest = min(min(last[k] + quiet, first[k] + longest) for k in first)
            assert held.next_due() is not None
            assert held.next_due() <= now  # type: ignore[operator]  # checked above
            assert held.next_due() == nearest
        popped = set()
        while (item := held.pop_due(now)) is not None:
            popped.add(item[0])
        assert popped == expected
        for k in expected:
            del first[k], last[k]
        first.setdefault(key, now)
        last[key] = now
        held.enqueue(key, now, now)
    assert len(held) == len(first)
