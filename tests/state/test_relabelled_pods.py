"""Since when a selector matches a pod: for five minutes, and no more than so many changes."""

from math import inf

import pytest

from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.usage import LEFT_PODS_KEPT_S
from reactive_desched.state import relabelled_pods
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.relabelled_pods import RelabelledPods
from reactive_desched.testing.builders import pod
from tests.support.manual_clock import ManualClock

LEADER = LabelSelector({"role": "leader"})


def test_it_matches_since_the_last_time_that_it_did_not() -> None:
    clock = ManualClock()
    kept = RelabelledPods(clock.now)
    kept.add(pod("a", labels={"role": "replica"}))
    clock.advance(10)
    kept.add(pod("a", labels={"role": "leader"}))  # something else differs
    clock.advance(5)

    assert kept.matched_s("a", LEADER) == 15
    assert kept.matched_s("b", LEADER) == inf


def test_what_was_so_five_minutes_ago_is_dropped_with_the_next_change() -> None:
    clock = ManualClock()
    kept = RelabelledPods(clock.now)
    kept.add(pod("a"))
    clock.advance(LEFT_PODS_KEPT_S + 1)
    kept.add(pod("b"))

    assert kept.matched_s("a", LEADER) == inf
    assert kept.matched_s("b", LEADER) == 0


def test_of_more_changes_than_are_kept_the_first_ones_are_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relabelled_pods, "MAX_KEPT", 2)
    kept = RelabelledPods(ManualClock().now)
    for name in ("a", "b", "c"):
        kept.add(pod(name))

    assert [kept.matched_s(name, LEADER) for name in ("a", "b", "c")] == [inf, 0, 0]


def test_the_state_notes_what_a_pod_on_a_node_had() -> None:
    clock = ManualClock()
    state = ClusterState(clock=clock.now)
    state.upsert(pod("a", on="n1", labels={"role": "replica"}, version=1))
    state.upsert(pod("a", on="n1", labels={"role": "leader"}, version=2))
    clock.advance(3)

    assert state.pods.relabelled.matched_s("a", LEADER) == 3
