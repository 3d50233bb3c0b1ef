"""A work set that knows when."""

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.sim.work_set import WorkSet


def take(agenda: WorkSet[str], now: float, limit: int = 99) -> list[str]:
    """Return what is due."""
    return list(agenda.take_due(now, limit))


def test_equal_moments_come_in_order_of_arrival() -> None:
    agenda: WorkSet[str] = WorkSet()
    for key in "cab":
        agenda.add(key)

    assert take(agenda, 0.0) == ["c", "a", "b"]


def test_the_earlier_of_two_moments_wins() -> None:
    agenda: WorkSet[str] = WorkSet()
    agenda.add("a", 10)
    agenda.add("a", 5)
    agenda.add("a", 20)

    assert agenda.due() == 5
    assert take(agenda, 7) == ["a"]
    assert agenda.due() is None


def test_a_key_taken_may_come_again_later() -> None:
    agenda: WorkSet[str] = WorkSet()
    agenda.add("a", 10)
    agenda.add("a", 5)
    take(agenda, 5)

    agenda.add("a", 30)

    assert take(agenda, 29) == []
    assert take(agenda, 30) == ["a"]


def test_no_more_than_the_limit_is_taken() -> None:
    agenda: WorkSet[str] = WorkSet()
    for key in "abc":
        agenda.add(key)

    assert take(agenda, 0.0, limit=2) == ["a", "b"]
    assert (len(agenda), "c" in agenda) == (1, True)


def test_what_is_dropped_is_not_due() -> None:
    agenda: WorkSet[str] = WorkSet()
    agenda.add("a")
    agenda.drop("a")
    agenda.drop("never there")

    assert agenda.due() is None


def test_moments_that_are_brought_forward_do_not_pile_up() -> None:
    agenda: WorkSet[str] = WorkSet()

    for at in range(1000, 0, -1):
        agenda.add("a", at)

    assert len(agenda._heap) < 100
    assert take(agenda, 1) == ["a"]


moves = st.lists(
    st.tuples(st.sampled_from(["add", "drop", "take"]), st.sampled_from("abc"), st.integers(0, 9)),
    max_size=300,
)


@given(moves)
def test_it_behaves_as_a_plain_map_of_moments(story: list[tuple[str, str, int]]) -> None:
    agenda: WorkSet[str] = WorkSet()
    plain: dict[str, float] = {}
    for move, key, at in story:
        if move == "add":
            agenda.add(key, at)
            plain[key] = min(at, plain.get(key, at))
        elif move == "drop":
            agenda.drop(key)
            plain.pop(key, None)
        else:
            due = {name for name, moment in plain.items() if moment <= at}
            assert set(take(agenda, at)) == due
            for name in due:
                del plain[name]
        assert agenda.due() == min(plain.values(), default=None)
