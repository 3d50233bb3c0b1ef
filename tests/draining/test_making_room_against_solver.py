"""The search makes room for nearly as many pods as an exact solver, with few more moves."""

import os
from collections.abc import Callable

import pytest

from reactive_desched.draining.making_room import find_rooms
from tests.draining.rooms import (
    SmallFinder,
    broken_by,
    broken_by_gang,
    find,
    random_gang,
    random_waiting,
)
from tests.draining.small_clusters import (
    SmallCluster,
    SmallPlaces,
    constrained_cluster,
    random_cluster,
)
from tests.support.planned import planned

IS_DEEP = os.environ.get("TIER") == "deep"
SEEDS = range(4 * int(os.environ.get("EXAMPLES", "500")) if IS_DEEP else 120)
DETERMINISTIC_TIME = 1.0 if IS_DEEP else 0.2


@pytest.mark.hypothesis
@pytest.mark.parametrize("draw", [random_cluster, constrained_cluster])
def test_room_is_made_for_nearly_as_many_pods_as_can_be_with_few_more_moves(
    draw: Callable[[int], SmallCluster],
) -> None:
    """Constrained clusters have spread, volumes, and more pods that stay besides.

    The solver may move any pod of any node.
    """
    from tests.draining.exact_rooms import fewest_moves  # imports pandas, which each worker would

    rooms = most = moves = fewest = 0
    for waiting in filter(None, (random_waiting(seed, draw) for seed in SEEDS)):
        room = find(waiting)
        optimum = fewest_moves(waiting, DETERMINISTIC_TIME)
        rooms += room is not None
        most += optimum is not None
        if room is not None:
            assert broken_by(waiting, room) == []
            moves += len(room.places)
            fewest += len(room.places) if optimum is None else optimum

    assert most, "no pod waits"
    assert rooms >= 0.95 * most, (rooms, most)
    assert moves <= 1.2 * fewest, (moves, fewest)


@pytest.mark.hypothesis
def test_room_is_made_for_nearly_as_many_gangs_as_can_be_with_few_more_moves() -> None:
    """A prefix of the moves is harmless: each pod fits where it goes beside those before it."""
    from tests.draining.exact_rooms import fewest_moves_for_gang

    rooms = most = moves = fewest = 0
    for waiting in filter(None, map(random_gang, SEEDS)):
        found = planned(find_rooms(waiting.pods, len(waiting.pods), SmallFinder(waiting.cluster)))
        optimum = fewest_moves_for_gang(waiting, DETERMINISTIC_TIME)
        rooms += bool(found)
        most += optimum is not None
        if found:
            assert broken_by_gang(waiting, found) == []
            made = sum(len(room.places) for room in found)
            moves += made
            fewest += made if optimum is None else optimum

    assert most, "no gang waits"
    assert rooms >= 0.95 * most, (rooms, most)
    assert moves <= 1.2 * fewest, (moves, fewest)


def test_where_not_all_of_a_gang_fit_no_room_is_taken() -> None:
    without = 0
    for waiting in filter(None, map(random_gang, range(100))):
        finder = SmallFinder(waiting.cluster)
        if not planned(find_rooms(waiting.pods, len(waiting.pods), finder)):
            without += 1
            assert (finder.places.tried, finder.moving) == ({}, set())
            assert finder.places.is_untouched

    assert without


def test_all_that_was_tried_is_taken_back() -> None:
    for waiting in filter(None, map(random_waiting, range(40))):
        places = SmallPlaces(waiting.cluster)
        found = find(waiting, places)

        assert places.tried == {}
        assert find(waiting, places) == found
