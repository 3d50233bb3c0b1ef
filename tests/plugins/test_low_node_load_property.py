"""Whatever happens, reacting finds what a full scan finds; balanced nodes stay as they are."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.model.findings import Finding
from reactive_desched.model.koordinator import PRIORITY_CLASS_LABEL
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.node_load import LoadClass, LoadRule
from reactive_desched.model.objects import BEST_EFFORT, GUARANTEED, ClusterObject, Pod, PodStatus
from reactive_desched.model.usage import NODE_METRIC, NodeMetric
from reactive_desched.plugins.low_node_load import LowNodeLoadPlugin
from reactive_desched.state.indexes.node_loads import SOURCES, NodeLoads
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario, plugin_from_policy

NOW_S = 1000.0
NODES = ("n1", "n2", "n3")
ONE = {"cpu": "1", "memory": "1Gi"}
NO_RESIZE: dict[str, int] = {}
SPECS = tuple(pod("x", requests=requests).spec for requests in ({}, ONE))
OWNERS = pod("x").owners
CPU = {"lowThresholds": {"cpu": 40}, "highThresholds": {"cpu": 60}}
PROD = {"prodLowThresholds": {"cpu": 20}, "prodHighThresholds": {"cpu": 30}}
POLICIES: dict[str, dict[str, Any]] = {
    "absolute": CPU,
    "with production pods": {**CPU, **PROD},
    "production pods alone": {
        "lowThresholds": {"cpu": 0},
        "highThresholds": {"cpu": 100},
        **PROD,
        "nodeFit": False,
    },
    "distances from the mean": {
        "lowThresholds": {"cpu": 10, "pods": 10},
        "highThresholds": {"cpu": 10, "pods": 10},
        "useDeviationThresholds": True,
    },
    "pools": {
        **CPU,
        "nodeSelector": {"matchLabels": {"pool": "a"}},
        "nodePools": [
            {"name": "rest", "nodeSelector": {"matchExpressions": []}, **CPU},
        ],
    },
    "some pods": {**CPU, "podSelectors": [{"selector": {"matchLabels": {"app": "web"}}}]},
}

pods = st.builds(
    lambda name, on, labels, spec, qos, phase, deletion_s: replace(
        pod(name, on=on, status=PodStatus(phase, qos_class=qos)),
        labels=labels,
        spec=spec,
        owners=OWNERS,
        resize_delta=NO_RESIZE,
        deletion_s=deletion_s,
    ),
    st.sampled_from(["p1", "p2", "p3", "p4", "p5"]),
    st.sampled_from(["n1", "n1", "n1", "n2", "n3", None]),
    st.sampled_from([{}, {"app": "web"}, {PRIORITY_CLASS_LABEL: "koord-prod"}]),
    st.sampled_from(SPECS),
    st.sampled_from([BEST_EFFORT, GUARANTEED]),
    st.sampled_from(["Running", "Running", "Running", "Failed"]),
    st.sampled_from([None, None, None, 1]),
)
nodes = st.builds(
    lambda name, pool, ready, cordoned: node(
        name, labels={"pool": pool}, ready=ready, unschedulable=cordoned
    ),
    st.sampled_from(NODES),
    st.sampled_from("ab"),
    st.sampled_from(["True", "True", "True", "False"]),
    st.sampled_from([False, False, True]),
)
metrics = st.builds(
    lambda name, system, used, at_s: NodeMetric(
        NODE_METRIC,
        name,
        {"cpu": system + sum(used.values()), "memory": 2**20},
        at_s,
        {f"default/{pod}": {"cpu": cpu, "memory": 1} for pod, cpu in used.items()},
    ),
    st.sampled_from(["n1", "n1", "n2", "n3"]),
    st.sampled_from([0, 0, 1000, 3000]),
    st.dictionaries(
        st.sampled_from(["p1", "p2", "p3", "p4", "p5"]), st.sampled_from([400, 1200]), max_size=5
    ),
    st.sampled_from([NOW_S, NOW_S, NOW_S - 100, NOW_S - 500]),
)
moved = st.builds(
    lambda name, pods: MovedPods("LowNodeLoad", name, {pod(each).uid: 1.0 for each in pods}),
    st.sampled_from(NODES),
    st.sets(st.sampled_from(["p1", "p2", "p3", "p4", "p5"]), min_size=1),
)
START: list[tuple[str, Any]] = [
    *(("apply", node(name, labels={"pool": "a"})) for name in NODES),
    *(
        ("apply", replace(pod(f"p{n}", on="n1"), owners=OWNERS, spec=SPECS[0], labels={}))
        for n in (1, 2, 3)
    ),
    *(("apply", NodeMetric(NODE_METRIC, name, {"cpu": 100}, NOW_S)) for name in ("n2", "n3")),
    (
        "apply",
        NodeMetric(
            NODE_METRIC,
            "n1",
            {"cpu": 3600},
            NOW_S,
            {f"default/p{n}": {"cpu": 1200} for n in (1, 2, 3)},
        ),
    ),
]
steps = st.builds(
    lambda start, then: [*start, *then],
    st.sampled_from([[], START, START]),
    st.lists(
        st.tuples(
            st.sampled_from(["apply", "apply", "apply", "remove"]),
            pods | pods | nodes | metrics | metrics | moved,
        )
        | st.tuples(st.just("wait"), st.sampled_from([30.0, 90.0])),
        min_size=5,
        max_size=25,
    ),
)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@given(steps=steps)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    policy: dict[str, Any], steps: list[tuple[str, Any]]
) -> None:
    given = {"anomalyCondition": {"consecutiveAbnormalities": 1}, **policy}
    plugin = plugin_from_policy(LowNodeLoadPlugin, LowNodeLoadArgs, **given)
    cluster = Scenario(plugin, now_s=NOW_S)
    for step, subject in steps:
        getattr(cluster, step)(subject)
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == cluster.flagged_after_restart()


# --- balanced means balanced --------------------------------------------------------------------


def measure(name: str, pods: dict[str, tuple[Pod, int]], at_s: float) -> NodeMetric:
    used = {str(pod): {"cpu": cpu} for pod, cpu in pods.values() if pod.node == name}
    total = sum(each["cpu"] for each in used.values())
    return NodeMetric(NODE_METRIC, name, {"cpu": total}, at_s, used)


@given(
    uses=st.lists(st.sampled_from([100, 300, 500, 900]), min_size=1, max_size=12),
    others=st.lists(st.sampled_from([100, 300]), max_size=4),
    policy=st.sampled_from(["absolute", "distances from the mean"]),
)
def test_once_a_plan_is_carried_out_and_measured_nothing_is_found(
    uses: list[int], others: list[int], policy: str
) -> None:
    """Replacements go to the node with the least use, as a load-aware scheduler places them."""
    given = {"anomalyCondition": {"consecutiveAbnormalities": 1}, **POLICIES[policy]}
    plugin = plugin_from_policy(LowNodeLoadPlugin, LowNodeLoadArgs, **given)
    placed = {
        name: (pod(name, on=on, owner=f"ReplicaSet/{name}"), cpu)
        for prefix, on, used in (("p", "n1", uses), ("o", "n2", others))
        for number, cpu in enumerate(used)
        for name in (f"{prefix}{number}",)
    }
    objects: list[ClusterObject] = [*map(node, NODES), *(p for p, _ in placed.values())]
    cluster = Scenario(plugin, *objects, now_s=NOW_S)
    cluster.apply(*(measure(name, placed, NOW_S) for name in NODES))
    moves = 0

    for turn in range(1, len(placed) + 2):
        found = [each for each in cluster.evaluate("every pool") if isinstance(each, Finding)]
        for finding in found:
            key = finding.pod.name
            assert isinstance(finding.targets, frozenset)
            free = min(
                finding.targets,
                key=lambda name: sum(cpu for p, cpu in placed.values() if p.node == name),
            )
            _, cpu = placed.pop(key)
            again = pod(f"{key}r", on=free, owner=f"ReplicaSet/{key.rstrip('r')}")
            placed[again.name] = again, cpu
            cluster.remove(finding.pod)
            cluster.apply(again)
            moves += 1
        cluster.apply(*(measure(name, placed, NOW_S + turn) for name in NODES))
        if not found:
            break

    assert cluster.flagged() == set()
    assert not any(name.endswith("rr") for name in placed), "no pod moves twice"
    (rule,) = {rule for kind, rule in plugin.required_indexes if kind is NodeLoads}
    assert isinstance(rule, LoadRule)
    classes = cluster.view.index(NodeLoads, rule).classes(0.0)
    for loaded in classes.of(*SOURCES):
        assert loaded.load_class is LoadClass.HIGH
        assert loaded.load.name == "n1", "a target is not made a source"
