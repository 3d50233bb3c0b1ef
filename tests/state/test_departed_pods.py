"""Which pods left a node a moment ago: for five minutes, and no more than so many."""

import pytest

from reactive_desched.model.usage import LEFT_PODS_KEPT_S
from reactive_desched.state import departed_pods
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.departed_pods import DepartedPods
from reactive_desched.testing.builders import pod, pod_status
from tests.support.manual_clock import ManualClock


def gone(departed: DepartedPods, node: str) -> list[tuple[float, str]]:
    return [(since_s, each.name) for since_s, each in departed.of_node(node)]


def test_each_is_kept_with_for_how_long_it_is_gone() -> None:
    clock = ManualClock()
    departed = DepartedPods(clock.now)
    departed.add(pod("a", on="n1"))
    clock.advance(10)
    departed.add(pod("b", on="n2"))
    departed.add(pod("c", on="n1"))
    clock.advance(5)

    assert gone(departed, "n1") == [(15, "a"), (5, "c")]
    assert gone(departed, "n2") == [(5, "b")]
    assert gone(departed, "n3") == []


def test_what_left_five_minutes_ago_is_dropped_with_the_next_one_on_whatever_node() -> None:
    clock = ManualClock()
    departed = DepartedPods(clock.now)
    departed.add(pod("a", on="n1"))
    clock.advance(LEFT_PODS_KEPT_S + 1)
    departed.add(pod("b", on="n2"))

    assert gone(departed, "n1") == []
    assert gone(departed, "n2") == [(0, "b")]


def test_beyond_the_bound_the_first_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed_pods, "MAX_KEPT", 2)
    departed = DepartedPods(ManualClock().now)
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")):
        departed.add(pod(name, on=node))

    assert [name for _, name in gone(departed, "n1")] == ["b"]
    assert [name for _, name in gone(departed, "n2")] == ["c"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "deleted"])
def test_a_pod_leaves_its_node_once_when_it_ends_or_is_deleted(phase: str) -> None:
    state = ClusterState()
    running = pod("a", on="n1", uid="u")
    state.upsert(running)
    assert gone(state.pods.departed, "n1") == []

    if phase != "deleted":
        state.upsert(pod("a", on="n1", uid="u", status=pod_status(phase)))
        assert gone(state.pods.departed, "n1") == [(0, "a")]
    state.remove(running)

    assert gone(state.pods.departed, "n1") == [(0, "a")]


def test_a_pod_that_was_on_no_node_left_none() -> None:
    state = ClusterState()
    state.upsert(pod("a"))
    state.remove(pod("a"))

    assert gone(state.pods.departed, "") == []


def test_one_that_was_moved_is_left_out_before_and_after_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(departed_pods, "MAX_KEPT", 2)
    departed = DepartedPods(ManualClock().now)
    a, b = pod("a", on="n1"), pod("b", on="n1")
    departed.add(a)
    departed.moved(a.uid)
    departed.moved(b.uid)
    departed.add(b)
    assert gone(departed, "n1") == []

    for name in ("c", "d", "e"):  # the first one is one too many
        departed.moved(pod(name, on="n1").uid)
    departed.add(pod("c", on="n1"))
    departed.add(pod("d", on="n1"))
    assert gone(departed, "n1") == [(0, "c")]
