"""A spread that is repaired stays repaired, with a scheduler that honours the constraint."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.model.decisions import Refuse
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import HOSTNAME, ZONE, SimulatedCluster

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
TEN_MINUTES_S = 600


def constraint(
    app: str, max_skew: int = 1, key: str = ZONE, when: str = HARD, **more: Any
) -> dict[str, Any]:
    return {
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": app}},
        **more,
    }


def descheduled(world: SimulatedCluster, **evictor: Any) -> DescheduledCluster:
    plugin = TopologySpreadPlugin(TopologySpreadArgs(constraints=(HARD, SOFT)))
    return DescheduledCluster(world, plugin, **evictor)


def test_a_new_zone_gets_its_share_and_then_nothing_moves() -> None:
    world = SimulatedCluster().nodes("n1/a", "n2/a")
    world.deployment("web", 6, topologySpreadConstraints=[constraint("web")])
    cluster = descheduled(world).run(60)
    assert (cluster.evicted, cluster.pods_by_node("web")) == ([], {"n1": 3, "n2": 3})

    world.nodes("n3/b")
    cluster.run(60)
    assert (cluster.pods_by_node("web")["n3"], len(cluster.evicted)) == (3, 3)

    cluster.run(TEN_MINUTES_S)
    assert len(cluster.evicted) == 3


def test_pods_that_are_slow_to_leave_are_not_followed_by_more() -> None:
    world = SimulatedCluster().nodes("n1/a")
    slow = {"terminationGracePeriodSeconds": 300}
    world.deployment("web", 6, topologySpreadConstraints=[constraint("web", when=SOFT)], **slow)
    cluster = descheduled(world)

    world.nodes("n2/b")
    cluster.run(TEN_MINUTES_S)

    assert len(cluster.evicted) == 3
    assert cluster.pods_by_node("web") == {"n1": 3, "n2": 3}


def test_where_nothing_fits_below_the_average_nothing_leaves_until_there_is_room() -> None:
    world = SimulatedCluster().nodes("n1/a")
    world.deployment("web", 4, cpu="500m", topologySpreadConstraints=[constraint("web")])
    cluster = descheduled(world)

    world.nodes("n2/b", cpu="250m")
    cluster.run(60)
    assert cluster.evicted == []

    world.nodes("n3/b")
    cluster.run(TEN_MINUTES_S)
    assert cluster.pods_by_node("web") == {"n1": 2, "n3": 2}


def test_a_domain_without_pods_that_takes_none_moves_no_pod_between_the_others() -> None:
    """Of 2, 2, 1 and a cordoned node's 0, a pod more on the third node would make 1, 2, 2 and 0.

    Upstream proposes that move in each cycle, since a node with 1 lies below the average.
    """
    world = SimulatedCluster().nodes("n1/a", "n2/a", "n3/a")
    even = constraint("web", key=HOSTNAME, when=SOFT)
    world.deployment("web", 5, topologySpreadConstraints=[even])
    cluster = descheduled(world, nodeFit=True).run(30)
    assert sorted(cluster.pods_by_node("web").values()) == [1, 2, 2]

    world.nodes("n4/a").edit("nodes", "n4", unschedulable=True)
    cluster.run(TEN_MINUTES_S)

    assert cluster.evicted == []
    decisions = [each.decision for each in cluster.evaluations]
    assert {each.reason for each in decisions if isinstance(each, Refuse)} == {"NoTargetNodeFits"}


def test_protected_pods_that_the_scheduler_counts_make_no_loop() -> None:
    """Upstream counts only what it may evict; the scheduler counts four agents on n2 as well."""
    world = SimulatedCluster().nodes("n1/a", "n2/b")
    for number in range(4):
        world.pod(f"agent{number}", labels={"app": "web"}, nodeName="n2")
    spec = {"topologySpreadConstraints": [constraint("web")]}
    world.deployment("web", 4, **spec)
    assert world.advance(30).pods("web")
    cluster = descheduled(world).run(TEN_MINUTES_S)

    assert cluster.evicted == []


zones = st.lists(st.sampled_from("abc"), min_size=2, max_size=5)


@given(
    zones,
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=2),
    st.integers(2, 9),
    st.sampled_from([ZONE, HOSTNAME]),
    st.sampled_from([HARD, SOFT]),
    st.integers(0, 3),
)
def test_after_the_plan_is_carried_out_a_second_pass_finds_nothing(
    first: list[str], later: list[str], replicas: int, key: str, when: str, lost: int
) -> None:
    world = SimulatedCluster().nodes(*(f"n{n}/{zone}" for n, zone in enumerate(first)))
    spread = [constraint("web", key=key, when=when)]
    world.deployment("web", replicas, topologySpreadConstraints=spread)
    cluster = descheduled(world).run(30)

    world.nodes(*(f"m{n}/{zone}" for n, zone in enumerate(later)))
    for name in sorted(world.names("web"))[:lost]:
        world.delete("pods", name)
    cluster.run(120)
    moved = len(cluster.evicted)
    cluster.run(TEN_MINUTES_S)

    assert len(cluster.evicted) == moved, "nothing moves any more"
    assert moved <= replicas, "no pod moved twice"
    sizes = cluster.pods_by_domain("web", key).values()
    assert max(sizes) - min(sizes) <= 1


RACK = "rack"


def racks(world: SimulatedCluster, *names: str) -> SimulatedCluster:
    """Add racks of three hosts."""
    for rack in names:
        world.nodes(*(f"{rack}{number}" for number in range(3)), labels={RACK: rack})
    return world


@pytest.mark.parametrize("when", [(HARD, HARD), (SOFT, SOFT), (HARD, SOFT), (SOFT, HARD)])
def test_moves_serve_the_constraint_over_racks_and_the_one_over_hosts_at_once(
    when: tuple[str, str],
) -> None:
    world = racks(SimulatedCluster(), "a", "b")
    spread = [constraint("web", key=RACK, when=when[0])]
    spread += [constraint("web", key=HOSTNAME, when=when[1])]
    world.deployment("web", 27, topologySpreadConstraints=spread)
    cluster = descheduled(world).run(60)
    assert cluster.evicted == []

    racks(world, "c")
    cluster.run(TEN_MINUTES_S)

    assert set(cluster.pods_by_node("web").values()) == {3}
    assert len(cluster.evicted) == 9  # a third of the pods goes to the third rack, each once


def test_constraints_that_contradict_each_other_come_to_rest() -> None:
    """Two zones of three nodes and of one cannot be even over zones and over nodes."""
    world = SimulatedCluster().nodes("n1/a", "n2/a", "n3/a", "n4/b")
    spread = [constraint("web", when=SOFT), constraint("web", key=HOSTNAME, when=SOFT)]
    world.deployment("web", 12, topologySpreadConstraints=spread)
    cluster = descheduled(world).run(TEN_MINUTES_S)
    moved = len(cluster.evicted)

    cluster.run(TEN_MINUTES_S)

    assert len(cluster.evicted) == moved <= 3


def test_an_empty_selector_moves_no_pod_as_the_scheduler_counts_no_pods() -> None:
    world = SimulatedCluster().nodes("n1/a")
    every = {**constraint("web", when=SOFT), "labelSelector": {}}
    world.deployment("web", 4, topologySpreadConstraints=[every])
    cluster = descheduled(world)

    world.nodes("n2/b")
    cluster.run(TEN_MINUTES_S)

    assert cluster.evicted == []
