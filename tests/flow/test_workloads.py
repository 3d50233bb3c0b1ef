"""Workloads of a simulated cluster under the default guards: whole, in order, in no hurry."""

from itertools import pairwise
from typing import Any

from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import SimulatedCluster

TAINT = {"key": "gpu", "effect": "NoSchedule"}
START_S = 5.0


def guarded(world: SimulatedCluster, *disabled: GuardName) -> DescheduledCluster:
    guards = GuardSettings(disabled=(GuardName.STANDING_TIME, *disabled))
    return DescheduledCluster(world, NodeTaintsPlugin(NodeTaintsArgs()), guards=guards)


def filled(world: SimulatedCluster) -> SimulatedCluster:
    """Add a free node to a cluster whose pods are all on the first one."""
    return world.advance(60).nodes("n2")


def test_pods_of_a_stateful_set_leave_in_order_and_each_after_the_one_before_is_ready() -> None:
    world = SimulatedCluster().nodes("n1")
    world.stateful_set("db", 3)
    descheduler = guarded(filled(world))
    world.edit("nodes", "n1", taints=[TAINT])

    descheduler.run(300)

    assert descheduler.evicted == ["db-2", "db-1", "db-0"]
    times = descheduler.evicted_at_s
    ready_again_s = 3  # one second to shut down, two to start
    assert all(later - sooner >= ready_again_s for sooner, later in pairwise(times))
    assert set(world.nodes_of_pods("db").values()) == {"n2"}


def test_a_deployment_that_rolls_out_during_a_taint_is_left_alone_until_it_is_done() -> None:
    world = SimulatedCluster().nodes("n1")
    made = world.deployment("web", 6)
    descheduler = guarded(filled(world), GuardName.UNREADY_WORKLOADS)
    template = made["spec"]["template"]
    changed = {**template, "metadata": {"labels": {"app": "web", "version": "2"}}}
    world.edit("deployments", "web", template=changed)
    world.edit("nodes", "n1", taints=[TAINT])

    over_s = None
    began_s = world.clock.now()
    for _ in range(600):
        descheduler.run(0.5)
        status = world.status("deployments", "web")
        done = status["updatedReplicas"] == status["replicas"] == status.get("readyReplicas") == 6
        if done and over_s is None:
            over_s = world.clock.now()
        if over_s is None:
            assert descheduler.evicted == []

    assert over_s is not None
    assert over_s > began_s + 2
    assert "n1" not in world.nodes_of_pods("web").values()


def test_workloads_of_one_replica_leave_one_after_the_other() -> None:
    world = SimulatedCluster().nodes("n1")
    names = ("a", "b", "c")
    for name in names:
        world.deployment(name, 1)
    descheduler = guarded(filled(world))
    world.edit("nodes", "n1", taints=[TAINT])

    least_ready = len(names)
    for _ in range(120):
        descheduler.run(0.5)
        ready = sum("Ready" in world.phases(name).values() for name in names)
        least_ready = min(least_ready, ready)

    assert len(descheduler.evicted) == len(names)
    assert least_ready == len(names) - 1


def test_a_new_pod_on_a_wrong_node_is_judged_when_it_is_ten_seconds_old() -> None:
    world = SimulatedCluster().nodes("n1")
    tainted: Any = {"taints": [TAINT]}
    world.edit("nodes", "n1", **tainted)
    world.nodes("n2").advance(60)
    descheduler = guarded(world)
    bound = {"nodeName": "n1"}
    world.deployment("web", 2, **bound)
    created_s = world.clock.now()

    descheduler.run(11)
    assert {at_s - created_s >= 10 for at_s in descheduler.evicted_at_s} == {True}


def test_a_cordon_of_the_simulated_cluster_empties_no_node() -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 4)
    descheduler = guarded(filled(world))
    world.edit("nodes", "n1", unschedulable=True)

    descheduler.run(600)

    assert world.taints("n1") == {"node.kubernetes.io/unschedulable:NoSchedule"}
    assert descheduler.evicted == []
