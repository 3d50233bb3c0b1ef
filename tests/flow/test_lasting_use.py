"""Use and room that pass move no pod: of a node used too much or little, and of a better node."""

from typing import Any

import pytest

from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.plugins.node_affinity import NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings, StandingTimeSettings
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED, MOST_ALLOCATED
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import SimulatedCluster

OTHERS = tuple(name for name in GuardName if name is not GuardName.STANDING_TIME)
LASTS_S = 60


def low(**args: Any) -> LowNodeUtilizationPlugin:
    args = {"thresholds": {"cpu": 50}, "targetThresholds": {"cpu": 80}, **args}
    return plugin_from_policy(LowNodeUtilizationPlugin, LowNodeUtilizationArgs, **args)


def high(**args: Any) -> HighNodeUtilizationPlugin:
    args = {"thresholds": {"cpu": 30}, **args}
    return plugin_from_policy(HighNodeUtilizationPlugin, HighNodeUtilizationArgs, **args)


def cluster(scoring: str = LEAST_ALLOCATED, **cores: list[str]) -> SimulatedCluster:
    """Return nodes of four cores, with a workload of one pod for each amount."""
    world = SimulatedCluster(scoring=scoring).nodes(*cores)
    for node, amounts in cores.items():
        for number, cpu in enumerate(amounts):
            place(world, node, f"{node}-{number}", cpu)
    return world.advance(3600)


def place(world: SimulatedCluster, node: str, name: str, cpu: str) -> None:
    """Create a workload whose first pod comes to a node, and the next ones wherever they fit."""
    others = [each["metadata"]["name"] for each in world.store.list("nodes")]
    for each in others:
        world.edit("nodes", each, unschedulable=each != node)
    world.deployment(name, 1, cpu=cpu)
    for each in others:
        world.edit("nodes", each, unschedulable=False)


def run(world: SimulatedCluster, plugin: Any, **standing: Any) -> DescheduledCluster:
    times = StandingTimeSettings.model_validate(standing)
    guards = GuardSettings(disabled=OTHERS, standing_times=times)
    return DescheduledCluster(world, plugin, guards=guards, nodeFit=True).run(10)


# --- a node that is used too much ---


def over_for(seconds: float, **standing: Any) -> list[str]:
    """Let a pod of a Job lift a node from 75 to 100 % for a time; return what was evicted."""
    world = cluster(n1=["2500m", "500m"], n2=[])
    descheduler = run(world, low(), **standing)
    world.pod("job", cpu="1", nodeName="n1")
    descheduler.run(seconds)
    world.delete("pods", "job")
    return descheduler.run(600).evicted


@pytest.mark.parametrize("seconds", [3, LASTS_S - 5])
def test_a_pod_that_is_soon_gone_moves_no_other(seconds: float) -> None:
    assert over_for(seconds) == []


def test_one_that_stays_does_after_a_minute() -> None:
    world = cluster(n1=["2500m", "500m"], n2=[])
    descheduler = run(world, low())
    came_s = world.clock.now()
    place(world, "n1", "more", "1")

    descheduler.run(LASTS_S - 1)
    assert descheduler.evicted == []
    descheduler.run(30)

    assert len(descheduler.evicted) == 1
    assert descheduler.evicted_at_s[0] - came_s == pytest.approx(LASTS_S, abs=3)


def test_the_settings_say_how_long() -> None:
    assert over_for(20, nodeUse="10s") != []
    assert over_for(20, nodeUse="30s") == []
    assert over_for(20, nodeUse="0s") != []


def test_what_was_too_much_before_leaves_at_once_and_no_more_than_that() -> None:
    world = cluster(n1=["500m"] * 7, n2=[])  # 87.5 %
    descheduler = run(world, low())
    assert len(descheduler.evicted) == 1  # 75 %
    world = cluster(n1=[*["500m"] * 6, "400m"], n2=["3"])  # 85 %, and nowhere to go to
    descheduler = run(world, low())
    assert descheduler.evicted == []

    world.nodes("n3")
    descheduler.run(30)
    world.pod("job", cpu="500m", nodeName="n1")  # 97.5 %
    descheduler.run(LASTS_S - 10)
    assert len(descheduler.evicted) == 1
    descheduler.run(30)
    assert len(descheduler.evicted) == 2


def test_a_pod_for_which_another_one_made_room_adds_nothing() -> None:
    world = cluster(n1=["2500m", "500m"], n2=[])
    descheduler = run(world, low())
    for number in range(12):  # each job is there for half a minute
        world.pod(f"job-{number}", cpu="1", nodeName="n1")
        descheduler.run(30)
        world.delete("pods", f"job-{number}")
        descheduler.run(1)

    assert descheduler.evicted == []


def test_a_node_that_joins_takes_pods_once_it_stayed_for_a_minute() -> None:
    world = cluster(n1=["2", "500m", "500m", "500m"])
    descheduler = run(world, low())
    world.nodes("n2")
    assert descheduler.run(LASTS_S - 5).evicted == []
    world.delete("nodes", "n2")
    descheduler.run(5)
    world.nodes("n2")
    assert descheduler.run(LASTS_S - 5).evicted == []

    assert len(descheduler.run(10).evicted) == 1


# --- a node that is used little ---


def packed() -> SimulatedCluster:
    """Return a cluster whose scheduler fills one node after the other."""
    return cluster(MOST_ALLOCATED, n1=["400m"], n2=["2"], n3=["2"])


def little_for(seconds: float) -> DescheduledCluster:
    """Let a large pod be away from its node for a time."""
    world = packed()
    world.pod("job", cpu="2", nodeName="n1")
    descheduler = run(world.advance(600), high())
    world.delete("pods", "job")
    descheduler.run(seconds)
    world.pod("next", cpu="2", nodeName="n1")
    return descheduler.run(600)


@pytest.mark.parametrize("seconds", [3, LASTS_S - 5])
def test_between_two_jobs_no_node_is_emptied(seconds: float) -> None:
    assert little_for(seconds).evicted == []


def test_a_node_that_was_free_keeps_its_first_pods_for_a_minute() -> None:
    world = packed()
    world.nodes("n4")
    descheduler = run(world, high())
    before = len(descheduler.evicted)
    came_s = world.clock.now()
    place(world, "n4", "first", "400m")
    descheduler.run(20)
    world.pod("second", cpu="400m", nodeName="n4")
    descheduler.run(LASTS_S - 25)
    assert len(descheduler.evicted) == before
    descheduler.run(30)

    assert descheduler.evicted_at_s[before] - came_s == pytest.approx(LASTS_S, abs=3)


def test_after_the_last_one_it_is_emptied_a_minute_later() -> None:
    descheduler = little_for(LASTS_S + 20)
    assert len(descheduler.evicted) == 1


def test_small_jobs_on_a_node_that_is_used_little_anyway_do_not_hold_its_pods() -> None:
    world = packed()
    world.nodes("n0")
    descheduler = run(world, high(numberOfNodes=2))
    assert descheduler.evicted == []
    for number in range(12):
        world.pod(f"job-{number}", cpu="100m", nodeName="n1")
        descheduler.run(5)
        world.delete("pods", f"job-{number}")
        descheduler.run(5)
    world.nodes("n4")  # one more than are left alone
    for number in range(6):
        world.pod(f"more-{number}", cpu="100m", nodeName="n1")
        descheduler.run(5)
        world.delete("pods", f"more-{number}")
        descheduler.run(5)

    assert len(descheduler.run(10).evicted) == 1


def test_what_left_before_the_start_is_not_known_and_the_node_counts_as_it_is() -> None:
    world = packed()
    world.pod("job", cpu="2", nodeName="n1")
    world.advance(600)
    world.delete("pods", "job")
    world.advance(5)

    assert len(run(world, high()).evicted) == 1


# --- room on a better node ---


def wishing(app: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [app]}]}
    preferred = [{"weight": 100, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def better_node_is_free_for(seconds: float, plugin: Any, **nodes: Any) -> tuple[str, list[str]]:
    """Let the pod that fills a better node be away; return its node in the end, and who left."""
    world = SimulatedCluster().nodes("n1", **nodes).nodes("better", labels={"disk": "ssd"})
    world.stateful_set("db", 1, cpu="3500m", nodeSelector={"disk": "ssd"})
    world.deployment("web", 1, cpu="1", affinity=wishing("ssd"))
    descheduler = run(world.advance(3600), plugin)
    assert descheduler.evicted == []
    world.edit("statefulsets", "db", replicas=0)
    descheduler.run(seconds)
    world.edit("statefulsets", "db", replicas=1)
    descheduler.run(300)
    return world.nodes_of_pods("db")["db-0"], descheduler.evicted


SLOW = ({"key": "slow", "effect": "PreferNoSchedule"},)
CLOSED = ({"key": "slow", "effect": "NoSchedule"},)


def by_preference() -> NodeAffinityPlugin:
    args = {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]}
    return plugin_from_policy(NodeAffinityPlugin, NodeAffinityArgs, **args)


def by_soft_taints() -> NodeTaintsPlugin:
    return plugin_from_policy(NodeTaintsPlugin, NodeTaintsArgs, includePreferNoSchedule=True)


@pytest.mark.parametrize(
    ("plugin", "nodes"), [(by_preference(), {}), (by_soft_taints(), {"taints": SLOW})]
)
@pytest.mark.parametrize("seconds", [3, LASTS_S - 5])
def test_no_pod_takes_the_room_of_one_that_is_soon_back(
    seconds: float, plugin: Any, nodes: Any
) -> None:
    assert better_node_is_free_for(seconds, plugin, **nodes) == ("better", [])


@pytest.mark.parametrize(
    ("plugin", "nodes"), [(by_preference(), {}), (by_soft_taints(), {"taints": SLOW})]
)
def test_room_that_lasts_is_taken(plugin: Any, nodes: Any) -> None:
    _, evicted = better_node_is_free_for(LASTS_S + 30, plugin, **nodes)
    assert len(evicted) == 1


def test_a_pod_that_has_to_leave_takes_room_at_once() -> None:
    world = SimulatedCluster().nodes("n1").nodes("n2", labels={"disk": "ssd"})
    world.stateful_set("db", 1, cpu="3500m", nodeSelector={"disk": "ssd"})
    world.deployment("web", 1, cpu="1")
    taints = plugin_from_policy(NodeTaintsPlugin, NodeTaintsArgs)
    descheduler = run(world.advance(3600), taints)
    world.edit("nodes", "n1", taints=list(CLOSED))
    descheduler.run(LASTS_S)
    assert descheduler.evicted == []
    world.edit("statefulsets", "db", replicas=0)

    assert len(descheduler.run(10).evicted) == 1


def test_room_elsewhere_is_taken_at_once_while_a_pod_is_away() -> None:
    world = SimulatedCluster().nodes("n1").nodes("better", labels={"disk": "ssd"})
    world.stateful_set("db", 1, cpu="3500m", nodeSelector={"disk": "ssd"})
    world.deployment("web", 1, cpu="1", affinity=wishing("ssd"))
    descheduler = run(world.advance(3600), by_preference())
    world.edit("statefulsets", "db", replicas=0)
    assert descheduler.run(10).evicted == []
    world.nodes("new", labels={"disk": "ssd"})

    assert len(descheduler.run(10).evicted) == 1


# --- room for balance ---


def full_node(world: SimulatedCluster, node: str, cpu: str) -> None:
    world.stateful_set("db", 1, cpu=cpu, nodeSelector={"kubernetes.io/hostname": node})


def away_for(seconds: float, world: SimulatedCluster, plugin: Any) -> tuple[str, list[str]]:
    """Let the pod of db be away; return its node in the end, and who left."""
    descheduler = run(world, plugin)
    assert descheduler.evicted == []
    world.edit("statefulsets", "db", replicas=0)
    descheduler.run(seconds)
    world.edit("statefulsets", "db", replicas=1)
    return world.nodes_of_pods("db")["db-0"], descheduler.run(300).evicted


def overfull() -> SimulatedCluster:
    world = cluster(n1=["1", "1", "1", "900m"], n2=[])
    full_node(world, "n2", "3500m")
    return world.advance(600)


def underfull() -> SimulatedCluster:
    world = cluster(MOST_ALLOCATED, n1=["1"], n2=["2"])
    full_node(world, "n2", "1500m")
    return world.advance(600)


@pytest.mark.parametrize(("world", "plugin"), [(overfull, low), (underfull, high)])
def test_balancing_takes_no_room_of_a_pod_that_is_soon_back(world: Any, plugin: Any) -> None:
    assert away_for(20, world(), plugin()) == ("n2", [])


@pytest.mark.parametrize(("world", "plugin"), [(overfull, low), (underfull, high)])
def test_balancing_takes_room_that_lasts(world: Any, plugin: Any) -> None:
    _, evicted = away_for(LASTS_S + 30, world(), plugin())
    assert evicted


# --- a node that has less for a moment ---


def less_for(seconds: float, *steps: str) -> list[str]:
    """Let a node have less cpu for a time, in steps a second apart; return what was evicted."""
    world = cluster(n1=["1", "1", "500m"], n2=[])  # 62.5 %
    descheduler = run(world, low())
    assert descheduler.evicted == []
    for cpu in steps:
        allocate(world, "n1", cpu)
        descheduler.run(1)
    descheduler.run(seconds)
    allocate(world, "n1", "4")
    return descheduler.run(600).evicted


def allocate(world: SimulatedCluster, node: str, cpu: str) -> None:
    def change(current: dict[str, Any]) -> dict[str, Any]:
        amounts = {**current["status"]["allocatable"], "cpu": cpu}
        return {**current, "status": {**current["status"], "allocatable": amounts}}

    world.store.modify("nodes", "", node, change, subresource="status")
    world.advance(0)


@pytest.mark.parametrize("seconds", [3, LASTS_S - 5])
@pytest.mark.parametrize("steps", [["2600m"], ["3", "2600m"], ["0"]])
def test_what_a_node_lacks_for_a_moment_moves_no_pod(seconds: float, steps: list[str]) -> None:
    assert less_for(seconds, *steps) == []


def test_what_it_goes_on_to_lack_does() -> None:
    assert less_for(LASTS_S + 5, "2600m") != []
    world = cluster(n1=["1", "1", "500m"], n2=[])
    assert run(world, low(), nodeUse="0s").evicted == []
    descheduler = run(world, low(), nodeUse="0s")
    allocate(world, "n1", "2600m")
    assert descheduler.run(5).evicted != []
