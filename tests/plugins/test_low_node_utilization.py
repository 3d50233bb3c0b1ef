"""LowNodeUtilization in a sweep: what the SIG descheduler's own tests pin, and its boundaries."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.objects import BURSTABLE, Annotations, ClusterObject, Node, Pod
from reactive_desched.model.usage import NodeUsage
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.testing.builders import node, pod, with_spec
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.swept import swept

CRITICAL = 2_000_000_000
BY_METRICS = {"source": "KubernetesMetrics"}
BY_QUERY = {"source": "Prometheus", "prometheus": {"query": "up"}}
METRIC = {"MetricResource": 30}, {"MetricResource": 50}


def low(
    thresholds: Mapping[str, float], targets: Mapping[str, float], **args: Any
) -> LowNodeUtilizationPlugin:
    return plugin_from_policy(
        LowNodeUtilizationPlugin,
        LowNodeUtilizationArgs,
        thresholds=thresholds,
        targetThresholds=targets,
        **args,
    )


def both(low_percent: float, high_percent: float, *resources: str, **args: Any) -> Any:
    """Use the same thresholds for each of the resources."""
    return low(
        dict.fromkeys(resources, low_percent), dict.fromkeys(resources, high_percent), **args
    )


def small(
    name: str, *taints: str, cpu: str = "4", memory: str = "3000", pods: str = "10", **more: Any
) -> Node:
    has = {"cpu": cpu, "memory": memory, "pods": pods, **more.pop("has", {})}
    return node(name, *taints, allocatable=has, **more)


def web(name: str, on: str = "n1", cpu: str = "400m", **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, **more.pop("asks", {})}, **more)


N1, N2, N3 = small("n1", pods="9"), small("n2"), small("n3", unschedulable=True)
PROTECTED: tuple[Pod, ...] = (
    web("p6", owner="DaemonSet/d"),
    with_spec(web("p7"), has_local_storage=True),
    web("p8", priority=CRITICAL),
)
P9 = web("p9", on="n2")
BALANCING = both(30, 50, "cpu", "pods")


def full(**more: Any) -> list[ClusterObject]:
    """Eight pods on n1, of which five are evictable, and one on n2."""
    return [N1, N2, N3, *(web(f"p{i}", **more) for i in range(1, 6)), *PROTECTED, P9]


def use(name: str, cpu: int, pods: Mapping[str, int] | None = None) -> NodeUsage:
    """Measure cpu of a node and of its pods, in milli-cores."""
    of_pods = {f"default/{pod}": {"cpu": m, "memory": 0} for pod, m in (pods or {}).items()}
    return NodeUsage("KubernetesMetrics", name, {"cpu": cpu, "memory": 0}, 1.0, of_pods)


def ratio(name: str, percent: int) -> NodeUsage:
    return NodeUsage("Prometheus/up", name, {"MetricResource": percent}, 1.0)


def test_a_full_node_gives_pods_until_it_is_at_its_target() -> None:
    assert swept(BALANCING, *full(), nodeFit=True) == ["p1", "p2", "p3", "p4"]


def test_pods_that_the_evictor_protects_stay() -> None:
    assert swept(BALANCING, N1, N2, N3, *PROTECTED, P9) == []


def test_pods_are_protected_as_they_were_before_the_first_eviction_from_their_node() -> None:
    """Eight pods have one owner: all pass minReplicas of n1, before any of them leaves."""
    assert swept(BALANCING, *full(), minReplicas=8) == ["p1", "p2", "p3", "p4"]
    assert swept(BALANCING, *full(), minReplicas=9) == []


def test_excluded_namespaces_count_as_use_and_stay() -> None:
    excluding = both(30, 50, "cpu", "pods", evictableNamespaces={"exclude": ["ns"]})

    assert swept(excluding, *full(namespace="ns")) == []
    assert len(swept(BALANCING, *full(namespace="ns"))) == 4


def test_the_least_important_pods_go_first() -> None:
    priorities = [10_000, 10_000, None, 0, 10_000]
    pods = [web(f"p{i}", priority=p) for i, p in enumerate(priorities, 1)]
    preferring = replace(pods[0], annotations=Annotations(prefer_no_eviction=""))
    bursting = with_spec(pods[1], qos_class=BURSTABLE)

    found = swept(BALANCING, N1, N2, N3, preferring, bursting, *pods[2:], *PROTECTED, P9)

    assert found == ["p3", "p4", "p5", "p1"]


def test_extended_resources_have_thresholds_of_their_own() -> None:
    gpu = "example.com/gpu"
    offering = [small("n1", pods="10", has={gpu: "8"}), small("n2", has={gpu: "8"})]
    pods = [web(f"p{i}", cpu="0", asks={gpu: "1"}) for i in range(1, 7)]
    held = [with_spec(web(f"q{i}", cpu="0", asks={gpu: "1"}), has_local_storage=True) for i in "78"]
    other = web("p9", on="n2", cpu="0", asks={gpu: "1"})

    assert swept(both(30, 50, "pods", gpu), *offering, N3, *pods, *held, other) == [
        "p1",
        "p2",
        "p3",
    ]


def test_a_resource_that_no_destination_offers_leaves_no_room() -> None:
    gpu = "example.com/gpu"
    n1 = small("n1", has={gpu: "8"})
    pods = [web(f"p{i}", cpu="0", asks={gpu: "1"}) for i in range(6)]

    assert swept(both(30, 50, gpu), n1, N2, *pods) == []


def test_a_deviating_node_is_measured_against_the_mean() -> None:
    """The means are cpu 30 and pods 32.96 per cent: n2 has room for two pods."""
    deviating = both(5, 5, "cpu", "pods", useDeviationThresholds=True)

    assert swept(deviating, *full()) == ["p1", "p2"]


def test_a_resource_without_thresholds_that_is_used_up_leaves_no_room() -> None:
    deviating = both(5, 5, "cpu", "pods", useDeviationThresholds=True)
    hungry = web("p9", on="n2", asks={"memory": "3000"})

    assert swept(deviating, *full()[:-1], hungry) == []
    assert swept(BALANCING, *full()[:-1], hungry) == []


def test_nodes_without_a_resource_do_not_count_for_its_mean() -> None:
    gpu = "example.com/gpu"
    plugin = low({"pods": 5, gpu: 10}, {"pods": 5, gpu: 10}, useDeviationThresholds=True)
    offering = [small(name, has={gpu: "8"}) for name in ("n1", "n2")]
    pods = [
        web("p1", asks={gpu: "1"}),
        web("p2", on="n2", asks={gpu: "1"}),
        web("p3", on="n2", asks={gpu: "6"}),
        web("p4", on="n3"),
        web("p5", on="n3"),
    ]

    assert swept(plugin, *offering, N3, *pods) == ["p2"]


def test_without_another_node_that_takes_pods_nothing_moves() -> None:
    cordoned = small("n2", unschedulable=True)

    assert swept(BALANCING, N1, cordoned, *full()[3:]) == []


def test_pods_that_fit_nowhere_else_stay() -> None:
    east = small("n2", labels={"datacenter": "east"})
    pods = [web(f"p{i}", requires="datacenter=west" if i > 3 else None) for i in range(1, 6)]
    objects = [N1, east, N3, *pods, *PROTECTED, P9]

    assert swept(BALANCING, *objects, nodeFit=True) == ["p1", "p2", "p3"]
    assert len(swept(BALANCING, *objects)) == 4


@pytest.mark.parametrize(
    ("limit", "evicted"), [(0, []), (2, ["p1", "p2"]), (9, ["p1", "p2", "p3", "p4"])]
)
def test_the_plugin_has_a_limit_of_its_own_for_each_node(limit: int, evicted: list[str]) -> None:
    limited = both(30, 50, "cpu", "pods", evictionLimits={"node": limit})

    assert swept(limited, *full()) == evicted


def test_an_exhausted_namespace_does_not_end_the_plan_and_the_cluster_does() -> None:
    pods = [web(f"p{i}", namespace="ab"[i % 2]) for i in range(1, 6)]
    objects = [N1, N2, N3, *pods, *PROTECTED, P9]

    assert swept(BALANCING, *objects, limits={"namespace": 1}) == ["p2", "p1"]
    assert swept(BALANCING, *objects, limits={"cluster": 1}) == ["p2"]
    assert swept(BALANCING, *objects, limits={"node": 1}) == ["p2"]


def crowd(tolerates: Any = (), count: int = 8) -> list[ClusterObject]:
    """Eight pods on n1, of which the first may tolerate taints."""
    tolerant = [web("p0", cpu="100m", tolerates=tolerates)]
    return [*tolerant, *(web(f"p{i}", cpu="100m") for i in range(1, count))]


SPARSE = both(20, 70, "pods")
BIG = small("n1", cpu="2")


@pytest.mark.parametrize(
    ("taints", "tolerates", "evicted"),
    [
        pytest.param((), (), ["p0"], id="no taints"),
        pytest.param(("a:NoSchedule",), (), [], id="a taint that no pod tolerates"),
        pytest.param(("a:PreferNoSchedule",), (), [], id="a soft taint counts"),
        pytest.param(("a:NoSchedule",), ("a",), ["p0"], id="a taint that one pod tolerates"),
        pytest.param(
            ("a:NoSchedule", "b:NoSchedule"), "*", [], id="one toleration of everything, two taints"
        ),
        pytest.param(("a:NoSchedule", "b:NoSchedule"), ("a", "b"), ["p0"], id="two of each"),
    ],
)
def test_some_destination_must_take_a_pod_by_its_taints(
    taints: tuple[str, ...], tolerates: Any, evicted: list[str]
) -> None:
    others = [small("n2", *taints, cpu="1"), web("x", on="n2", cpu="0")]

    assert swept(SPARSE, BIG, *others, *crowd(tolerates)) == evicted


def thousand(name: str) -> Node:
    return small(name, cpu="1", memory="1Gi", pods="100")


def tenths(count: int, on: str) -> list[Pod]:
    return [web(f"{on}-{i}", on=on, cpu="100m") for i in range(count)]


def test_a_node_at_its_threshold_takes_pods_and_one_at_its_target_gives_none() -> None:
    plugin = both(30, 50, "cpu")
    nodes = [thousand("n1"), thousand("n2")]

    assert swept(plugin, *nodes, *tenths(8, "n1"), *tenths(3, "n2")) == ["n1-0", "n1-1"]
    assert swept(plugin, *nodes, *tenths(5, "n1"), *tenths(3, "n2")) == []


def test_more_nodes_must_have_room_than_are_left_alone() -> None:
    objects = [thousand("n1"), thousand("n2"), thousand("n3"), *tenths(8, "n1")]

    assert swept(both(30, 50, "cpu", numberOfNodes=2), *objects) == []
    assert len(swept(both(30, 50, "cpu", numberOfNodes=1), *objects)) == 3


def test_the_amount_a_threshold_allows_is_cut_off_as_floats_have_it() -> None:
    """29 x 0.01 x 100 is a little less than 29: n2 has room for 28 pods."""
    many = [web(f"p{i:02}", cpu="0") for i in range(60)]
    few = [web(f"q{i:02}", on="n2", cpu="0") for i in range(25)]

    found = swept(both(29, 29, "pods"), thousand("n1"), thousand("n2"), *many, *few)

    assert len(found) == 3


def test_the_node_that_uses_most_memory_gives_pods_first() -> None:
    nodes = [small(name, memory="1000") for name in ("n1", "n2", "n3")]
    pods = [
        web("cpu", on="n1", cpu="3"),
        web("cpu-2", on="n1", cpu="100m"),
        web("memory", on="n2", cpu="3", asks={"memory": "400"}),
    ]

    assert swept(both(20, 50, "cpu"), *nodes, *pods)[0] == "memory"


# --- measured use ---


def measured(**pods: int) -> list[NodeUsage]:
    own = {f"p{i}": 401 for i in range(1, 6)} | pods
    return [use("n1", 3201, own), use("n2", 401), use("n3", 11)]


REAL = both(30, 50, "cpu", "pods", metricsUtilization=BY_METRICS)


def test_what_is_measured_counts_instead_of_requests() -> None:
    assert swept(REAL, *full(cpu="1m"), *measured()) == ["p1", "p2", "p3", "p4"]
    assert swept(BALANCING, *full(), use("n1", 0), use("n2", 0)) == ["p1", "p2", "p3", "p4"]


def test_a_pod_counts_with_what_it_uses() -> None:
    found = swept(REAL, *full(), *measured(p1=801, p2=801, p3=801))

    assert found == ["p1", "p2"]


def test_a_pod_that_was_not_measured_stays() -> None:
    unmeasured = replace(measured()[0], pods={"default/p3": {"cpu": 401, "memory": 0}})

    assert swept(REAL, *full(), unmeasured, *measured()[1:]) == ["p3"]


def test_a_pod_of_which_a_resource_was_not_measured_stays() -> None:
    partly = replace(measured()[0], pods={"default/p3": {"cpu": 401}})

    assert swept(REAL, *full(), partly, *measured()[1:]) == []


def test_a_sweep_does_nothing_while_the_use_of_one_node_is_unknown() -> None:
    assert swept(REAL, *full(), *measured()[:2]) == []


def test_metrics_have_no_extended_resources() -> None:
    gpu = "example.com/gpu"
    nodes = [small(name, has={gpu: "8"}) for name in ("n1", "n2")]
    plugin = both(30, 50, "pods", gpu, metricsUtilization=BY_METRICS)

    assert swept(plugin, *nodes, *full()[3:], *measured()[:2]) == []


RATIOS = ratio("n1", 56), ratio("n2", 42), ratio("n3", 20)
OPEN = small("n3")


def by_query(low_percent: float, high_percent: float, **args: Any) -> LowNodeUtilizationPlugin:
    return both(  # type: ignore[no-any-return]  # it is one
        low_percent, high_percent, "MetricResource", metricsUtilization=BY_QUERY, **args
    )


@pytest.mark.parametrize(
    ("plugin", "ratios", "evicted"),
    [
        pytest.param(by_query(30, 50), RATIOS, 1, id="one pod where pods cannot be measured"),
        pytest.param(
            by_query(30, 50, evictionLimits={"node": 3}), RATIOS, 3, id="as many as the limit says"
        ),
        pytest.param(
            by_query(5, 5, useDeviationThresholds=True, evictionLimits={"node": 2}),
            RATIOS,
            2,
            id="around the mean of 39.3",
        ),
        pytest.param(
            by_query(10, 10, useDeviationThresholds=True),
            (ratio("n1", 100), ratio("n2", 50), ratio("n3", 0)),
            1,
            id="around the mean of 50",
        ),
        pytest.param(by_query(30, 50), RATIOS[:2], 0, id="one node without a sample"),
    ],
)
def test_a_query_measures_nodes_alone(
    plugin: LowNodeUtilizationPlugin, ratios: tuple[NodeUsage, ...], evicted: int
) -> None:
    assert len(swept(plugin, *full()[:2], OPEN, *full()[3:], *ratios)) == evicted
