"""What is begun is finished: nodes reach their targets, by as few moves as a sweep makes."""

from collections import Counter
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.model.history import PastEviction, PastFollowUp
from reactive_desched.model.moves import MovedPods
from reactive_desched.moves.node_memory import Arrivals
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.low_node_load import LowNodeLoadPlugin
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.scheduling.scores import MOST_ALLOCATED
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.balance_race import Race, run_race
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import HOSTNAME, SimulatedCluster

ONE_AT_A_TIME = MoveSettings.model_validate({"maxMoving": {"node": 1}})
TWENTY_MINUTES_S = 1200
REPORTS_EVERY_S = 60
A_POD = 20.0
"""The largest pod of a race takes so many points of a node."""


def low(**args: Any) -> AnyPlugin:
    given = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, **args}
    return plugin_from_policy(LowNodeUtilizationPlugin, LowNodeUtilizationArgs, **given)


def load(**args: Any) -> AnyPlugin:
    given = {"lowThresholds": {"cpu": 20}, "highThresholds": {"cpu": 50}, **args}
    return plugin_from_policy(LowNodeLoadPlugin, LowNodeLoadArgs, **given)


def high() -> AnyPlugin:
    given = {"thresholds": {"cpu": 40}}
    return plugin_from_policy(HighNodeUtilizationPlugin, HighNodeUtilizationArgs, **given)


def full_and_empty(replicas: int) -> SimulatedCluster:
    """Return twenty pods of five per cent on n1, of workloads of so many, and n2 without any."""
    world = SimulatedCluster().nodes("n1")
    for number in range(20 // replicas):
        world.deployment(f"app{number}", replicas, cpu="200m", memory="100Mi")
    return world.advance(60).nodes("n2")


def app_of(pod: str) -> str:
    return pod.partition("-")[0]


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(
    "plugin", [pytest.param(low(), id="by requests"), pytest.param(load(), id="by measured load")]
)
def test_pods_move_one_by_one_until_the_target_is_reached_and_none_comes_back(
    plugin: AnyPlugin, replicas: int
) -> None:
    world = full_and_empty(replicas)
    cluster = DescheduledCluster(world, plugin, moves=ONE_AT_A_TIME, nodeFit=True)
    for _ in range(TWENTY_MINUTES_S // REPORTS_EVERY_S):
        cluster.report_use()
        cluster.run(REPORTS_EVERY_S)

    assert Counter(world.nodes_of_pods().values()) == {"n1": 10, "n2": 10}
    assert len(cluster.evicted) == 10
    assert max(Counter(map(app_of, cluster.evicted)).values()) == 1


def test_a_workload_that_comes_back_holds_up_no_other_one() -> None:
    """By its preference for n1 it returns, again and again; it is the first by name."""
    world = SimulatedCluster(scoring=MOST_ALLOCATED).nodes("n1", "n2")
    at_n1 = {"key": HOSTNAME, "operator": "In", "values": ["n1"]}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [at_n1]}}]
    wish = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    world.edit("nodes", "n2", unschedulable=True)
    world.deployment("app-a", 1, cpu="200m", memory="400Mi", affinity=wish)
    for number in range(6):
        world.deployment(f"app{number}", 1, cpu="200m", memory="400Mi")
    world.advance(60).edit("nodes", "n1", unschedulable=True)
    world.edit("nodes", "n2", unschedulable=False)
    for number in range(9):
        world.deployment(f"there{number}", 1, cpu="200m", memory="400Mi")
    world.advance(60).edit("nodes", "n1", unschedulable=False)

    cluster = DescheduledCluster(world, high(), moves=ONE_AT_A_TIME, nodeFit=True).run(600)

    left = {name for name, node in world.nodes_of_pods().items() if node == "n1"}
    assert {name.rpartition("-")[0].rpartition("-")[0] for name in left} == {"app-a"}
    assert len([name for name in cluster.evicted if not name.startswith("app-a")]) == 6


def test_after_a_restart_in_the_middle_the_rest_moves_too() -> None:
    world = full_and_empty(1)
    first = DescheduledCluster(world, low(), moves=ONE_AT_A_TIME, nodeFit=True).run(20)
    began = len(first.evicted)
    assert 4 < began < 10, "the node that takes pods is above its low threshold"

    second = DescheduledCluster(world, low(), moves=ONE_AT_A_TIME, nodeFit=True)
    for ended in first.ended:
        uid, at = ended.end.replacement_uid, world.clock.now()
        second.gates.memory._landed(uid, ended.end.node, ended.origin, at, at)
    second.run(TWENTY_MINUTES_S)

    assert began + len(second.evicted) == 10
    assert Counter(world.nodes_of_pods().values()) == {"n1": 10, "n2": 10}


def test_without_the_memory_of_its_moves_it_begins_anew_and_does_no_harm() -> None:
    world = full_and_empty(1)
    DescheduledCluster(world, low(), moves=ONE_AT_A_TIME, nodeFit=True).run(20)

    second = DescheduledCluster(world, low(), moves=ONE_AT_A_TIME, nodeFit=True).run(600)

    assert second.evicted == []


def test_the_pods_moved_to_a_node_are_known_again_from_the_record() -> None:
    world = full_and_empty(1)
    cluster = DescheduledCluster(world, low(), nodeFit=True)
    now = world.clock.now()
    past = [
        PastEviction(
            f"request-{number}",
            now - 60,
            f"uid-{number}",
            "default",
            f"pod-{number}",
            "n1",
            owner_uid=f"owner-{number}",
            replacing_uid=f"owner-{number}",
            replacing_kind="ReplicaSet",
            plugin="LowNodeUtilization",
            ended_s=now - 60,
            result="evicted",
            follow_up=PastFollowUp(now - 50, result, node, False, f"new-{number}"),
        )
        for number, (result, node) in enumerate(
            [("moved", "n2"), ("moved", "n2"), ("returned", "n1")]
        )
    ]
    cluster.gates.restore(past, now, now)

    [moved] = cluster.gates.moves.take_arrivals()

    came = {"new-0": now - 50, "new-1": now - 50}
    assert moved == MovedPods("LowNodeUtilization", "n2", came)


def test_they_are_forgotten_after_a_day_with_another_policy_and_when_a_person_clears_all() -> None:
    arrivals = Arrivals()
    arrivals.add("a", "n1", "P", 0.0, 1000.0)
    arrivals.add("b", "n1", "P", 3600.0, 4600.0)
    assert arrivals.take_changed() == [MovedPods("P", "n1", {"a": 1000.0, "b": 4600.0})]

    arrivals.expire(24 * 3600.0)
    assert not arrivals.has_changed
    arrivals.expire(25 * 3600.0)
    assert arrivals.take_changed() == [MovedPods("P", "n1", {})]

    memory = DescheduledCluster(full_and_empty(1), low()).gates.memory
    for forget in (
        lambda: memory.reconfigure(MoveSettings(), policy_changed=True),
        lambda: memory.clear(""),
    ):
        memory.arrivals.add("a", "n1", "P", 0.0, 1000.0)
        forget()
        assert memory.arrivals.take_changed() == [MovedPods("P", "n1", {})]


def test_so_many_pods_and_nodes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactive_desched.moves.node_memory.MAX_NODES", 2)
    monkeypatch.setattr("reactive_desched.moves.node_memory.MAX_PODS_OF_NODE", 2)
    arrivals = Arrivals()
    for pod in "abc":
        arrivals.add(pod, "n1", "P", 0.0, 1.0)
    for node in ("n2", "n3"):
        arrivals.add("d", node, "P", 0.0, 1.0)

    kept = {moved.node: set(moved.pods) for moved in arrivals.take_changed()}

    assert kept == {"n1": set(), "n2": {"d"}, "n3": {"d"}}


@pytest.fixture(scope="module")
def races() -> list[Race]:
    return [run_race(seed) for seed in range(16)]


def test_the_controller_comes_nearer_to_the_target_than_repeated_sweeps(races: list[Race]) -> None:
    ours = [race.by_controller for race in races]
    theirs = [race.by_sweeps for race in races]

    assert fmean(each.spread for each in ours) <= fmean(each.spread for each in theirs)
    assert sum(each.excess for each in ours) <= sum(each.excess for each in theirs)
    assert sum(each.evictions for each in ours) <= sum(each.evictions for each in theirs)


def test_sweeps_are_better_and_no_worse_only_where_they_overfill_a_node(races: list[Race]) -> None:
    assert [str(race) for race in races if race.is_dominated and not race.is_overfilled] == []


def test_in_no_cluster_is_it_further_from_the_target_by_more_than_a_pod(races: list[Race]) -> None:
    far = [race for race in races if race.by_controller.excess > race.by_sweeps.excess + A_POD]

    assert far == []


def crowded(*workloads: tuple[str, int, int], **pods: Any) -> SimulatedCluster:
    """Return n1 with workloads: a name, how many pods of how many milli-cores; two more join."""
    world = SimulatedCluster(**pods).nodes("n1")
    for name, replicas, size in workloads:
        world.deployment(name, replicas, cpu=f"{size}m", memory="64Mi")
    return world.advance(600).nodes("n2", "n3").advance(300)


SMALL = [(f"small{number}", 2, 200) for number in range(4)]
LARGE_AND_SMALL = [("large", 2, 800), *SMALL]


def of_a_deployment() -> SimulatedCluster:
    return crowded(*LARGE_AND_SMALL)


def of_a_stateful_set() -> SimulatedCluster:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("large", 2, cpu="800m", memory="64Mi")
    for name, replicas, size in SMALL:
        world.deployment(name, replicas, cpu=f"{size}m", memory="64Mi")
    return world.advance(60).nodes("n2", "n3").advance(300)


def of_single_replicas() -> SimulatedCluster:
    return crowded(("large1", 1, 800), ("large2", 1, 800), *SMALL)


@pytest.mark.parametrize("made", [of_a_deployment, of_a_stateful_set, of_single_replicas])
def test_small_pods_do_not_leave_in_the_stead_of_a_large_one_that_waits_for_its_turn(
    made: Callable[[], SimulatedCluster],
) -> None:
    world = made()
    cluster = DescheduledCluster(
        world, low(), moves=MoveSettings(), guards=GuardSettings(), nodeFit=True
    ).run(60)

    assert {app_of(name)[:5] for name in cluster.evicted} == {"large"}
    assert set(world.nodes_of_pods().values()) == {"n1", "n2", "n3"}
    assert len(cluster.evicted) == 2


def test_they_do_where_the_workload_takes_long_to_be_ready_again() -> None:
    """The replacement of the first large pod is Ready after half an hour."""
    world = crowded(*LARGE_AND_SMALL, pace=Pace(start_s=1.0, ready_s=1800.0))
    world.advance(3600)
    cluster = DescheduledCluster(world, low(), moves=MoveSettings(), nodeFit=True).run(100)
    assert [app_of(name) for name in cluster.evicted] == ["large"]

    cluster.run(60)

    assert {app_of(name) for name in cluster.evicted[1:]} <= {name for name, _, _ in SMALL}
    assert len(cluster.evicted) > 1


def test_of_several_nodes_one_waits_for_the_turn_of_a_workload_and_others_give_others() -> None:
    """Each node has a large pod too much; the first of these moves, and the second is next."""
    world = SimulatedCluster().nodes("n1", "n2", "n3")
    for node in ("n1", "n2", "n3"):
        world.deployment(f"{node}-stays", 1, cpu="1400m", nodeSelector={HOSTNAME: node})
    world.deployment("large", 3, cpu="800m", memory="64Mi")
    for number in range(3):
        world.deployment(f"small{number}", 3, cpu="200m", memory="64Mi")
    placed = world.advance(60).nodes("n4", "n5", "n6").nodes_of_pods()
    cluster = DescheduledCluster(world, low(), moves=MoveSettings(), nodeFit=True).run(1)

    gave = {(placed[name], app_of(name)[:5]) for name in cluster.evicted}
    assert gave == {("n1", "large"), ("n3", "small")}


def test_pods_of_about_the_same_size_leave_in_turn_whichever_is_the_largest() -> None:
    world = crowded(("a", 2, 440), ("b", 2, 400), ("c", 2, 400), ("d", 2, 360))
    cluster = DescheduledCluster(world, low(), nodeFit=True).run(600)

    assert sorted(app_of(name) for name in cluster.evicted) == ["a", "b", "c"]


def test_a_pod_without_requests_does_not_leave_a_node_that_requests_fill() -> None:
    world = full_and_empty(1)
    world.edit("nodes", "n2", unschedulable=True)
    world.deployment("idle", 1)
    world.advance(60).edit("nodes", "n2", unschedulable=False)
    cluster = DescheduledCluster(world, low(), nodeFit=True).run(600)

    assert "idle" not in {app_of(name) for name in cluster.evicted}
    assert Counter(world.nodes_of_pods().values()) == {"n1": 11, "n2": 10}


def test_of_a_stateful_set_the_highest_ordinals_leave() -> None:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("db", 8, cpu="500m", memory="64Mi")
    world.advance(60).nodes("n2")
    cluster = DescheduledCluster(world, low(), guards=GuardSettings(), nodeFit=True).run(300)

    assert cluster.evicted == ["db-7", "db-6", "db-5", "db-4"]


def test_a_pod_of_a_stateful_set_leaves_after_those_half_as_large() -> None:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("db", 2, cpu="700m", memory="64Mi")
    for name in "abc":
        world.deployment(name, 1, cpu="400m", memory="64Mi")
    world.advance(60).nodes("n2")

    cluster = DescheduledCluster(world, low(), guards=GuardSettings(), nodeFit=True).run(300)

    assert {app_of(name) for name in cluster.evicted} == {"a", "b"}
