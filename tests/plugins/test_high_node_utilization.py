"""HighNodeUtilization in a sweep: what the SIG descheduler's own tests pin, and its boundaries."""

from collections.abc import Mapping
from typing import Any

import pytest

from reactive_desched.model.objects import BURSTABLE, ClusterObject, Node, Pod
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.testing.builders import node, pod, with_spec
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.swept import swept

CRITICAL = 2_000_000_000
GPU = "example.com/gpu"


def high(thresholds: Mapping[str, float], **args: Any) -> HighNodeUtilizationPlugin:
    return plugin_from_policy(
        HighNodeUtilizationPlugin, HighNodeUtilizationArgs, thresholds=thresholds, **args
    )


def small(name: str, cpu: str = "4", memory: str = "3000", pods: str = "10", **more: Any) -> Node:
    has = {"cpu": cpu, "memory": memory, "pods": pods, **more.pop("has", {})}
    return node(name, *more.pop("taints", ()), allocatable=has, **more)


def web(name: str, on: str, cpu: str = "400m", **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, **more.pop("asks", {})}, **more)


def crowd(on: str, count: int, **more: Any) -> list[Pod]:
    return [web(f"{on}-{i}", on, **more) for i in range(count)]


N1, N2 = small("n1"), small("n2")
N3 = small("n3", unschedulable=True)


def test_nodes_that_are_used_well_keep_their_pods() -> None:
    objects = [N1, N2, small("n3"), *crowd("n1", 3), *crowd("n2", 3), *crowd("n3", 3)]

    assert swept(high({"cpu": 20, "pods": 20}), *objects) == []


def test_where_every_node_is_hardly_used_there_is_nothing_to_pack_onto() -> None:
    exactly = [N1, N2, *crowd("n1", 2), *crowd("n2", 4)]

    assert swept(high({"cpu": 40, "pods": 40}), *exactly) == []


def test_a_cordoned_node_takes_no_pods_and_gives_its_own() -> None:
    taking = [N1, N2, N3, *crowd("n1", 1), *crowd("n2", 4), *crowd("n3", 1)]
    alone = [N1, N3, *crowd("n1", 1), *crowd("n3", 3)]

    assert sorted(swept(high({"cpu": 30}), *taking)) == ["n1-0", "n3-0"]
    assert swept(high({"cpu": 20}), *alone) == []


def test_pods_that_the_evictor_protects_stay() -> None:
    critical = web("critical", "n1", priority=CRITICAL)

    assert swept(high({"cpu": 30}), N1, N2, critical, *crowd("n1", 1), *crowd("n2", 4)) == ["n1-0"]


def test_the_node_that_is_used_least_is_emptied_first() -> None:
    nodes = [small("n1"), small("n2"), small("n3")]
    pods = [*crowd("n1", 2), *crowd("n2", 1), *crowd("n3", 4)]

    assert swept(high({"cpu": 30}), *nodes, *pods) == ["n2-0", "n1-0", "n1-1"]


def test_evictions_end_when_the_others_are_full() -> None:
    """400 of n2's 2000 milli-cores are left, which one pod takes."""
    nodes = [small("n1", cpu="2"), small("n2", cpu="2"), small("n3", cpu="2", unschedulable=True)]
    pods = [*crowd("n1", 1), *crowd("n2", 4), *crowd("n3", 1)]

    assert len(swept(high({"cpu": 30, "pods": 30}), *nodes, *pods)) == 1


def test_pod_slots_are_room_as_well_and_the_least_important_pod_goes() -> None:
    nodes = [small("n1", cpu="3"), small("n2", cpu="3", pods="5")]
    better = with_spec(web("better", "n1"), qos_class=BURSTABLE)

    assert swept(high({"cpu": 30}), *nodes, better, web("effort", "n1"), *crowd("n2", 4)) == [
        "effort"
    ]


def test_the_priority_decides_which_pod_goes() -> None:
    nodes = [N1, small("n2", cpu="2")]
    pods = [web("important", "n1", priority=10_000), web("other", "n1", priority=0)]

    assert swept(high({"cpu": 30}), *nodes, *pods, *crowd("n2", 4)) == ["other"]


def test_extended_resources_have_thresholds_and_need_room() -> None:
    offering = [small(name, has={GPU: "8"}) for name in ("n1", "n2")]
    pods = [
        *crowd("n1", 2, cpu="100m", asks={GPU: "1"}),
        *crowd("n2", 4, cpu="400m", asks={GPU: "1"}),
    ]

    assert swept(high({"cpu": 20, GPU: 40}), *offering, *pods) == ["n1-0", "n1-1"]
    lacking = [offering[0], small("n2"), *crowd("n1", 1, asks={GPU: "1"}), *crowd("n2", 5)]
    assert swept(high({"cpu": 40, GPU: 40}), *lacking) == []


def test_a_full_node_of_memory_takes_nothing() -> None:
    nodes = [small("n1", memory="200"), N2]
    pods = [web("n1-a", "n1", cpu="2", asks={"memory": "200"}), web("n2-a", "n2")]

    assert swept(high({"cpu": 30}), *nodes, *pods) == []


def test_pods_that_fit_nowhere_else_stay() -> None:
    selective = web("selective", "n2", requires="datacenter=west")
    west = small("n1", labels={"datacenter": "west"})

    assert swept(high({"cpu": 30}), west, N2, *crowd("n1", 4), selective, nodeFit=True) == [
        "selective"
    ]
    assert swept(high({"cpu": 30}), N1, N2, *crowd("n1", 4), selective, nodeFit=True) == []


STRICT = ["OnlyThresholdingResources"]


@pytest.mark.parametrize(
    ("thresholds", "asks", "evicted"),
    [
        pytest.param({GPU: 40}, {}, [], id="no request of the resource"),
        pytest.param({GPU: 40}, {GPU: "1"}, ["asks"], id="a request of the resource"),
        pytest.param({GPU: 40}, {GPU: "0"}, ["asks"], id="a request of none of it"),
        pytest.param({"pods": 40}, {}, [], id="pods are never requested"),
        pytest.param({"cpu": 40, GPU: 40}, {}, ["asks"], id="one of several is enough"),
    ],
)
def test_the_strict_mode_moves_only_pods_that_request_such_a_resource(
    thresholds: Mapping[str, float], asks: Mapping[str, str], evicted: list[str]
) -> None:
    nodes = [small(name, has={GPU: "10"}) for name in ("n1", "n2")]
    busy = crowd("n1", 6, cpu="500m", asks={GPU: "1"})
    objects = [*nodes, *busy, web("asks", "n2", asks=dict(asks))]

    assert swept(high(thresholds, evictionModes=STRICT), *objects) == evicted
    assert swept(high(thresholds), *objects) == ["asks"]


def test_requests_that_no_container_makes_do_not_count_in_the_strict_mode() -> None:
    implicit = with_spec(web("asks", "n2"), implicit_requests=("cpu",))
    objects = [N1, N2, *crowd("n1", 6), implicit]

    assert swept(high({"cpu": 40}, evictionModes=STRICT), *objects) == []


def test_more_nodes_must_be_hardly_used_than_are_left_alone() -> None:
    objects = [N1, N2, *crowd("n1", 5), *crowd("n2", 1)]

    assert swept(high({"cpu": 30}, numberOfNodes=1), *objects) == []
    assert swept(high({"cpu": 30}), *objects) == ["n2-0"]


def test_excluded_namespaces_stay() -> None:
    plugin = high({"cpu": 30}, evictableNamespaces={"exclude": ["kube-system"]})
    objects = [N1, N2, *crowd("n1", 5), *crowd("n2", 1, namespace="kube-system")]

    assert swept(plugin, *objects) == []


def test_boundaries() -> None:
    """A node exactly at its threshold gives pods; a full one takes none."""
    nodes = [small("n1", cpu="1", memory="1Gi"), small("n2", cpu="1", memory="1Gi")]
    three = crowd("n2", 3, cpu="100m")

    assert len(swept(high({"cpu": 30}), *nodes, *crowd("n1", 8, cpu="100m"), *three)) == 2
    assert swept(high({"cpu": 30}), *nodes, *crowd("n1", 10, cpu="100m"), *three) == []


@pytest.mark.parametrize(
    ("taints", "tolerates", "evicted"),
    [
        pytest.param((), (), 1, id="no taints"),
        pytest.param(("a:NoSchedule",), (), 0, id="a taint that no pod tolerates"),
        pytest.param(("a:PreferNoSchedule",), (), 0, id="a soft taint counts"),
        pytest.param(("a:NoSchedule",), ("a",), 1, id="a taint that the pod tolerates"),
    ],
)
def test_some_destination_must_take_a_pod_by_its_taints(
    taints: tuple[str, ...], tolerates: tuple[str, ...], evicted: int
) -> None:
    nodes: list[ClusterObject] = [small("n1", cpu="1"), small("n2", cpu="1", taints=taints)]
    pods = [*crowd("n1", 1, cpu="300m", tolerates=tolerates), *crowd("n2", 5, cpu="100m")]

    assert len(swept(high({"cpu": 40}), *nodes, *pods)) == evicted
