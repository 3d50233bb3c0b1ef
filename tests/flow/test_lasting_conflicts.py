"""A conflict by labels that are brief, of a pod or of a node, moves no pod."""

from typing import Any, Final

import pytest

from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.policy.settings.guards import GuardName, GuardSettings, StandingTimeSettings
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import ZONE, SimulatedCluster

OTHERS: Final = tuple(set(GuardName) - {GuardName.STANDING_TIME})
LASTS_S: Final = 25


def keeps_away(labels: dict[str, str], key: str = "kubernetes.io/hostname") -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": rules}}


def follow(world: SimulatedCluster, **standing: Any) -> DescheduledCluster:
    world.advance(3600)
    times = StandingTimeSettings.model_validate(standing)
    guards = GuardSettings(disabled=OTHERS, standing_times=times)
    plugin = InterPodAntiAffinityPlugin(InterPodAntiAffinityArgs())
    return DescheduledCluster(world, plugin, guards=guards).run(5)


def label(world: SimulatedCluster, kind: str, name: str, **labels: str) -> None:
    """Set labels of a pod or a node; of `zone`, the zone's."""
    named = {ZONE if key == "zone" else key: value for key, value in labels.items()}

    def change(current: dict[str, Any]) -> dict[str, Any]:
        metadata = current["metadata"]
        return {**current, "metadata": {**metadata, "labels": {**metadata["labels"], **named}}}

    world.store.modify(kind, "default" if kind == "pods" else "", name, change)
    world.cluster.settle()


def beside_a_database() -> tuple[SimulatedCluster, str]:
    """Return a cluster with a pod that no leader may be beside, and a database on its node."""
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 1, **keeps_away({"role": "leader"}))
    world.deployment("db", 1)
    return world.nodes("n2"), next(iter(world.names("db")))


def led_for(seconds: float, **standing: Any) -> list[str]:
    world, database = beside_a_database()
    descheduler = follow(world, **standing)
    label(world, "pods", database, role="leader")
    descheduler.run(seconds)
    label(world, "pods", database, role="replica")
    return descheduler.run(600).evicted


@pytest.mark.parametrize("seconds", [3, LASTS_S - 5])
def test_a_pod_that_is_the_leader_for_moments_moves_no_other(seconds: float) -> None:
    assert led_for(seconds) == []


def test_one_that_stays_the_leader_does() -> None:
    world, database = beside_a_database()
    descheduler = follow(world)
    label(world, "pods", database, role="leader")
    began_s = world.clock.now()
    for second in range(20):  # other labels of it change all the time
        label(world, "pods", database, heartbeat=str(second))
        descheduler.run(2)

    assert len(descheduler.evicted) == 1
    assert descheduler.evicted_at_s[0] - began_s == pytest.approx(LASTS_S, abs=3)


def test_one_that_becomes_the_leader_again_and_again_never_does() -> None:
    world, database = beside_a_database()
    descheduler = follow(world)
    for _ in range(10):
        label(world, "pods", database, role="leader")
        descheduler.run(15)
        label(world, "pods", database, role="replica")
        descheduler.run(5)

    assert descheduler.evicted == []


def test_the_settings_say_how_long() -> None:
    assert led_for(8, podLabels="5s") != []
    assert led_for(8, podLabels="0s") != []
    assert led_for(40, podLabels="1m") == []


@pytest.mark.parametrize(("seconds", "count"), [(LASTS_S - 5, 0), (LASTS_S + 10, 1)])
def test_a_node_that_is_of_another_zone_for_moments_moves_none(seconds: float, count: int) -> None:
    world = SimulatedCluster().nodes("a1/a", "b1/b", "c1/c")
    world.deployment("web", 2, **keeps_away({"app": "web"}, ZONE))
    descheduler = follow(world)
    (there, other) = world.nodes_of_pods().values()
    zones = {"a1": "a", "b1": "b", "c1": "c"}
    label(world, "nodes", there, zone=zones[other])
    descheduler.run(seconds)
    label(world, "nodes", there, zone=zones[there])
    descheduler.run(60)

    assert len(descheduler.evicted) == count


def test_a_conflict_of_before_the_start_counts_at_once() -> None:
    world, database = beside_a_database()
    label(world, "pods", database, role="leader")

    assert len(follow(world).evicted) == 1
