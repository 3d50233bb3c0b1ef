"""Pods that are away for a moment make no other pod move: not for an even spread either."""

from typing import Any

import pytest

from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings, StandingTimeSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import ZONE, SimulatedCluster

OTHERS = tuple(name for name in GuardName if name is not GuardName.STANDING_TIME)
LASTS_S = 60
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


def duplicates() -> DuplicatesPlugin:
    return plugin_from_policy(DuplicatesPlugin, DuplicatesArgs)


def spread(kind: str = HARD) -> TopologySpreadPlugin:
    return plugin_from_policy(TopologySpreadPlugin, TopologySpreadArgs, constraints=[kind])


def constraint(kind: str, app: str = "web") -> dict[str, Any]:
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": kind,
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ]
    }


PLUGINS = pytest.mark.parametrize(
    ("plugin", "template"),
    [
        pytest.param(duplicates, {}, id="duplicates"),
        pytest.param(spread, constraint(HARD), id="hard"),
        pytest.param(lambda: spread(SOFT), constraint(SOFT), id="soft"),
    ],
)
SEVERAL_NODES = ("n1", "n2", "n3", "n4", "n5")


def run(world: SimulatedCluster, plugin: Any, **standing: Any) -> DescheduledCluster:
    times = StandingTimeSettings.model_validate(standing)
    guards = GuardSettings(disabled=OTHERS, standing_times=times)
    moves = MoveSettings()
    return DescheduledCluster(world, plugin, guards=guards, moves=moves, nodeFit=True).run(60)


def crowd(world: SimulatedCluster, node: str, replicas: int, **template: Any) -> None:
    """Create a workload all of whose pods come to one node, and the next ones anywhere."""
    names = [each["metadata"]["name"] for each in world.store.list("nodes")]
    for each in names:
        world.edit("nodes", each, unschedulable=each != node)
    world.deployment("web", replicas, **template)
    for each in names:
        world.edit("nodes", each, unschedulable=False)


# --- a workload that has fewer pods for a moment ---


def stop_slowly(world: SimulatedCluster) -> None:
    """Let pods be there for as long as they like once their deletion began."""
    for name in world.names():
        world.store.modify("pods", "default", name, _with_finalizer)


def _with_finalizer(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "finalizers": ["example.com/slow"]}}


def scaled_in_for(
    seconds: float, plugin: Any, template: dict[str, Any], *, slowly: bool = False, **standing: Any
) -> DescheduledCluster:
    """Let a workload of ten have four pods for a time: then two are on one node.

    With `slowly` the others terminate all the time.
    """
    world = SimulatedCluster().nodes(*SEVERAL_NODES)
    world.deployment("web", 10, cpu="200m", **template)
    descheduler = run(world.advance(3600), plugin, **standing)
    assert descheduler.evicted == []
    if slowly:
        stop_slowly(world)
    world.edit("deployments", "web", replicas=4)
    descheduler.run(seconds)
    world.edit("deployments", "web", replicas=10)
    return descheduler.run(600)


@PLUGINS
@pytest.mark.parametrize("slowly", [False, True])
@pytest.mark.parametrize("seconds", [10, LASTS_S - 5])
def test_one_that_is_soon_as_large_again_is_not_evened_out(
    seconds: float, *, slowly: bool, plugin: Any, template: dict[str, Any]
) -> None:
    assert scaled_in_for(seconds, plugin(), template, slowly=slowly).evicted == []


@PLUGINS
def test_one_that_stays_small_is_a_minute_later(plugin: Any, template: dict[str, Any]) -> None:
    assert len(scaled_in_for(LASTS_S + 5, plugin(), template).evicted) == 1


@PLUGINS
def test_the_settings_say_how_long(plugin: Any, template: dict[str, Any]) -> None:
    assert scaled_in_for(20, plugin(), template, nodeUse="10s").evicted != []
    assert scaled_in_for(20, plugin(), template, nodeUse="0s").evicted != []
    assert scaled_in_for(20, plugin(), template, nodeUse="30s").evicted == []


@PLUGINS
def test_what_the_controller_moves_holds_nothing(plugin: Any, template: dict[str, Any]) -> None:
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 8, cpu="200m", **template)
    descheduler = run(world.advance(3600), plugin())
    world.nodes("n2", "n3", "n4")
    descheduler.run(600)

    assert len(descheduler.evicted) >= 5
    assert descheduler.evicted_at_s[-1] - descheduler.evicted_at_s[0] < LASTS_S


# --- room that is free for a moment ---


def room_for(seconds: float, plugin: Any, template: dict[str, Any]) -> DescheduledCluster:
    """Let the pod that fills another node be away while a workload crowds one."""
    world = SimulatedCluster().nodes("n1", "n2")
    crowd(world, "n1", 2, cpu="1", **template)
    world.stateful_set("db", 1, cpu="3500m", nodeSelector={"kubernetes.io/hostname": "n2"})
    descheduler = run(world.advance(3600), plugin)
    assert descheduler.evicted == []
    world.edit("statefulsets", "db", replicas=0)
    descheduler.run(seconds)
    world.edit("statefulsets", "db", replicas=1)
    return descheduler.run(300)


ROOM = pytest.mark.parametrize(
    ("plugin", "template"),
    [
        pytest.param(duplicates, {}, id="duplicates"),
        pytest.param(lambda: spread(SOFT), constraint(SOFT), id="soft"),
    ],
)


@ROOM
@pytest.mark.parametrize("seconds", [3, LASTS_S - 5])
def test_the_room_of_a_pod_that_is_soon_back_is_not_taken(
    seconds: float, plugin: Any, template: dict[str, Any]
) -> None:
    descheduler = room_for(seconds, plugin(), template)
    assert descheduler.evicted == []
    assert descheduler.world.nodes_of_pods("db") == {"db-0": "n2"}


@ROOM
def test_room_that_lasts_is_taken(plugin: Any, template: dict[str, Any]) -> None:
    assert len(room_for(LASTS_S + 30, plugin(), template).evicted) == 1


# --- a node that is in another domain for a moment ---


def relabelled_for(seconds: float, zone: str, kind: str, **standing: Any) -> DescheduledCluster:
    """Let one of the two nodes of a zone be in another one for a time."""
    world = SimulatedCluster().nodes("n1/a", "n2/b", "n3/c", "n4/c")
    own = constraint(kind)["topologySpreadConstraints"][0]
    own = {**own, "topologyKey": "topology.kubernetes.io/zone"}
    world.deployment("web", 12, cpu="200m", topologySpreadConstraints=[own])
    descheduler = run(world.advance(3600), spread(kind), **standing)
    assert descheduler.evicted == []
    world.label("nodes", "n3", ZONE, zone)
    descheduler.run(seconds)
    world.label("nodes", "n3", ZONE, "c")
    return descheduler.run(600)


@pytest.mark.parametrize("kind", [HARD, SOFT])
@pytest.mark.parametrize("zone", ["a", "new"])
def test_a_node_that_is_soon_back_in_its_zone_makes_no_spread_uneven(zone: str, kind: str) -> None:
    assert relabelled_for(LASTS_S - 5, zone, kind).evicted == []


def test_one_that_stays_in_another_zone_does() -> None:
    assert relabelled_for(LASTS_S + 5, "a", HARD).evicted != []
    assert relabelled_for(15, "a", HARD, nodeUse="10s").evicted != []
