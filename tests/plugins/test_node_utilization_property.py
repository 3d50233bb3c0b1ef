"""LowNodeUtilization and HighNodeUtilization find at once what a full pass finds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.moves import MovedPods
from reactive_desched.model.objects import Annotations, PodStatus
from reactive_desched.model.usage import NodeUsage
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.testing.builders import node, pod, with_spec
from reactive_desched.testing.scenario import AnyPlugin, Scenario, plugin_from_policy

GPU = "example.com/gpu"
LOW, HIGH = {"cpu": 30, "pods": 40}, {"cpu": 60, "pods": 70}


def low(**args: Any) -> LowNodeUtilizationPlugin:
    args = {"thresholds": LOW, "targetThresholds": HIGH, **args}
    return plugin_from_policy(LowNodeUtilizationPlugin, LowNodeUtilizationArgs, **args)


def high(**args: Any) -> HighNodeUtilizationPlugin:
    args = {"thresholds": LOW, **args}
    return plugin_from_policy(HighNodeUtilizationPlugin, HighNodeUtilizationArgs, **args)


PLUGINS = [
    pytest.param(low(), id="low"),
    pytest.param(
        low(
            useDeviationThresholds=True,
            thresholds={"cpu": 10, "pods": 90, GPU: 10},
            targetThresholds={"cpu": 10, "pods": 90, GPU: 10},
        ),
        id="around the mean",
    ),
    pytest.param(low(numberOfNodes=1, evictableNamespaces={"exclude": ["shop"]}), id="more nodes"),
    pytest.param(low(metricsUtilization={"source": "KubernetesMetrics"}), id="by metrics"),
    pytest.param(
        low(
            metricsUtilization={"source": "Prometheus", "prometheus": {"query": "up"}},
            thresholds={"MetricResource": 30},
            targetThresholds={"MetricResource": 60},
        ),
        id="by a query",
    ),
    pytest.param(
        low(thresholds={"cpu": 30, GPU: 40}, targetThresholds={"cpu": 60, GPU: 70}), id="by gpu"
    ),
    pytest.param(high(), id="high"),
    pytest.param(high(thresholds={GPU: 30}), id="high, by gpu"),
    pytest.param(
        high(thresholds={"cpu": 30}, evictionModes=["OnlyThresholdingResources"], numberOfNodes=1),
        id="high, strict",
    ),
]

EVICTOR = DefaultEvictorArgs(min_replicas=3)

# A tiny world, so that generated objects collide often.
NAMES = ["n1", "n2", "n3"]
nodes = st.builds(
    lambda name, taints, has, ready, cordoned: node(
        name, *taints, allocatable=has, ready=ready, unschedulable=cordoned
    ),
    st.sampled_from(NAMES),
    st.sampled_from([(), (), (), ("a:NoSchedule",)]),
    st.sampled_from(
        [
            *({"cpu": "1", "memory": "1Gi", "pods": n} for n in ("5", "9")),
            *({"cpu": "1", "memory": "1Gi", "pods": "9", GPU: n} for n in ("0", "4")),
        ]
    ),
    st.sampled_from(["True", "True", "True", "False"]),
    st.sampled_from([False, False, False, True]),
)
pods = st.builds(
    lambda name, space, on, asks, owner, tolerates, status, priority, implicit, notes, gone, more: (
        replace(
            with_spec(
                pod(
                    name,
                    on=on,
                    namespace=space,
                    requests=asks,
                    owner=f"ReplicaSet/{owner}",
                    tolerates=tolerates,
                    status=PodStatus(status),
                    priority=priority,
                ),
                implicit_requests=implicit,
            ),
            annotations=notes,
            deletion_s=gone,
            resize_delta=more,
        )
    ),
    st.sampled_from([f"p{i}" for i in range(8)]),
    st.sampled_from(["default", "default", "shop"]),
    st.sampled_from([*NAMES, "n1", "n1", None]),
    st.sampled_from([{"cpu": "200m"}, {"cpu": "300m"}, {"cpu": "100m", GPU: "1"}]),
    st.sampled_from(["web", "web", "db"]),
    st.sampled_from(["", "", "a"]),
    st.sampled_from(["Running", "Running", "Running", "Failed"]),
    st.sampled_from([None, 1, 2_000_000_000]),
    st.sampled_from([(), (), ("cpu",)]),
    st.sampled_from([Annotations(), Annotations(), Annotations(prefer_no_eviction="")]),
    st.sampled_from([None, None, None, 1]),
    st.sampled_from([{}, {}, {"cpu": 200}]),
)
samples = st.builds(
    lambda source, name, cpu, pods: NodeUsage(
        source,
        name,
        {"cpu": cpu, "memory": 1, "MetricResource": cpu // 10},
        1.0,
        {f"default/{pod}": {"cpu": 300, "memory": 0} for pod in pods},
    ),
    st.sampled_from(["KubernetesMetrics", "Prometheus/up"]),
    st.sampled_from(NAMES),
    st.sampled_from([100, 900]),
    st.sets(st.sampled_from([f"p{i}" for i in range(8)])),
)
moved = st.builds(
    lambda name, pods: MovedPods(
        "LowNodeUtilization", name, {pod(each).uid: 1.0 for each in sorted(pods)}
    ),
    st.sampled_from(NAMES),
    st.sets(st.sampled_from([f"p{i}" for i in range(8)]), min_size=1),
)
START = [
    *(node(name, allocatable={"cpu": "1", "memory": "1Gi", "pods": "9"}) for name in NAMES),
    *(pod(f"p{i}", on="n1", requests={"cpu": "300m"}) for i in range(3)),
    *(
        NodeUsage(source, name, {"cpu": cpu, "memory": 1, "MetricResource": cpu // 10}, 1.0)
        for source in ("KubernetesMetrics", "Prometheus/up")
        for name, cpu in (("n1", 900), ("n2", 400), ("n3", 100))
    ),
]
steps = st.lists(
    st.tuples(
        st.sampled_from(["apply", "apply", "apply", "remove"]),
        nodes | pods | pods | pods | samples | moved,
    ),
    min_size=5,
    max_size=25,
)


@pytest.mark.parametrize("plugin", PLUGINS)
@given(started=st.booleans(), steps=steps)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    plugin: AnyPlugin, *, started: bool, steps: list[tuple[str, Any]]
) -> None:
    cluster = Scenario(plugin, *(START if started else ()), evictor=EVICTOR)
    for number, (step, obj) in enumerate(steps):
        getattr(cluster, step)(obj)
        assert cluster.flagged() == cluster.flagged_by_full_scan(), number
    assert cluster.flagged() == cluster.flagged_after_restart()
