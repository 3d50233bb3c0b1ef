"""Which pods of a namespace leave, or left a moment ago, as plugins see it."""

from msgspec.structs import replace

from reactive_desched.gate.profile_view import AT_ONCE, MAX_LEFT, ProfileView
from reactive_desched.model.node_marks import ReasonRules
from reactive_desched.model.objects import Pod
from reactive_desched.state.cluster import ClusterState
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import build_view
from tests.support.manual_clock import ManualClock


def cluster(*pods: Pod) -> tuple[ManualClock, ClusterState]:
    clock = ManualClock()
    state = ClusterState(clock=clock.now)
    state.upsert(node("n1"))
    for each in pods:
        state.upsert(each)
    return clock, state


def seen(view: ProfileView, namespace: str = "default") -> list[tuple[str, float]]:
    return [(each.pod.name, each.wait_s) for each in view.departures_of(namespace)]


def test_those_that_leave_come_first_and_then_the_latest() -> None:
    a, b, c, other = (pod(n, on="n1") for n in ("a", "b", "c", "other"))
    other = replace(other, namespace="other", uid="other")
    clock, state = cluster(a, b, c, other)
    view = build_view(state, rules=ReasonRules(use_s=60))
    state.remove(a)
    clock.advance(20)
    state.remove(b)
    state.remove(other)
    state.upsert(replace(c, deletion_s=1))

    assert seen(view) == [("c", 60), ("b", 60), ("a", 40)]
    assert seen(view, "other") == [("other", 60)]
    clock.advance(50)
    assert seen(view) == [("c", 60), ("b", 10)]


def test_one_that_was_moved_does_not_come_back_whether_it_is_gone_or_not() -> None:
    gone, going = pod("gone", on="n1"), pod("going", on="n1")
    _, state = cluster(gone, going)
    view = build_view(state, rules=ReasonRules(use_s=60))
    state.remove(gone)
    view.note_moved(gone.uid)
    view.note_moved(going.uid)
    state.upsert(replace(going, deletion_s=1))
    assert seen(view) == []

    state.remove(going)

    assert seen(view) == []


def test_so_many_are_looked_at_and_in_a_sweep_none() -> None:
    pods = [pod(f"p{number}", on="n1") for number in range(MAX_LEFT + 1)]
    _, state = cluster(*pods)
    for each in pods:
        state.remove(each)

    assert len(seen(build_view(state, rules=ReasonRules(use_s=60)))) == MAX_LEFT
    assert seen(build_view(state, rules=AT_ONCE)) == []
