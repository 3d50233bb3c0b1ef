"""What a plan of utilization keeps of its destinations stays right while pods move to them."""

from itertools import chain
from typing import Any

from reactive_desched.draining.landing import Landing
from reactive_desched.draining.room import MAX_REFUSED, MAX_TRIED, Admission, BookedRoom
from reactive_desched.model.objects import Pod
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.node_utilization import NodeUtilization
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import build_view, plugin_from_policy

SMALL = {"cpu": "1", "memory": "1Gi", "pods": "110"}
LARGE = {"cpu": "1", "memory": "64Gi", "pods": "110"}


def open_room(*objects: Any) -> tuple[BookedRoom, Any]:
    """Return the room of the nodes that use at most half of their cpu, and the view."""
    plugin = plugin_from_policy(
        LowNodeUtilizationPlugin,
        LowNodeUtilizationArgs,
        thresholds={"cpu": 50, "memory": 50},
        targetThresholds={"cpu": 90, "memory": 90},
    )
    state = ClusterState()
    state.keep_indexes(plugin.required_indexes)
    for each in objects:
        state.upsert(each)
    view = build_view(state, wall_clock=lambda: 1.0)
    room = BookedRoom(view.index(NodeUtilization, plugin.rule), view, [])
    for _ in chain(room.count(), room.put_in_order()):
        pass
    return room, view


def admission(room: BookedRoom, asked: Pod) -> Admission:
    amounts = room.used_by(asked)
    assert amounts is not None
    return at_once(room.admits(asked, amounts))


def take(room: BookedRoom, moved: Pod) -> None:
    amounts = room.used_by(moved)
    assert amounts is not None
    room.take(moved, amounts)


def test_a_pod_that_fits_on_none_is_looked_at_again_once_the_order_of_the_nodes_is_another() -> (
    None
):
    """Only the emptiest nodes are tried, and one that is filled is none of them any more."""
    nodes = [node(f"small-{number:02}", allocatable=SMALL) for number in range(MAX_TRIED)]
    room, _ = open_room(
        *nodes,
        node("large", allocatable=LARGE),
        pod("there", on="large", requests={"cpu": "300m"}),
    )
    big = pod("big", on="full", requests={"cpu": "10m", "memory": "8Gi"})
    filling = pod("filling", on="full", requests={"cpu": "600m"})

    assert admission(room, big) is Admission.NO
    assert admission(room, filling) is Admission.YES
    assert admission(room, big) is Admission.NO, "nothing has moved yet"
    assert admission(room, filling) is Admission.YES
    take(room, filling)

    assert admission(room, big) is Admission.YES


def test_a_filled_node_takes_no_more_than_it_has_left() -> None:
    room, _ = open_room(node("n1", allocatable=SMALL), node("n2", allocatable=SMALL))
    asked = pod("web", on="full", requests={"cpu": "500m"})

    answers = []
    for _ in range(3):
        answers.append(admission(room, asked))
        if answers[-1] is Admission.YES:
            take(room, asked)

    assert answers == [Admission.YES, Admission.YES, Admission.NO]


def test_of_sizes_that_fit_on_none_a_limited_number_is_kept() -> None:
    room, _ = open_room(node("n1", allocatable=SMALL))
    for size in range(MAX_REFUSED + 1):
        asked = pod("web", on="full", requests={"cpu": f"{2_000 + size}m"})
        assert admission(room, asked) is Admission.NO

    assert len(room._refused) == 1


def test_the_pods_of_a_workload_on_the_destinations_count_as_the_plan_has_moved_them() -> None:
    web = [pod(f"web-{on}", on=on, owner="ReplicaSet/web") for on in ("full", "n1")]
    _, view = open_room(*map(node, ("full", "n1", "n2")), *web)
    landing = Landing(view, [], packs=False)
    turns = landing.turns({"n1", "n2"})
    landing.count_leaving(web[0], "n2")
    assert at_once(turns.of(web[0])) == 2

    landing.count_leaving(web[0], "n1")
    assert at_once(turns.of(web[0])) == 3
    landing.count_leaving(web[1], "n2")
    assert at_once(turns.of(web[0])) == 3, "from one destination to another"
    landing.count_leaving(web[1])
    assert at_once(turns.of(web[0])) == 2
