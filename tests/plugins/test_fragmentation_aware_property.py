"""Whatever happens, reacting finds what a full scan finds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.objects import PodStatus
from reactive_desched.plugins.fragmentation_aware import (
    FragmentationAwareArgs,
    FragmentationAwarePlugin,
)
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario, plugin_from_policy

NAMES = ("p1", "p2", "p3", "p4")
OWNERS = pod("x").owners
PLACES = dict.fromkeys(NAMES, "n1") | {"p5": "n2"}
"""The nodes of pods by name: a pod that is bound stays so, in a cluster."""
EIGHT = {"cpu": "8", "memory": "8Gi", "pods": "8"}
REQUESTS: tuple[dict[str, str], ...] = (
    {},
    {"cpu": "3"},
    {"cpu": "2"},
    {"memory": "2Gi"},
    {"cpu": "1", "memory": "1Gi"},
)
SPECS = tuple(pod("x", requests=each).spec for each in REQUESTS)
POLICIES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "without node fit": {"nodeFit": False},
    "a pool": {"nodeSelector": {"matchLabels": {"pool": "a"}}},
    "some pods": {"podSelectors": [{"selector": {"matchLabels": {"app": "web"}}}]},
    "pods": {"resources": ["cpu", "pods"], "imbalanceThreshold": 0.05},
}

pods = st.builds(
    lambda name, labels, spec, phase, deletion_s: replace(
        pod(name, on=PLACES[name], status=PodStatus(phase)),
        labels=labels,
        spec=spec,
        owners=OWNERS,
        deletion_s=deletion_s,
    ),
    st.sampled_from(list(PLACES)),
    st.sampled_from([{}, {"app": "web"}]),
    st.sampled_from(SPECS),
    st.sampled_from(["Running", "Running", "Running", "Failed"]),
    st.sampled_from([None, None, None, 1]),
)
nodes = st.builds(
    lambda name, pool, ready, cordoned, cpu: node(
        name,
        labels={"pool": pool},
        ready=ready,
        unschedulable=cordoned,
        allocatable={"cpu": cpu, "memory": "8Gi", "pods": "8"},
    ),
    st.sampled_from(["n1", "n2"]),
    st.sampled_from("ab"),
    st.sampled_from(["True", "True", "True", "False"]),
    st.sampled_from([False, False, True]),
    st.sampled_from(["4", "8", "0"]),
)

START: list[tuple[str, Any]] = [
    *(("apply", node(name, labels={"pool": "a"}, allocatable=EIGHT)) for name in ("n1", "n2")),
    *(
        ("apply", replace(pod(name, on="n1"), owners=OWNERS, spec=spec, labels={"app": "web"}))
        for name, spec in zip(NAMES, SPECS[1:], strict=False)
    ),
]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["apply", "apply", "apply", "remove"]), pods | pods | nodes),
        min_size=1,
        max_size=25,
    )
)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    policy: dict[str, Any], steps: list[tuple[str, Any]]
) -> None:
    plugin = plugin_from_policy(FragmentationAwarePlugin, FragmentationAwareArgs, **policy)
    cluster = Scenario(plugin)
    for step, subject in [*START, *steps]:
        getattr(cluster, step)(subject)
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == cluster.flagged_after_restart()


def test_a_node_that_joins_the_pool_is_looked_at() -> None:
    plugin = plugin_from_policy(
        FragmentationAwarePlugin, FragmentationAwareArgs, **POLICIES["a pool"]
    )
    outside, inside = (node("n1", labels={"pool": p}, allocatable=EIGHT) for p in "ba")
    loaded = replace(pod("p1", on="n1"), owners=OWNERS, spec=SPECS[1])
    cluster = Scenario(plugin, outside, loaded)
    assert cluster.flagged() == set()

    cluster.apply(inside)

    assert cluster.flagged() == {"p1"}


def test_a_pod_that_is_selected_now_may_leave() -> None:
    plugin = plugin_from_policy(
        FragmentationAwarePlugin, FragmentationAwareArgs, **POLICIES["some pods"]
    )
    loaded = replace(pod("p1", on="n1"), owners=OWNERS, spec=SPECS[1], labels={})
    cluster = Scenario(plugin, node("n1", allocatable=EIGHT), loaded)
    assert cluster.flagged() == set()

    cluster.apply(replace(loaded, labels={"app": "web"}))

    assert cluster.flagged() == {"p1"}


def test_what_a_leaving_pod_requests_counts_no_more() -> None:
    """The memory of the pod that leaves had made the shares equal."""
    plugin = plugin_from_policy(FragmentationAwarePlugin, FragmentationAwareArgs)
    cpu = replace(pod("p1", on="n1", requests={"cpu": "3"}), owners=OWNERS)
    memory = replace(pod("p2", on="n1", requests={"memory": "3Gi"}), owners=OWNERS)
    cluster = Scenario(plugin, node("n1", allocatable=EIGHT), cpu, memory)
    assert cluster.flagged() == set()

    cluster.apply(replace(memory, deletion_s=1))

    assert cluster.flagged() == {"p1"}
