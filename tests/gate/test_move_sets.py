"""Sets of pods that leave together: how many are followed until all pods of theirs have come."""

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.gate.move_sets import (
    BEGINS,
    MAX_COMING,
    NOT_TAINTED,
    OTHER_SET,
    SET_INCOMPLETE,
    MoveSets,
)
from reactive_desched.model.findings import Finding, MoveSet, RoomFor
from reactive_desched.model.objects import Pod
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import pod

A, B = pod("a", on="n1"), pod("b", on="n1")
BOTH = MoveSet("n1", (A.uid, B.uid))


def make_sets(*, marks: bool = False) -> MoveSets:
    view = ClusterView(ClusterState(), lambda: 0.0)
    node_fit = SchedulerNodeFit(view, lambda: 0.0)
    return MoveSets(view, MoveSettings(), node_fit, marks=marks)


def reason(sets: MoveSets, of: Pod, moved: MoveSet) -> str:
    decision = sets.check(Finding(of, "Test", "why", move_set=moved), 0.0, waits=False)
    assert decision is not None
    return decision.reason


def come_first_pods(sets: MoveSets, count: int) -> None:
    """Let the first pods of so many other sets come: each makes room for another pod."""
    for number in range(count):
        moved = MoveSet(
            "n2", (f"x{number}", f"y{number}"), rooms=(RoomFor(f"waits{number}", "n2"),)
        )
        assert reason(sets, pod(f"x{number}", on="n2"), moved) == SET_INCOMPLETE.code


def test_a_set_begins_when_its_last_pod_came_after_the_first_pods_of_others() -> None:
    sets = make_sets()
    assert reason(sets, A, BOTH) == SET_INCOMPLETE.code
    come_first_pods(sets, MAX_COMING - 1)

    assert reason(sets, B, BOTH) == BEGINS.code


def test_of_too_many_sets_that_never_become_complete_the_first_are_forgotten_and_come_again() -> (
    None
):
    sets = make_sets()
    assert reason(sets, A, BOTH) == SET_INCOMPLETE.code
    come_first_pods(sets, MAX_COMING)

    assert reason(sets, B, BOTH) == SET_INCOMPLETE.code
    assert reason(sets, A, BOTH) == SET_INCOMPLETE.code
    assert reason(sets, B, BOTH) == BEGINS.code


def test_the_nodes_that_follow_are_those_of_the_last_plan() -> None:
    sets = make_sets(marks=True)
    old, left_out = (MoveSet(name, (f"{name}-pod",)) for name in ("n1", "n2"))
    new, planned = (MoveSet(name, (f"{name}-pod",)) for name in ("n1", "n3"))
    for begins, follows in ((old, left_out), (new, planned)):
        assert reason(sets, pod("n1-pod", on="n1"), begins) == NOT_TAINTED.code
        other = pod(follows.pods[0], on=follows.node)
        assert reason(sets, other, follows) == OTHER_SET.code

    assert sets.following(0.0) == ["n3"]
    assert [each.node for each in sets.ready(0.0)] == ["n1"]
