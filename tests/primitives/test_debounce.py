from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.primitives.debounce import Debounce, Pause


def due(held: Debounce[str, str], now: float) -> list[tuple[str, str]]:
    keys = []
    while (key := held.pop_due(now)) is not None:
        keys.append(key)
    return keys


def test_a_key_is_due_once_it_has_been_quiet() -> None:
    held: Debounce[str, str] = Debounce(Pause(5, 30))
    held.touch("n1", 0, "first")
    held.touch("n1", 4, "second")

    assert due(held, 8.9) == []
    assert due(held, 9) == [("n1", "first")]
    assert due(held, 100) == []


def test_a_key_that_never_rests_is_due_after_the_longest_wait() -> None:
    held: Debounce[str, str] = Debounce(Pause(5, 12))
    for now in range(12):
        held.touch("n1", now, str(now))

    assert due(held, 11.9) == []
    assert due(held, 12) == [("n1", "0")]


def test_a_restless_key_does_not_hold_up_a_quiet_one() -> None:
    held: Debounce[str, str] = Debounce(Pause(5, 30))
    held.touch("restless", 0, "")
    held.touch("quiet", 1, "")
    held.touch("restless", 5, "")

    assert due(held, 6) == [("quiet", "")]


def test_without_a_pause_a_key_is_due_at_once() -> None:
    held: Debounce[str, str] = Debounce(Pause(0, 0))
    held.touch("n1", 7, "now")

    assert held.next_due() == 7
    assert due(held, 7) == [("n1", "now")]


touches = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), max_size=40)


@given(touches, st.integers(0, 5), st.integers(0, 15))
def test_every_key_is_due_exactly_when_its_rule_says(
    touches: list[tuple[str, int]], quiet: int, longest: int
) -> None:
    held: Debounce[str, int] = Debounce(Pause(quiet, longest))
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
        held.touch(key, now, now)
    assert len(held) == len(first)
