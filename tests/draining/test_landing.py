"""The pull on a replacement is counted once for a workload, and follows what a plan moves."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.draining.landing import Landing
from reactive_desched.model import node_scores
from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL, Pod
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.replica_places import ReplicaPlaces
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import build_view

ZONES = ("a", "b", "c", "")
NODES = tuple(f"n{number}" for number in range(6))
SPREAD = ((HOSTNAME_LABEL, 3), (ZONE_LABEL, 5))


def spread_costs(
    counts: dict[str, int], zones: dict[str, str], leaving: str
) -> tuple[dict[str, int], int]:
    """Weigh the pods of a workload on each node by its rule, and those of the fullest of its nodes.

    `counts` are by node, with those from which all were moved.
    """
    there = {**counts, leaving: counts.get(leaving, 1) - 1}
    by_zone: Counter[str] = Counter()
    for name, number in there.items():
        if zones[name]:
            by_zone[zones[name]] += number

    def cost(name: str) -> int:
        total = node_scores.spread_cost(there.get(name, 0), 3, len(zones))
        if zones[name]:
            total += node_scores.spread_cost(by_zone[zones[name]], 5, len(by_zone))
        return node_scores.rounded_cost(total)

    return {name: cost(name) for name in zones}, max(map(cost, there))


def points(pull: Any, name: str) -> float:
    """Return the points of a node for a pod that asks for nothing: those of the spread alone."""
    full = node_scores.RESOURCES_FIT_WEIGHT * node_scores.MAX_SCORE
    return float(full - pull.of(name))


@given(
    st.lists(st.sampled_from(ZONES), min_size=len(NODES), max_size=len(NODES)),
    st.lists(st.sampled_from(NODES), min_size=2, max_size=12),
    st.data(),
)
def test_nodes_have_the_points_that_counting_anew_gives_after_any_moves(
    zone_of: list[str], places: list[str], data: st.DataObject
) -> None:
    zones = dict(zip(NODES, zone_of, strict=True))
    state = ClusterState()
    state.keep_indexes([(ReplicaPlaces, None)])
    for name, zone in zones.items():
        state.upsert(node(name, zone=zone, allocatable={"cpu": "8", "memory": "8Gi"}))
    pods = [pod(f"p{at}", on=name, owner="ReplicaSet/web") for at, name in enumerate(places)]
    for each in pods:
        state.upsert(each)
    landing = Landing(build_view(state, wall_clock=lambda: 1.0), (), packs=False)
    counts: dict[str, int] = dict(Counter(places))

    staying: list[Pod] = list(pods)
    while staying:
        asked = staying.pop(data.draw(st.integers(0, len(staying) - 1)))
        pull = at_once(landing.pull_on(asked))
        costs, highest = spread_costs(counts, zones, asked.node)
        if pull is None:
            assert len(counts) == 1
        else:
            weight = node_scores.TOPOLOGY_SPREAD_WEIGHT * node_scores.MAX_SCORE
            wanted = {n: round(weight * c / highest) if highest else 0 for n, c in costs.items()}
            assert {name: points(pull, name) for name in NODES} == wanted
        if data.draw(st.booleans()):
            to = data.draw(st.sampled_from(("", *NODES)))
            landing.count_leaving(asked, to)
            counts[asked.node] -= 1
            if to:
                counts[to] = counts.get(to, 0) + 1
