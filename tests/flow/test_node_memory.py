"""What is remembered of nodes: one that moves do not relieve rests, whoever owns its pods."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from reactive_desched.model.decisions import Evict
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction, PastFollowUp
from reactive_desched.model.moves import MoveOrigin, MoveOwner
from reactive_desched.moves import node_memory
from reactive_desched.moves.listing import list_futile
from reactive_desched.moves.node_memory import NodeMemory
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.testing.builders import pod
from tests.support.descheduled import DescheduledCluster
from tests.support.golden import Golden
from tests.support.moving import Moving, MovingArgs
from tests.support.sim_world import SimulatedCluster

RELIEVING = Finding(pod("x", on="n1"), "P", "too full", relieves_node=True)
APPS = ("a", "b", "c", "d")
TARGETS = frozenset({"n2"})
FIVE_MINUTES_S = 300
ONE_AT_A_TIME = {"maxMoving": {"node": 1}, "cooldown": "0s", "nodeCooldown": "0s"}


def moved_from(node: str, plugin: str = "P", *, is_trial: bool = False) -> MoveOrigin:
    owner = MoveOwner("default", "Deployment", "a", "a")
    return MoveOrigin("x", "x", node, "", plugin, owner, 0.0, is_trial=is_trial)


def cluster_of(
    *, relieves_node: bool = True, nodes: tuple[str, ...] = ("n2",), **moves: Any
) -> DescheduledCluster:
    """Return a cluster of which n1 has a pod of each workload, and each pod returns there.

    The plugin finds the next workload's pod, while the one before rests.
    """
    world = SimulatedCluster().nodes("n1", *nodes)
    for app in APPS:
        world.deployment(app, 1, nodeSelector={"kubernetes.io/hostname": "n1"})
    args = MovingArgs(relieves_node=relieves_node)
    settings = MoveSettings.model_validate({**ONE_AT_A_TIME, **moves})
    return DescheduledCluster(world.advance(30), Moving(args), moves=settings)


def owners(cluster: DescheduledCluster) -> list[str]:
    return [name.partition("-")[0] for name in cluster.evicted]


def reasons(cluster: DescheduledCluster) -> set[str]:
    """Return why the last plan did not evict, by code."""
    last = {e.finding.pod.name: e.decision for e in cluster.evaluations}
    return {d.reason for d in last.values() if not isinstance(d, Evict)}


def test_a_node_that_moves_of_three_workloads_did_not_relieve_rests_with_all_its_pods(
    golden: Golden,
) -> None:
    cluster = cluster_of().run(FIVE_MINUTES_S)

    assert owners(cluster) == ["a", "b", "c"]
    assert "NodeMovesFutile" in reasons(cluster)
    assert {(end.end.result, end.end.helped) for end in cluster.ended} == {("returned", False)}
    assert cluster.ended[0].end.message == golden()


def test_a_workload_that_comes_back_rests_alone_and_the_node_gives_others() -> None:
    """Pods of b to d may run on n2; that of a cannot, and comes back."""
    world = SimulatedCluster().nodes("n1")
    world.deployment("a", 1, nodeSelector={"kubernetes.io/hostname": "n1"})
    for app in APPS[1:]:
        world.deployment(app, 1)
    args = MovingArgs(relieves_node=True)
    settings = MoveSettings.model_validate(ONE_AT_A_TIME)
    cluster = DescheduledCluster(world.advance(30), Moving(args), moves=settings)
    world.nodes("n2")

    cluster.run(FIVE_MINUTES_S)

    assert owners(cluster)[:4] == list(APPS)


def test_one_workload_alone_never_has_its_node_rest() -> None:
    world = SimulatedCluster().nodes("n1", "n2")
    world.deployment("a", 1, nodeSelector={"kubernetes.io/hostname": "n1"})
    settings = MoveSettings.model_validate(ONE_AT_A_TIME)
    moving = Moving(MovingArgs(relieves_node=True))
    cluster = DescheduledCluster(world.advance(30), moving, moves=settings).run(3600)

    assert owners(cluster) == ["a"] * settings.futile_after
    assert "NodeMovesFutile" not in reasons(cluster)


def test_it_rests_twice_as_long_each_time() -> None:
    cluster = cluster_of().run(3 * 3600)

    gaps = [b - a for a, b in zip(cluster.evicted_at_s, cluster.evicted_at_s[1:], strict=False)]
    assert [round(gap, -2) for gap in gaps] == [0, 0, 300, 1200, 2400, 4800]
    assert owners(cluster)[:4] == list(APPS), "those that came back leave it to the others"


def test_a_finding_about_the_pod_alone_has_only_its_owner_rest() -> None:
    assert set(owners(cluster_of(relieves_node=False).run(FIVE_MINUTES_S))) == set(APPS)


def test_without_the_back_off_no_node_rests() -> None:
    cluster = cluster_of(futileBackoff="0s").run(FIVE_MINUTES_S)

    assert len(cluster.evicted) > len(APPS)
    assert "NodeMovesFutile" not in reasons(cluster)


def test_after_a_node_came_the_first_rest_is_enough() -> None:
    cluster = cluster_of().run(2000)  # by now it rests for 20 minutes, and as long again
    before = len(cluster.evicted)
    assert before == 5

    cluster.world.nodes("n3")
    cluster.run(1)

    assert len(cluster.evicted) == before + 1


def test_after_a_move_that_helped_the_node_begins_anew() -> None:
    memory = NodeMemory(MoveSettings(futile_after=2))
    memory.check(RELIEVING, "a", 0)
    memory.add_futile(moved_from("n1"), "a", 0)
    assert not list(memory.resting(100))
    memory.add_futile(moved_from("n1"), "b", 200)
    memory.add_futile(moved_from("n1"), "a", 600)
    assert [(each.futile_moves, each.until) for each in memory.resting(700)] == [(3, 1200)]

    memory.add_help(moved_from("n1"))
    assert not list(memory.resting(700))

    memory.add_futile(moved_from("n1"), "a", 800)
    memory.add_futile(moved_from("n1"), "b", 900)
    assert [(each.futile_moves, each.until) for each in memory.resting(1000)] == [(2, 1200)]


def test_beyond_the_bound_the_node_that_rested_first_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_memory, "MAX_NODES", 2)
    memory = NodeMemory(MoveSettings(futile_after=1))
    memory.check(RELIEVING, "a", 0)
    for number in range(4):
        memory.add_futile(moved_from(f"n{number}"), "a", number)

    assert [each.node for each in memory.resting(5)] == ["n2", "n3"]


def test_a_node_is_listed_for_plugins_that_relieve_nodes_alone() -> None:
    memory = NodeMemory(MoveSettings(futile_after=1))
    for finding in (RELIEVING, replace(RELIEVING, plugin="Taints", relieves_node=False)):
        memory.check(finding, "a", 0)
        memory.add_futile(moved_from("n1", finding.plugin), "a", 0)

    assert [each.plugin for each in memory.resting(5)] == ["P"]


def test_a_person_lists_a_node_that_rests_and_clears_all() -> None:
    cluster = cluster_of().run(100)
    memory, now = cluster.gates.memory, cluster.world.clock.now()
    listed = msgspec.json.encode(list_futile((), memory.resting_nodes(now), now, now))
    [node] = msgspec.json.decode(listed)["nodes"]
    assert (node["node"], node["plugin"], node["futileMoves"]) == ("n1", Moving.name, 3)

    memory.clear("")

    assert not list(memory.resting_nodes(now))


@pytest.mark.parametrize("minutes", [1, 20])
def test_after_a_restart_a_node_rests_as_long_as_before(minutes: int) -> None:
    cluster = cluster_of()
    now = cluster.world.clock.now()
    at = now - 60 * minutes
    past = [
        PastEviction(
            f"request-{number}",
            at,
            f"uid-{number}",
            "default",
            f"pod-{number}",
            "n1",
            owner_uid=f"owner-{number}",
            replacing_uid=f"owner-{number}",
            replacing_kind="ReplicaSet",
            plugin=Moving.name,
            ended_s=at,
            result="evicted",
            follow_up=PastFollowUp(at, "returned", "n1", True, f"new-{number}"),
        )
        for number in range(4)
    ]
    cluster.gates.restore(past, now, now)
    cluster.run(10)

    assert bool(cluster.evicted) is (minutes > 10)


HOUR_S = 3600


def test_a_trial_that_came_back_lets_those_of_other_nodes_wait_until_one_helps() -> None:
    memory = NodeMemory(MoveSettings())
    trials = [replace(RELIEVING, pod=pod(n, on=n), targets=TARGETS, is_trial=True) for n in "ab"]
    here, there = trials

    assert memory.check(here, "x", 0) is None
    memory.add_futile(moved_from("a", is_trial=True), "x", 0)
    for each in trials:
        assert getattr(memory.check(each, "y", HOUR_S - 1), "reason", "") == "ExpectedBack"
        assert memory.check(each, "y", HOUR_S) is None
    memory.add_futile(moved_from("b", is_trial=True), "x", HOUR_S)
    memory.changed("c", HOUR_S + 1)
    assert memory.check(there, "y", 3 * HOUR_S - 1) is not None, "the second wait is twice as long"
    assert memory.check(there, "y", 3 * HOUR_S) is None
    memory.add_help(moved_from("b", is_trial=True))
    assert memory.check(replace(there, pod=pod("c", on="c")), "y", HOUR_S + 1) is None


def test_a_move_that_was_no_trial_says_nothing_of_trials_from_other_nodes() -> None:
    memory = NodeMemory(MoveSettings())
    trial = replace(RELIEVING, pod=pod("b", on="b"), targets=TARGETS, is_trial=True)

    memory.add_futile(moved_from("a"), "x", 0)
    assert memory.check(trial, "y", 1) is None
    memory.add_futile(moved_from("a", is_trial=True), "x", 1)
    memory.add_help(moved_from("a"))
    assert memory.check(trial, "y", 2) is not None
    assert memory.check(replace(trial, plugin="Q"), "y", 2) is None
