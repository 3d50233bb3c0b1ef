"""The search makes room for nearly as many pods as an exact solver, with few more moves."""

import os

import pytest

from tests.draining.rooms import broken_by, find, random_waiting
from tests.draining.small_clusters import SmallPlaces

IS_DEEP = os.environ.get("TIER") == "deep"
SEEDS = range(4 * int(os.environ.get("EXAMPLES", "500")) if IS_DEEP else 120)
DETERMINISTIC_TIME = 1.0 if IS_DEEP else 0.2


@pytest.mark.hypothesis
def test_room_is_made_for_nearly_as_many_pods_as_can_be_with_few_more_moves() -> None:
    from tests.draining.exact_rooms import fewest_moves  # imports pandas, which each worker would

    rooms = most = moves = fewest = 0
    for waiting in filter(None, map(random_waiting, SEEDS)):
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


def test_all_that_was_tried_is_taken_back() -> None:
    for waiting in filter(None, map(random_waiting, range(40))):
        places = SmallPlaces(waiting.cluster)
        found = find(waiting, places)

        assert places.tried == {}
        assert find(waiting, places) == found
