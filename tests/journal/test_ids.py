from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from reactive_desched.journal.ids import Ids

START = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


class Ones(Random):
    """Chance at its worst: every bit set, so that the next id carries into the time."""

    def getrandbits(self, k: int, /) -> int:
        return (1 << k) - 1


@pytest.fixture(params=[Random, Ones])
def rng(request: pytest.FixtureRequest) -> Random:
    make: Callable[[int], Random] = request.param
    return make(7)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([0, 0, 0], id="within one millisecond"),
        pytest.param([0, 5, 9], id="as time goes on"),
        pytest.param([0, -3_600_000, 1], id="when the clock goes back an hour"),
    ],
)
def test_ids_always_rise(rng: Random, steps: list[int]) -> None:
    times = iter(START + timedelta(milliseconds=step) for step in steps)
    ids = Ids(lambda: next(times), rng)

    made = [ids.next() for _ in steps]

    assert made == sorted(set(made))
    assert {len(key) for key in made} == {26}


def test_ids_sort_by_time() -> None:
    early = Ids(lambda: START, Random(1)).next()
    late = Ids(lambda: START + timedelta(milliseconds=1), Random(2)).next()

    assert early < late


def test_the_same_clock_and_chance_give_the_same_ids() -> None:
    first, second = (Ids(lambda: START, Random(3)) for _ in "ab")

    assert [first.next(), first.next()] == [second.next(), second.next()]


def test_an_id_is_a_ulid() -> None:
    epoch = datetime.fromtimestamp(1_469_918_176.385, UTC)

    assert Ids(lambda: epoch, Random(1)).next()[:10] == "01ARYZ6S41"
