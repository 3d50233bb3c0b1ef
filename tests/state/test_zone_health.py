"""Partial disruptions need more nodes than the property's world has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.objects import Node
from reactive_desched.model.volumes import REGION_LABEL
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.zone_health import (
    EXCLUDE_DISRUPTION_LABEL,
    Disruption,
    ZoneDisruptionChanged,
    ZoneHealth,
    ZoneRule,
    ready_until_released,
    zone_key,
    zone_status,
)
from reactive_desched.testing.builders import node

RULE = ZoneRule(55, 5)
nodes = st.builds(
    lambda number, zone, ready, excluded: node(
        f"n{number}",
        zone=zone,
        ready=ready,
        labels={EXCLUDE_DISRUPTION_LABEL: ""} if excluded else {},
    ),
    st.integers(0, 9),
    st.sampled_from(["a", "a", "a", "b"]),
    st.sampled_from(["True", "False", "Unknown", None]),
    st.sampled_from([False, False, False, True]),
)


def effects(index: ZoneHealth) -> dict[str, tuple[Disruption, bool]]:
    return {z: (status.disruption, status.is_large) for z, status in index.disrupted.items()}


@given(st.lists(st.tuples(st.sampled_from(["upsert", "upsert", "remove"]), nodes), max_size=40))
def test_a_zone_is_announced_when_and_only_when_its_disruption_changes(
    steps: list[tuple[str, Node]],
) -> None:
    state = ClusterState()
    index = state.index(ZoneHealth, RULE)
    for step, subject in steps:
        before = effects(index)
        changes = getattr(state, step)(subject)
        after = effects(index)
        announced = {c.zone for c in changes if isinstance(c, ZoneDisruptionChanged)}
        assert announced == {z for z in {*before, *after} if before.get(z) != after.get(z)}
        assert index.answers() == ZoneHealth(state, RULE).answers()


@pytest.mark.parametrize(
    ("ready", "not_ready", "expected"),
    [
        (0, 0, Disruption.NORMAL),
        (1, 0, Disruption.NORMAL),
        (0, 1, Disruption.FULL),
        (1, 2, Disruption.NORMAL),
        (2, 3, Disruption.PARTIAL),
        (27, 33, Disruption.PARTIAL),
        (28, 32, Disruption.NORMAL),
    ],
)
def test_the_states_are_those_of_the_node_lifecycle_controller(
    ready: int, not_ready: int, expected: Disruption
) -> None:
    assert zone_status(ready, not_ready, ZoneRule()).disruption is expected


@given(st.integers(0, 130), st.integers(1, 130), st.floats(1, 100))
def test_a_disrupted_zone_gives_pods_again_with_so_many_more_nodes_ready_and_not_with_fewer(
    ready: int, not_ready: int, percent: float
) -> None:
    rule = ZoneRule(percent)

    def gives_pods(more: int) -> bool:
        status = zone_status(ready + more, not_ready - more, rule)
        is_slowed = status.is_large and status.disruption is Disruption.PARTIAL
        return is_slowed or status.disruption is Disruption.NORMAL

    if not gives_pods(0):
        more = ready_until_released(zone_status(ready, not_ready, rule), rule)
        assert gives_pods(more)
        assert not any(map(gives_pods, range(more)))


def test_a_zone_is_named_with_its_region() -> None:
    assert zone_key(node("n", zone="a", labels={REGION_LABEL: "eu"})) == "eu/a"
    assert zone_key(node("n", zone="a")) == "a"
    assert zone_key(node("n")) == ""


def test_a_node_that_has_not_reported_yet_disrupts_nothing_before_or_after_it_does() -> None:
    state = ClusterState()
    state.upsert(node("n1", zone="a", ready=None))
    index = state.index(ZoneHealth, RULE)
    assert not index.are_all_lost

    state.upsert(node("n1", zone="a", ready="True"))
    assert not index.are_all_lost

    state.upsert(node("n1", zone="a", ready="False"))
    assert index.are_all_lost


def _with_condition(name: str, status: str) -> Node:
    return replace(node(name, zone="a"), conditions=(("KernelDeadlock", status),))


def test_a_ready_node_with_a_sick_condition_counts_as_one_that_is_not() -> None:
    rule = ZoneRule(55, 50, frozenset({("KernelDeadlock", "True")}))
    state = ClusterState()
    health = state.index(ZoneHealth, rule)
    for number in range(4):
        state.upsert(_with_condition(f"n{number}", "True" if number < 2 else "False"))
    assert health.disrupted == {}

    changes = state.upsert(_with_condition("n2", "True"))

    assert ZoneDisruptionChanged("a") in changes
    assert (health.disrupted["a"].sick, health.disrupted["a"].not_ready) == (3, 3)
    state.upsert(_with_condition("n2", "False"))
    assert health.disrupted == {}


@pytest.mark.parametrize(("sick", "full"), [(1, False), (2, False), (3, True)])
def test_a_zone_of_two_sick_nodes_still_gives_its_pods(sick: int, *, full: bool) -> None:
    status = zone_status(0, sick, RULE, sick)

    assert (status.disruption is Disruption.FULL) == full
