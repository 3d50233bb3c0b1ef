"""KeepNodesFree finds the pods of as many nodes of a pool as are to be free, and of no more."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.changes import Resynced
from reactive_desched.model.consolidation import EMPTY, EMPTYING, consolidating_taint
from reactive_desched.model.devices import Device, NodeScope, PoolName, ResourceSlice
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import ClusterObject, Node, OwnerReference, Pod
from reactive_desched.plugins.keep_nodes_free import KeepNodesFreeArgs, KeepNodesFreePlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario, plugin_from_policy
from tests.support.golden import Golden
from tests.support.random_steps import in_one_field

NAMES = ("n1", "n2", "n3")
GPU = "example.com/gpu"
POOL = {"nodeSelector": {"matchLabels": {"pool": "gpu"}}}


def keep(**args: Any) -> KeepNodesFreePlugin:
    return plugin_from_policy(KeepNodesFreePlugin, KeepNodesFreeArgs, **args)


def of_pool(name: str, *taints: str, gpus: int = 8, **more: Any) -> Node:
    allocatable = {"cpu": "64", "memory": "64Gi", "pods": "20", GPU: str(gpus)}
    return node(name, *taints, labels={"pool": "gpu"}, allocatable=allocatable, **more)


def job(name: str, on: str | None, gpus: int = 1, **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": "1", "memory": "1Gi", GPU: str(gpus)}, **more)


def tainted(name: str, value: str) -> Node:
    return replace(of_pool(name), taints=(consolidating_taint(value),))


def found(plugin: KeepNodesFreePlugin, *objects: ClusterObject, **more: Any) -> set[str]:
    cluster = Scenario(plugin, *objects, **more)
    [subject] = plugin.subjects(Resynced(), cluster.view)
    return {each.pod.name for each in cluster.evaluate(subject) if isinstance(each, Finding)}


def closed(plugin: KeepNodesFreePlugin, *objects: ClusterObject) -> list[str]:
    return [each.name for each in plugin.nodes_to_close(Scenario(plugin, *objects).state)]


THREE = tuple(map(of_pool, NAMES))
SPREAD = (job("a", "n1"), job("b", "n2"), job("c", "n2"), job("d", "n3", 3))


def test_the_node_that_takes_fewest_moves_is_emptied_and_no_other() -> None:
    assert found(keep(), *THREE, *SPREAD) in ({"a"}, {"d"})
    assert found(keep(nodes=2), *THREE, *SPREAD) == {"a", "d"}


def test_nothing_is_found_where_enough_nodes_are_free() -> None:
    assert found(keep(), *THREE, *SPREAD[:3]) == set()
    assert found(keep(nodes=2), *THREE, *SPREAD[:3]) == {"a"}


def test_pods_of_daemon_sets_leave_a_node_free() -> None:
    owner = OwnerReference("DaemonSet", "agent", "uid-agent", controller=True)
    agent = replace(job("agent", "n3", 0), owners=(owner,))

    assert found(keep(), *THREE, *SPREAD[:3], agent) == set()


@pytest.mark.parametrize(
    "third",
    [
        pytest.param(of_pool("n3", unschedulable=True), id="cordoned"),
        pytest.param(replace(of_pool("n3"), drain="ada"), id="to be drained"),
        pytest.param(of_pool("n3", ready="False"), id="not Ready"),
        pytest.param(node("n3", allocatable={"cpu": "64", "pods": "20"}), id="not of the pool"),
    ],
)
def test_an_empty_node_that_no_pod_could_use_is_not_free(third: Node) -> None:
    assert found(keep(**POOL), *THREE[:2], third, *SPREAD[:3]) == {"a"}
    assert closed(keep(**POOL), *THREE[:2], third, *SPREAD[:3]) == []


def test_nodes_outside_the_pool_take_pods_and_give_none() -> None:
    other = node("other", allocatable={"cpu": "64", "memory": "64Gi", "pods": "20", GPU: "8"})

    assert found(keep(**POOL), of_pool("n1"), other, job("a", "n1", 8), job("b", "other", 0)) == {
        "a"
    }


def test_an_amount_of_devices_counts_whole_free_nodes_alone() -> None:
    sixteen = keep(resource=GPU, amount=16)
    four = tuple(of_pool(name) for name in (*NAMES, "n4"))

    assert found(sixteen, *four, *SPREAD) == {"a"}  # 8 are free on n4, 22 in pieces of the others
    assert found(keep(resource=GPU, amount=8), *four, *SPREAD) == set()
    assert found(keep(resource=GPU, amount=9), *four, *SPREAD) == {"a"}


def devices(name: str, count: int = 8, driver: str = "gpus", **more: Any) -> ResourceSlice:
    listed = tuple(Device(f"g{number}") for number in range(count))
    pool = PoolName(driver, name)
    return ResourceSlice(
        f"{driver}-{name}", pool=pool, scope=NodeScope(name), devices=listed, **more
    )


def test_devices_of_resource_slices_count_as_an_extended_resource_does() -> None:
    four = tuple(of_pool(name) for name in (*NAMES, "n4"))
    slices = tuple(devices(each.name) for each in four)

    def found_for(amount: int, *more: ResourceSlice) -> set[str]:
        return found(keep(driver="gpus", amount=amount), *four, *SPREAD, *(more or slices))

    assert found_for(16) == {"a"}
    assert found_for(8) == set()
    assert found_for(8, *slices[:3], devices("n4", 4)) == {"a"}
    assert found_for(8, *slices[:3], devices("n4", driver="nets")) == {"a"}, "of another driver"
    newer = replace(devices("n4", 4), name="new", generation=2)
    assert found_for(8, *slices, newer) == {"a"}, "a pool of which a newer generation has fewer"
    assert closed(keep(driver="gpus", amount=9), *THREE, *slices[:3]) == ["n1", "n2"]
    assert closed(keep(driver="gpus", amount=9), *THREE) == [], "without slices there is no pool"


def opened(plugin: KeepNodesFreePlugin, *objects: ClusterObject) -> list[str]:
    return [each.name for each in plugin.nodes_to_open(Scenario(plugin, *objects).state)]


def test_nodes_beyond_those_that_are_wanted_need_no_taint() -> None:
    two = tainted("n1", EMPTY), tainted("n2", EMPTY)

    assert opened(keep(), *two, of_pool("n3")) == ["n2"]
    assert opened(keep(nodes=2), *two, of_pool("n3")) == []
    assert opened(keep(), *two, of_pool("n3"), job("a", "n1")) == [], "n2 is the one that is kept"
    assert opened(keep(resource=GPU, amount=8), *two) == ["n2"]
    elsewhere = keep(nodeSelector={"matchLabels": {"pool": "other"}})
    assert opened(elsewhere, *two) == ["n1", "n2"], "they are no part of the pool any more"


def test_nodes_without_the_resource_are_no_part_of_the_pool() -> None:
    none = of_pool("n3", gpus=0)

    assert found(keep(resource=GPU, amount=8), *THREE[:2], none, *SPREAD[:3]) == {"a"}


def test_a_node_that_an_annotation_keeps_from_being_removed_is_emptied() -> None:
    stays = [replace(each, scale_down_disabled="true", do_not_disrupt="true") for each in THREE]

    assert found(keep(nodes=2), *stays, *SPREAD) == {"a", "d"}


def test_a_node_with_more_pods_than_may_move_stays(golden: Golden) -> None:
    pods = [job("a", "n1"), job("b", "n1"), job("c", "n2", 7), job("d", "n2")]
    plugin = keep(maxMoves=1)

    assert found(plugin, *THREE[:2], *pods) == set()
    assert plugin.describe(pods[0], Scenario(plugin, *THREE[:2], *pods).view) == golden()


def test_it_says_why_a_node_is_emptied_and_why_another_is_not(golden: Golden) -> None:
    plugin = keep(resource=GPU, amount=8)
    cluster = Scenario(plugin, *THREE, *SPREAD)
    [subject] = plugin.subjects(Resynced(), cluster.view)

    [said] = [each for each in cluster.evaluate(subject) if isinstance(each, Finding)]

    assert f"{said.message}\n{plugin.describe(SPREAD[1], cluster.view)}" == golden()


def test_as_many_free_nodes_are_closed_as_are_wanted_those_with_the_taint_first() -> None:
    assert closed(keep(), *THREE) == ["n1"]
    assert closed(keep(nodes=2), *THREE) == ["n1", "n2"]
    assert closed(keep(nodes=2), of_pool("n1"), of_pool("n2"), tainted("n3", EMPTY)) == ["n1"]
    assert closed(keep(resource=GPU, amount=9), *THREE) == ["n1", "n2"]
    assert closed(keep(nodes=2), *THREE, *SPREAD[:3]) == ["n3"]


def test_a_set_that_has_begun_goes_on_and_ends_where_enough_is_free() -> None:
    begun = (of_pool("n1"), tainted("n2", EMPTYING), of_pool("n3"))

    assert found(keep(), *begun, *SPREAD) == {"b", "c"}
    assert found(keep(), *begun, *SPREAD[:3]) == set()


nodes = st.builds(
    lambda name, taints, gpus, ready, cordoned, value: replace(
        (made := of_pool(name, *taints, gpus=gpus, ready=ready, unschedulable=cordoned)),
        taints=(*made.taints, *((consolidating_taint(value),) if value else ())),
    ),
    st.sampled_from(NAMES),
    st.sampled_from([(), (), (), ("a:NoSchedule",)]),
    st.sampled_from([0, 4, 8, 8]),
    st.sampled_from(["True", "True", "True", "False"]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from(["", "", "", EMPTY, EMPTYING]),
)
pods = st.builds(
    lambda name, on, gpus, gone, priority: replace(
        job(name, on, gpus, priority=priority), deletion_s=gone
    ),
    st.sampled_from([f"p{i}" for i in range(5)]),
    st.sampled_from([*NAMES, None]),
    st.sampled_from([0, 1, 5]),
    st.sampled_from([None, None, None, 1]),
    st.sampled_from([None, None, 2_000_000_000]),
)
FIELDS: dict[Any, tuple[str, ...]] = {
    Node: ("taints", "allocatable", "ready_status", "unschedulable"),
    Pod: ("spec", "deletion_s", "node"),
}
APPLIED = st.tuples(st.just("apply"), nodes | pods, st.integers(0, 19))
REMOVED = st.tuples(st.just("remove"), nodes | pods, st.just(0))
steps = st.lists(st.one_of(APPLIED, APPLIED, APPLIED, APPLIED, REMOVED), min_size=8, max_size=20)
START: tuple[ClusterObject, ...] = (*THREE, *(job(f"p{i}", NAMES[i % 3]) for i in range(3)))


def changed(cluster: Scenario, drawn: Any, number: int) -> Any:
    """Return an object as it is but for one field; a pod that is bound stays on its node."""
    fields = FIELDS[type(drawn)]
    one: Any = in_one_field(cluster, drawn, fields[number % len(fields)])
    known = cluster.state.store(type(drawn)).get(drawn.key)
    if isinstance(known, Pod) and known.node:
        return replace(one, node=known.node)
    return one


@pytest.mark.hypothesis
@given(st.sampled_from([{}, {"nodes": 2}, {"resource": GPU, "amount": 12}]), steps)
def test_it_finds_at_once_what_a_full_pass_finds(
    args: dict[str, Any], drawn: Iterable[tuple[Any, ...]]
) -> None:
    plugin = keep(**args)
    cluster = Scenario(plugin, *START, now_s=1000, evictor=DefaultEvictorArgs())
    for what, of, number in drawn:
        getattr(cluster, what)(changed(cluster, of, number) if what == "apply" else of)
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == cluster.flagged_after_restart()
