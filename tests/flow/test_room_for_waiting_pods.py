"""A node that comes is for the pods that wait: what only balances or prefers takes what is left.

The kube-scheduler tries a pod that it had no node for again after up to ten seconds, while the
replacement of an evicted pod is scheduled at once.
"""

from typing import Any

import pytest

from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.plugins.node_affinity import NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import SimulatedCluster

OTHERS = tuple(name for name in GuardName if name is not GuardName.STANDING_TIME)
CLOSED = ({"key": "slow", "effect": "NoSchedule"},)
SLOW = ({"key": "slow", "effect": "PreferNoSchedule"},)
SSD = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
PREFERS_SSD = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": SSD}]
    }
}
LARGE = "3800m"
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
}


def balance() -> LowNodeUtilizationPlugin:
    args = {"thresholds": {"cpu": 50}, "targetThresholds": {"cpu": 70}}
    return plugin_from_policy(LowNodeUtilizationPlugin, LowNodeUtilizationArgs, **args)


def even_out() -> DuplicatesPlugin:
    return plugin_from_policy(DuplicatesPlugin, DuplicatesArgs)


def preferred() -> NodeAffinityPlugin:
    args = {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]}
    return plugin_from_policy(NodeAffinityPlugin, NodeAffinityArgs, **args)


def taints() -> NodeTaintsPlugin:
    return plugin_from_policy(NodeTaintsPlugin, NodeTaintsArgs)


WISHES = pytest.mark.parametrize("plugin", [balance, even_out, preferred])


def full(plugin: Any, **large: Any) -> DescheduledCluster:
    """Return a cluster of one full node, where a large pod waits that was tried several times."""
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 3, cpu="1", affinity=PREFERS_SSD)
    world.advance(3600)
    guards = GuardSettings(disabled=OTHERS)
    descheduler = DescheduledCluster(world, plugin, guards=guards, nodeFit=True)
    if large:
        world.deployment("large", 1, **large)
    return tried_often(descheduler)


def tried_often(descheduler: DescheduledCluster) -> DescheduledCluster:
    """Let pods come and end, at each of which the scheduler tries again what waits."""
    for number in range(8):
        descheduler.world.pod(f"job-{number}", cpu="100m")
        descheduler.run(1)
        descheduler.world.delete("pods", f"job-{number}")
        descheduler.run(1)
    assert descheduler.evicted == []
    return descheduler


def with_new_node(descheduler: DescheduledCluster) -> DescheduledCluster:
    descheduler.world.nodes("new", labels={"disk": "ssd"})
    return descheduler


@WISHES
def test_the_pod_that_waits_gets_the_new_node(plugin: Any) -> None:
    descheduler = with_new_node(full(plugin(), cpu=LARGE)).run(300)
    assert descheduler.evicted == []
    assert set(descheduler.world.nodes_of_pods("large").values()) == {"new"}


@WISHES
@pytest.mark.parametrize(
    "large",
    [
        pytest.param({}, id="none waits"),
        pytest.param({"cpu": "5"}, id="it is too large"),
        pytest.param({"cpu": LARGE, "nodeSelector": {"disk": "nvme"}}, id="it wants another"),
        pytest.param({"cpu": "1500m"}, id="there is room for both"),
    ],
)
def test_a_new_node_is_taken_otherwise(plugin: Any, large: dict[str, str]) -> None:
    assert with_new_node(full(plugin(), **large)).run(65).evicted != []


def test_it_gets_it_before_a_pod_that_has_to_leave_its_node() -> None:
    """No pod leaves for a node that opened less than 25 s ago, and by then it is taken."""
    descheduler = full(taints(), cpu=LARGE)
    descheduler.world.edit("nodes", "n1", taints=list(CLOSED))
    descheduler.run(60)
    with_new_node(descheduler).run(120)
    assert descheduler.evicted == []
    assert set(descheduler.world.nodes_of_pods("large").values()) == {"new"}


@WISHES
def test_what_waits_and_does_not_take_it_holds_for_a_minute(plugin: Any) -> None:
    descheduler = full(plugin(), cpu=LARGE, schedulerName="another")
    (name,) = descheduler.world.names("large")
    descheduler.world.store.replace_status("pods", "default", name, UNSCHEDULABLE)
    with_new_node(descheduler).run(55)
    assert descheduler.evicted == []

    assert descheduler.run(20).evicted != []


def test_nor_is_it_taken_by_a_pod_that_fits_elsewhere_where_the_scheduler_prefers_it() -> None:
    world = SimulatedCluster().nodes("n1").nodes("slow", taints=SLOW)
    world.deployment("more", 1, cpu="1500m", nodeSelector={"kubernetes.io/hostname": "slow"})
    world.deployment("web", 2, cpu="1")
    world.advance(3600)
    assert set(world.nodes_of_pods("web").values()) == {"n1"}
    world.deployment("large", 1, cpu=LARGE)
    names = {GuardName.STANDING_TIME, GuardName.SCORED_ELSEWHERE}
    guards = GuardSettings(disabled=tuple(each for each in GuardName if each not in names))
    descheduler = tried_often(DescheduledCluster(world, even_out(), guards=guards, nodeFit=True))
    with_new_node(descheduler).run(300)

    assert descheduler.evicted == []
    assert set(world.nodes_of_pods("large").values()) == {"new"}
