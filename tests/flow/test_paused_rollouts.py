"""A Deployment whose rollout is paused in its midst has the pods of both ReplicaSets."""

from typing import Any

import pytest

from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.sim.profiles import Pace
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import SimulatedCluster

KEPT = {GuardName.UNREADY_WORKLOADS, GuardName.ROLLOUTS}
GUARDS = GuardSettings(disabled=tuple(name for name in GuardName if name not in KEPT))
NEW = {"rolled-out": "1"}


def half_rolled_out() -> SimulatedCluster:
    """Return a Deployment of four that was paused when two of its pods were new."""
    world = SimulatedCluster(pace=Pace(start_s=5.0)).nodes("n1", "n2")
    world.deployment("web", 4, cpu="100m")
    world.advance(60)

    def rolled_out(current: dict[str, Any]) -> dict[str, Any]:
        template = current["spec"]["template"]
        metadata = {**template["metadata"], "annotations": NEW}
        spec = {**current["spec"], "template": {**template, "metadata": metadata}}
        return {**current, "spec": spec}

    world.store.modify("deployments", "default", "web", rolled_out)
    while sum("annotations" in pod["metadata"] for pod in world.pods("web")) < 2:
        world.advance(1)
    world.edit("deployments", "web", paused=True)
    return world.advance(3600)


def replicas(world: SimulatedCluster) -> list[int]:
    return sorted(each["status"]["readyReplicas"] for each in world.store.list("replicasets"))


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_none_of_its_pods_counts_as_missing(node: str) -> None:
    world = half_rolled_out()
    assert len(replicas(world)) == 2
    assert sum(replicas(world)) >= 4
    plugin = plugin_from_policy(NodeTaintsPlugin, NodeTaintsArgs)
    descheduler = DescheduledCluster(world, plugin, guards=GUARDS, moves=MoveSettings())
    on_node = [name for name, each in world.nodes_of_pods("web").items() if each == node]
    world.edit("nodes", node, taints=[{"key": "repair", "effect": "NoSchedule"}])
    descheduler.run(120)

    assert sorted(descheduler.evicted) == sorted(on_node)
