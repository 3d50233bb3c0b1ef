"""What is tried counts by all of the kube-scheduler's rules, and nothing of it is left."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.draining.emptying import Giver, plan_emptying
from reactive_desched.fit.labels import READ_AT_ONCE
from reactive_desched.fit.reservations import CapacityReservation
from reactive_desched.fit.tried_moves import TriedMoves
from reactive_desched.model.labels import LabelSelector, Requirement
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    ClusterObject,
    HostPort,
    Node,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from reactive_desched.primitives.long_answers import AnswerTakesLong
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.anti_affinity import anti_affinity_term, selector, with_anti_affinity
from reactive_desched.testing.builders import node, pod, with_spec
from tests.support.planned import planned

ALL = (1 << 64) - 1


class Trial:
    """A cluster, and moves that are tried there; nodes by their names."""

    def __init__(
        self, *objects: ClusterObject, reserved: Iterable[CapacityReservation] = ()
    ) -> None:
        self.state = ClusterState()
        for obj in objects:
            self.state.upsert(obj)
        self.tried = TriedMoves(ClusterView(self.state, lambda: 0.0))
        self.reserved = tuple(reserved)
        self.begin()

    def begin(self) -> None:
        for _ in self.tried.begin(self.reserved):
            pass

    def number(self, name: str) -> int:
        found = self.tried.number_of(name)
        assert found is not None
        return found

    def fitting(self, of: Pod) -> set[str]:
        found = self.tried.fitting(of, ALL)
        return {self.tried.name_of(n) for n in range(64) if found >> n & 1}

    def move(self, of: Pod, to: str) -> None:
        self.tried.move(of, self.number(to))


def web(name: str, on: str, cpu: str = "1") -> Pod:
    return pod(name, on=on, labels={"app": "web"}, requests={"cpu": cpu, "memory": "1Gi"})


def small(name: str, zone: str | None = None, **more: Any) -> Node:
    return node(name, zone=zone, allocatable={"cpu": "2", "memory": "4Gi", "pods": "10"}, **more)


def apart(of: Pod) -> Pod:
    return with_anti_affinity(of, anti_affinity_term("app=web"))


def port(of: Pod) -> Pod:
    return with_spec(of, host_ports=(HostPort(80),))


def test_a_tried_move_takes_the_room_of_its_pod_until_it_is_taken_back() -> None:
    first, second = web("first", "n1"), web("second", "n1")
    trial = Trial(small("n1"), small("n2"), first, second, web("third", "n2"))
    assert trial.fitting(second) == {"n2"}
    assert trial.tried.fullness(trial.number("n2")) == 0.5

    trial.move(first, "n2")
    assert trial.fitting(second) == set()
    assert trial.tried.fullness(trial.number("n2")) == 1.0

    trial.tried.undo(first)
    assert trial.fitting(second) == {"n2"}
    assert trial.tried.room(trial.number("n2")) == 0.5


def test_what_a_search_that_was_left_had_tried_counts_no_more_after_the_next_beginning() -> None:
    first, second = web("first", "n1"), web("second", "n1")
    trial = Trial(small("n1"), small("n2"), first, second, web("third", "n2"))
    trial.move(first, "n2")
    assert trial.fitting(second) == set()

    trial.begin()

    assert trial.fitting(second) == {"n2"}


@pytest.mark.parametrize(
    "rule", [pytest.param(apart, id="anti-affinity"), pytest.param(port, id="host port")]
)
def test_two_pods_that_may_not_be_together_do_not_move_to_one_node(rule: Any) -> None:
    first, second = (rule(web(name, "n1", "100m")) for name in ("first", "second"))
    trial = Trial(small("n1"), small("n2"), small("n3"), first, second)

    trial.move(first, "n2")

    assert trial.fitting(second) == {"n3"}


ANY_WEB = LabelSelector(match_expressions=(Requirement("app", "In", ("web", "other")),))
"""It requires no single label."""


@pytest.mark.parametrize(
    "matched",
    [
        pytest.param(selector("app=web"), id="by a label"),
        pytest.param(ANY_WEB, id="by one of several values"),
        pytest.param(LabelSelector(), id="all pods"),
    ],
)
@pytest.mark.parametrize("is_theirs", [False, True])
def test_a_tried_move_keeps_away_whom_a_term_matches(
    matched: LabelSelector, *, is_theirs: bool
) -> None:
    term = PodAffinityTerm(HOSTNAME_LABEL, matched)
    first, second = web("first", "n1", "100m"), web("second", "n1", "100m")
    other = replace(web("third", "n1", "100m"), labels={"app": "db"})
    if is_theirs:
        first = with_anti_affinity(first, term)
    else:
        second, other = with_anti_affinity(second, term), with_anti_affinity(other, term)
    trial = Trial(small("n1"), small("n2"), small("n3"), first, second, other)
    trial.move(first, "n2")

    assert trial.fitting(second) == {"n3"}
    is_matched = not is_theirs or matched.is_empty
    assert trial.fitting(other) == ({"n3"} if is_matched else {"n2", "n3"})
    trial.tried.undo(first)
    assert trial.fitting(second) == trial.fitting(other) == {"n2", "n3"}


def test_spread_is_counted_after_all_tried_moves() -> None:
    rule = TopologySpreadConstraint(1, ZONE_LABEL, label_selector=selector("app=web"))
    pods = [
        with_spec(web(name, on, "100m"), topology_spread_constraints=(rule,))
        for name, on in (("a1", "n1"), ("a2", "n1"), ("b1", "n3"), ("b2", "n3"))
    ]
    zones = {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}
    trial = Trial(*(small(name, zone) for name, zone in zones.items()), *pods)
    assert trial.fitting(pods[0]) == {"n2"}  # b would have three, and a one

    trial.move(pods[2], "n2")  # a has three then, and b one
    assert trial.fitting(pods[0]) == {"n3", "n4"}


def test_what_is_reserved_for_evicted_pods_counts_and_is_not_tried_twice() -> None:
    evicted, second = web("evicted", "n1"), web("second", "n1")
    reserved = CapacityReservation(evicted, "n2", 120.0)
    nodes = small("n1"), small("n2")
    trial = Trial(*nodes, second, web("third", "n2"), reserved=[reserved])
    assert trial.fitting(second) == set()

    trial.reserved = ()
    trial.begin()
    assert trial.fitting(second) == {"n2"}


def test_the_cluster_is_followed_while_moves_are_tried() -> None:
    first, second = web("first", "n1"), web("second", "n1")
    trial = Trial(small("n1"), small("n2"), small("n3"), first, second)
    trial.move(first, "n2")

    trial.state.upsert(small("n3", unschedulable=True))
    trial.state.upsert(web("new", "n2"))

    assert trial.fitting(second) == set()


def test_the_search_empties_nodes_by_these_rules_and_leaves_nothing_tried() -> None:
    a, b = apart(web("a", "n1", "100m")), apart(web("b", "n2", "100m"))
    stays = web("stays", "n3", "100m")
    other = pod("other", on="n4", requests={"cpu": "100m"})
    trial = Trial(*map(small, ("n1", "n2", "n3", "n4")), a, b, stays, other)
    givers = [Giver(trial.number(each.node), (each,), 1.0) for each in (a, b)]

    plan = planned(plan_emptying(givers, ALL, trial.tried, {}))

    moved = [
        (each.name, trial.tried.name_of(to))
        for emptied in plan.nodes
        for each, to in emptied.places
    ]
    assert moved == [("a", "n4")]
    assert trial.fitting(b) == {"n4"}


FULL = web("full", "n1", "3")
WANTS = pod("wants", labels={"app": "other"}, requests={"cpu": "2", "memory": "1Gi"}, owner=None)


def test_a_vacated_place_is_free_until_it_is_taken_again() -> None:
    here = Trial(node("n1", allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"}), FULL)
    assert here.fitting(WANTS) == set()
    assert here.tried.lacking(WANTS, here.number("n1")) == {"cpu": 1000}

    here.tried.vacate(FULL)
    assert here.fitting(WANTS) == {"n1"}
    here.tried.take_again(FULL)
    assert here.fitting(WANTS) == set()
    here.tried.vacate(FULL)
    here.begin()
    assert here.fitting(WANTS) == set()


def test_a_vacated_place_gives_back_its_host_ports_and_its_anti_affinity() -> None:
    room = {"cpu": "9", "memory": "8Gi", "pods": "9"}
    port = (HostPort(80, "TCP", ""),)
    holds = with_spec(web("holds", "n1"), host_ports=port)
    term = anti_affinity_term("app=other")
    avoids = with_anti_affinity(web("avoids", "n1"), term)
    wants = with_spec(WANTS, host_ports=port)
    here = Trial(node("n1", allocatable=room), holds, avoids)

    for leaving in (holds, avoids):
        assert here.fitting(wants) == set()
        here.tried.vacate(leaving)
    assert here.fitting(wants) == {"n1"}


def test_a_pod_that_waits_takes_its_place_once_it_is_tried_there() -> None:
    here = Trial(node("n1", allocatable={"cpu": "3", "memory": "8Gi", "pods": "9"}))
    here.move(WANTS, "n1")

    assert here.fitting(pod("next", requests={"cpu": "2"})) == set()
    here.tried.undo(WANTS)
    assert here.fitting(pod("next", requests={"cpu": "2"})) == {"n1"}


def test_a_label_that_is_new_is_read_in_steps_where_answers_are_wanted_so() -> None:
    nodes = [node(f"n{number}", labels={"disk": "ssd"}) for number in range(3 * READ_AT_ONCE)]
    trial = Trial(*nodes)
    asks = with_spec(pod("asks", on="n0"), node_selector={"disk": "ssd"})
    wanted = trial.tried.long_answers

    with pytest.raises(AnswerTakesLong) as asked, wanted:
        trial.tried.fitting(asks, ALL)
    assert len(list(asked.value.steps)) >= 3
    with wanted:
        assert trial.tried.fitting(asks, ALL) == ALL & ~1
