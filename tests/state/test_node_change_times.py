from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.node_conditions import MAX_CONDITIONS
from reactive_desched.model.objects import Node
from reactive_desched.model.taints import Taint
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.nodes import LONGEST_S, MAX_LABELS, NodeChangeTimes
from reactive_desched.testing.builders import node, taint

GPU = Taint("gpu", "NoSchedule")
STARTED_S = 1_000_000.0
"""The time of day at which the monotonic clock begins."""


class Seen:
    """A cluster state whose clocks are set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.state = ClusterState(
            clock=lambda: self.now_s, wall_clock=lambda: STARTED_S + self.now_s
        )

    @property
    def standing(self) -> NodeChangeTimes:
        return self.state.nodes.standing

    def at(self, now_s: float, *nodes: Node) -> "Seen":
        self.now_s = now_s
        for each in nodes:
            self.state.upsert(each)
        return self


def test_a_taint_stands_since_it_was_seen_to_be_set() -> None:
    seen = Seen().at(5, node("n1")).at(10, node("n1", "gpu:NoSchedule")).at(17)

    assert seen.standing.taint_s("n1", GPU) == 7


@pytest.mark.parametrize(
    "renewal",
    [
        pytest.param([node("n1"), node("n1", "gpu:NoSchedule")], id="removed and set again"),
        pytest.param(
            [node("n1", "gpu=a:NoSchedule"), node("n1", "gpu:NoSchedule")], id="another value"
        ),
        pytest.param(
            [node("n1", "gpu:PreferNoSchedule"), node("n1", "gpu:NoSchedule")], id="another effect"
        ),
        pytest.param(
            [replace(node("n1", "gpu:NoSchedule"), uid="another")], id="a node of the same name"
        ),
        pytest.param(
            [replace(node("n1", "gpu:NoSchedule"), taints_added_s=(12,))],
            id="set again during an outage",
        ),
    ],
)
def test_a_taint_that_is_renewed_begins_anew(renewal: list[Node]) -> None:
    seen = Seen().at(0, node("n1", "gpu:NoSchedule"))

    seen.at(20, *renewal).at(23)

    assert seen.standing.taint_s("n1", GPU) <= 3 + STARTED_S
    assert seen.standing.taint_s("n1", GPU) in (3, 23 - 20)


@pytest.mark.parametrize(
    "update",
    [
        pytest.param(node("n1", "gpu:NoSchedule", "a:NoSchedule"), id="another taint beside it"),
        pytest.param(node("n1", "gpu:NoSchedule", labels={"a": "b"}), id="a label"),
        pytest.param(node("n1", "gpu:NoSchedule", ready="False"), id="not ready"),
        pytest.param(node("n1", "gpu:NoSchedule", version=7), id="a heartbeat"),
    ],
)
def test_any_other_change_of_the_node_leaves_a_taint_as_it_stands(update: Node) -> None:
    seen = Seen().at(0, node("n1", "gpu:NoSchedule")).at(20, update).at(23)

    assert seen.standing.taint_s("n1", GPU) == 23


def test_what_stood_before_the_start_counts_from_then_on_unless_it_says_since_when() -> None:
    before = replace(
        node("n1", "gpu:NoSchedule", "a:NoSchedule"), taints_added_s=(None, int(STARTED_S) - 100)
    )
    seen = Seen().at(5, before).at(6)

    assert seen.standing.taint_s("n1", GPU) == 1
    assert seen.standing.taint_s("n1", taint("a:NoSchedule")) == 106


def test_a_time_that_lies_ahead_is_taken_for_now() -> None:
    ahead = replace(node("n1", "gpu:NoSchedule"), taints_added_s=(int(STARTED_S) + 1000,))

    assert Seen().at(5, ahead).standing.taint_s("n1", GPU) == 0


def test_a_label_is_as_it_is_since_it_changed_or_since_the_node_was_made() -> None:
    made = replace(node("n1", labels={"disk": "ssd"}), created_s=int(STARTED_S) - 50)
    seen = Seen().at(0, made)
    assert seen.standing.label_s("n1", "disk") == 50
    assert seen.standing.gone_s("n1", "pool") == 0

    seen.at(10, replace(made, labels={})).at(12)

    assert seen.standing.label_s("n1", "disk") == seen.standing.gone_s("n1", "disk") == 2
    assert seen.standing.label_s("n1", "other") == 62


def test_labels_that_changed_long_ago_are_forgotten_and_so_are_too_many() -> None:
    seen = Seen().at(0, node("n1"))
    for number in range(MAX_LABELS + 5):
        seen.at(1 + number / 1e6, node("n1", labels={f"l{number}": ""}))
    assert len(seen.standing._nodes["n1"].labels) <= MAX_LABELS

    seen.at(2 * LONGEST_S, node("n1", labels={"new": ""}))

    assert {"new"} <= seen.standing._nodes["n1"].labels.keys() <= {"new", f"l{MAX_LABELS + 4}"}


def test_a_node_is_ready_since_its_condition_changed() -> None:
    old = replace(node("n1"), ready_since_s=int(STARTED_S) - 1000)
    seen = Seen().at(0, old)
    assert seen.standing.ready_s("n1") == 1000

    seen.at(10, node("n1", ready="False")).at(20, node("n1")).at(21)

    assert seen.standing.ready_s("n1") == 1


def test_a_process_that_follows_takes_over_since_when_a_condition_stands() -> None:
    sick, well = (
        replace(node("n1"), conditions=(("KernelDeadlock", status),))
        for status in ("True", "False")
    )
    before = Seen().at(5, sick).at(20, well).at(25, sick).at(40)
    times = before.standing.seen("n1")
    assert times is not None
    follows, recovered = Seen().at(40, sick), Seen().at(40, well)
    follows.standing.restore(sick, times)
    recovered.standing.restore(well, times)

    assert follows.standing.condition_s("n1", "KernelDeadlock", "True", 5) == 30
    assert follows.standing.condition_s("n1", "KernelDeadlock", "True", 4) == 15
    assert recovered.standing.condition_s("n1", "KernelDeadlock", "False", 5) == 0


def test_a_condition_that_is_not_reported_for_long_begins_anew() -> None:
    sick = replace(node("n1"), conditions=(("KernelDeadlock", "True"),))
    seen = Seen().at(0, sick).at(10, node("n1")).at(15, sick).at(30)

    assert seen.standing.condition_s("n1", "KernelDeadlock", "True", 5) == 25
    assert seen.standing.condition_s("n1", "KernelDeadlock", "True", 4) == 15


def test_so_many_conditions_that_are_reported_no_more_are_forgotten() -> None:
    seen = Seen().at(0, node("n1"))
    for number in range(2 * MAX_CONDITIONS):
        seen.at(number, replace(node("n1"), conditions=((f"C{number}", "True"),)))
    times = seen.standing.seen("n1")

    assert times is not None
    assert len(times.conditions) == MAX_CONDITIONS
    assert f"C{2 * MAX_CONDITIONS - 1}" in times.conditions


def test_nothing_is_kept_of_a_node_that_is_gone() -> None:
    seen = Seen().at(0, node("n1", "gpu:NoSchedule"))

    seen.state.remove(node("n1"))

    assert seen.standing._nodes == {}
    assert seen.standing.taint_s("n1", GPU) == inf


taints = st.lists(st.sampled_from(["a:NoSchedule", "b:NoSchedule", "a=x:NoSchedule"]), max_size=2)


@given(st.lists(st.tuples(st.integers(1, 60), taints | st.none()), max_size=12))
def test_no_taint_stands_for_longer_than_it_was_there_without_a_break(
    steps: list[tuple[int, list[str] | None]],
) -> None:
    seen, since = Seen().at(0, node("n1")), dict[str, float]()
    for after_s, written in steps:
        if written is None:
            seen.now_s += after_s
            seen.state.remove(node("n1"))
            since = {}
        else:
            seen.at(seen.now_s + after_s, node("n1", *written))
            since = {each: since.get(each, seen.now_s) for each in written}

        for each, from_s in since.items():
            assert seen.standing.taint_s("n1", taint(each)) == seen.now_s - from_s
