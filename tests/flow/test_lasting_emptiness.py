"""What passes empties no node: what is used of it, room elsewhere, and a free node that is used."""

from collections.abc import Callable

import pytest

from reactive_desched.plugins.consolidate_nodes import ConsolidateNodesArgs, ConsolidateNodesPlugin
from reactive_desched.plugins.keep_nodes_free import KeepNodesFreeArgs, KeepNodesFreePlugin
from reactive_desched.plugins.make_room_for_pending import (
    MakeRoomForPendingArgs,
    MakeRoomForPendingPlugin,
)
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.guards import GuardSettings, StandingTimeSettings
from reactive_desched.sim.scheduling.scores import MOST_ALLOCATED
from reactive_desched.testing.scenario import plugin_from_policy
from tests.flow.test_lasting_use import LASTS_S, OTHERS, cluster
from tests.support.descheduled import DescheduledCluster
from tests.support.nominating import NominatingCluster
from tests.support.sim_world import HOSTNAME, SimulatedCluster
from tests.support.tainting import TaintedCluster

SOON_S = 30
"""A plan waits for five quiet seconds, and a set for the next look at taints."""


def consolidate() -> AnyPlugin:
    args = {"headroom": {}, "minNodes": [], "minSaving": 0}
    return plugin_from_policy(ConsolidateNodesPlugin, ConsolidateNodesArgs, **args)


def keep_free() -> AnyPlugin:
    return plugin_from_policy(KeepNodesFreePlugin, KeepNodesFreeArgs, nodes=1)


def run(world: SimulatedCluster, plugin: AnyPlugin, node_use: str = "1m") -> TaintedCluster:
    times = StandingTimeSettings.model_validate({"nodeUse": node_use})
    guards = GuardSettings(disabled=OTHERS, standing_times=times)
    return TaintedCluster(DescheduledCluster(world, plugin, guards=guards, nodeFit=True)).run(10)


# --- a node whose large pod is away ---


def large_pod(world: SimulatedCluster, node: str, cpu: str = "2500m") -> SimulatedCluster:
    """Create a pod that fits on one node alone, and let it be there for ten minutes."""
    world.stateful_set("db", 1, cpu=cpu, nodeSelector={HOSTNAME: node})
    return world.advance(600)


def its_node_has_another() -> SimulatedCluster:
    """n1 could be emptied without its large pod; the pods of n2 are too large to leave."""
    return large_pod(cluster(MOST_ALLOCATED, n1=["1"], n2=["1500m", "1500m"]), "n1")


def its_node_has_the_only_room() -> SimulatedCluster:
    """n2 could be emptied onto n1 without that one's large pod; a pod keeps n1."""
    world = cluster(MOST_ALLOCATED, n1=[], n2=["2"])
    world.pod("alone", cpu="1", nodeName="n1")
    return large_pod(world, "n1")


def away_for(
    seconds: float, world: SimulatedCluster, plugin: AnyPlugin, node_use: str = "1m"
) -> list[str]:
    """Let the large pod be away; return which nodes were begun to be emptied."""
    descheduler = run(world, plugin, node_use)
    assert descheduler.begun == []
    world.edit("statefulsets", "db", replicas=0)
    descheduler.run(seconds)
    world.edit("statefulsets", "db", replicas=1)
    return descheduler.run(300).begun


WORLDS = pytest.mark.parametrize("world", [its_node_has_another, its_node_has_the_only_room])


@WORLDS
@pytest.mark.parametrize("seconds", [3, 20, LASTS_S - 5])
def test_while_a_pod_is_away_for_a_moment_no_node_is_emptied(
    seconds: float, world: Callable[[], SimulatedCluster]
) -> None:
    assert away_for(seconds, world(), consolidate()) == []


@WORLDS
def test_once_it_is_gone_for_good_a_node_is_emptied(world: Callable[[], SimulatedCluster]) -> None:
    assert len(away_for(LASTS_S + SOON_S, world(), consolidate())) == 1


def test_free_nodes_are_not_made_of_what_passes() -> None:
    assert away_for(20, its_node_has_another(), keep_free()) == []
    assert away_for(LASTS_S + SOON_S, its_node_has_another(), keep_free()) == ["n1"]


def test_the_settings_say_how_long() -> None:
    assert away_for(20, its_node_has_another(), consolidate(), "0s") == ["n1"]
    assert away_for(40, its_node_has_another(), consolidate(), "10s") == ["n1"]
    assert away_for(40, its_node_has_another(), consolidate(), "3m") == []


def test_pods_that_were_there_for_a_moment_hold_no_node_when_they_leave() -> None:
    world = cluster(MOST_ALLOCATED, n1=["1"], n2=["1500m", "1500m"])
    world.pdb("n1-0", minAvailable=1)
    descheduler = run(world, consolidate())
    for number in range(12):
        world.pod(f"job-{number}", cpu="100m", nodeName="n1")
        descheduler.run(5)
        world.delete("pods", f"job-{number}")
        descheduler.run(5)
    assert descheduler.begun == []
    world.delete("poddisruptionbudgets", "n1-0")

    assert descheduler.run(15).begun == ["n1"]


def test_an_empty_node_is_closed_for_a_set_once_its_pods_are_gone_for_long() -> None:
    world = cluster(MOST_ALLOCATED, n1=["1"], n2=["1500m", "1500m"], n3=[])
    large_pod(world, "n3", "3500m")
    world.pdb("n1-0", minAvailable=1)
    descheduler = run(world, consolidate())
    world.edit("statefulsets", "db", replicas=0)
    world.delete("poddisruptionbudgets", "n1-0")

    assert descheduler.run(SOON_S).begun == ["n1"]
    assert world.taints("n3") == set()
    assert world.taints("n1") == {"reactive-desched/consolidating:PreferNoSchedule"}


# --- a free node that is used ---


def used_for(seconds: float) -> list[str]:
    """Let a pod use the one free node for a time; return which nodes were begun to be emptied."""
    world = cluster(MOST_ALLOCATED, n1=[], n2=["1"], n3=["2"])
    descheduler = run(world, keep_free())
    assert descheduler.begun == []
    world.pod("job", cpu="3", nodeName="n1")
    descheduler.run(seconds)
    world.delete("pods", "job")
    return descheduler.run(300).begun


@pytest.mark.parametrize("seconds", [3, LASTS_S - 5])
def test_a_free_node_that_is_used_for_a_moment_is_not_replaced(seconds: float) -> None:
    assert used_for(seconds) == []


def test_one_that_stays_used_is() -> None:
    assert used_for(LASTS_S + SOON_S) == ["n2"]


def test_a_node_that_was_free_between_two_jobs_alone_counts_as_used() -> None:
    world = cluster(MOST_ALLOCATED, n1=[], n2=["1"], n3=["2"])
    world.pdb("n2-0", minAvailable=1)
    world.pdb("n3-0", minAvailable=1)
    world.pod("job-1", cpu="3", nodeName="n1")
    descheduler = run(world.advance(600), keep_free())
    world.delete("pods", "job-1")
    descheduler.run(3)
    world.pod("job-2", cpu="3", nodeName="n1")
    world.delete("poddisruptionbudgets", "n2-0")

    assert descheduler.run(SOON_S).begun == ["n2"]


# --- a pod that waits ---


def test_room_for_a_pod_that_waits_is_made_at_once_of_what_is_free_now() -> None:
    world = cluster(MOST_ALLOCATED, n1=["1", "1"], n2=["2"])
    large_pod(world, "n2", "1500m")
    plugin = plugin_from_policy(MakeRoomForPendingPlugin, MakeRoomForPendingArgs, wait="1s")
    guards = GuardSettings(disabled=OTHERS)
    cluster_ = DescheduledCluster(world, plugin, guards=guards, nodeFit=True)
    descheduler = NominatingCluster(cluster_).run(10)
    world.edit("statefulsets", "db", replicas=0)
    world.deployment("waits", 1, cpu="3")

    descheduler.run(SOON_S)

    assert len(cluster_.evicted) == 1
    assert "" not in world.nodes_of_pods("waits").values()
