"""A node that is being deleted, or that another program empties, is no place for a pod."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.node_marks import NODE_MARK_GROUPS, taint_of
from reactive_desched.model.objects import Node
from reactive_desched.testing.builders import node, pod
from tests.support.golden import verbatim

PlaceMaker = Callable[..., Any]

MOVER = pod("mover", on="n1", tolerates="*")
EMPTYING = [
    taint_of(key, mark)
    for group in NODE_MARK_GROUPS
    for key, mark in group.marks.items()
    if mark.empties
]
EMPTIED = [
    pytest.param(replace(node("n2"), is_terminating=True), id="is being deleted"),
    *(pytest.param(replace(node("n2"), taints=(each,)), id=each.key) for each in EMPTYING),
]


@pytest.mark.parametrize("emptied", EMPTIED)
def test_it_takes_no_pod_whatever_the_pod_tolerates(place: PlaceMaker, emptied: Node) -> None:
    here = place(node("n1"), emptied, MOVER)

    assert here.fitting(MOVER) == set()
    assert here.why_not(MOVER) == {verbatim("node(s) were being deleted or emptied by others"): 1}


@pytest.mark.parametrize(
    "taint",
    [
        "node.kubernetes.io/unschedulable:NoSchedule",
        "DeletionCandidateOfClusterAutoscaler:PreferNoSchedule",
        "gpu:NoSchedule",
    ],
)
def test_another_taint_keeps_off_only_who_does_not_tolerate_it(
    place: PlaceMaker, taint: str
) -> None:
    assert place(node("n1"), node("n2", taint), MOVER).fitting(MOVER) == {"n2"}


@pytest.mark.parametrize("emptied", EMPTIED)
def test_a_pod_that_waits_is_woken_by_the_node_that_comes_in_its_place(
    place: PlaceMaker, emptied: Node
) -> None:
    here = place(node("n1"), emptied, MOVER)
    wakes = here.park(MOVER)

    here.put(node("n2", version=2))

    assert here.fit.find_other_node(MOVER, EVERYTHING) == "n2"
    assert {hint.wake for hint in here.fit.take_capacity_hints()} & wakes


@pytest.mark.parametrize("emptied", EMPTIED)
def test_a_place_that_was_found_is_lost_when_the_node_is_emptied(
    place: PlaceMaker, emptied: Node
) -> None:
    here = place(node("n1"), node("n2"), MOVER)
    assert here.let_go(MOVER) == "n2"
    assert not here.fit.lost_place(MOVER)

    here.put(emptied)

    assert here.fit.lost_place(MOVER)


@pytest.mark.parametrize(
    "by_now",
    [
        pytest.param(node("n2", unschedulable=True), id="cordoned"),
        pytest.param(node("n2", "gpu:NoSchedule"), id="tainted"),
        pytest.param(node("n2", ready="False"), id="not ready"),
        pytest.param(node("n2", ready="Unknown"), id="unreachable"),
        pytest.param(node("n2", labels={"disk": "hdd"}), id="relabelled"),
        pytest.param(None, id="gone"),
    ],
)
def test_a_place_that_was_found_is_lost_when_the_node_changes(
    place: PlaceMaker, by_now: Node | None
) -> None:
    mover = pod("mover", on="n1", requires="disk=ssd")
    found = node("n2", labels={"disk": "ssd"})
    here = place(node("n1"), found, mover)
    assert here.let_go(mover) == "n2"

    if by_now is None:
        here.remove(found)
    else:
        here.put(by_now)

    assert here.fit.lost_place(mover)


def test_no_place_is_lost_of_a_pod_that_needed_none(place: PlaceMaker) -> None:
    here = place(node("n1"), replace(node("n2"), is_terminating=True), MOVER)

    assert not here.fit.lost_place(MOVER)
