"""Whatever happens, reacting finds what a full scan finds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.consolidation import EMPTY, EMPTYING, consolidating_taint
from reactive_desched.model.objects import PodStatus
from reactive_desched.plugins.custom_priority import CustomPriorityArgs, CustomPriorityPlugin
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario, plugin_from_policy

PLACES = {"p1": "n1", "p2": "n1", "p3": "n2", "p4": "n3", "p5": "n1"}
"""The nodes of pods by name: a pod that is bound stays so, in a cluster."""
OWNERS = pod("x").owners
REQUESTS: tuple[dict[str, str], ...] = ({}, {"cpu": "3"}, {"cpu": "1"}, {"memory": "2Gi"})
SPECS = tuple(pod("x", requests=each).spec for each in REQUESTS)
POOLS = ("dear", "middle", "cheap", "other")
ORDER = [{"name": each, "nodeSelector": {"matchLabels": {"pool": each}}} for each in POOLS[:3]]
POLICIES: dict[str, dict[str, Any]] = {
    "each alone": {},
    "without node fit": {"nodeFit": False},
    "some pods": {"podSelectors": [{"selector": {"matchLabels": {"app": "web"}}}]},
    "some nodes": {"nodeSelector": {"matchLabels": {"disk": "ssd"}}},
    "whole nodes": {"mode": "DrainNode"},
    "some pods of whole nodes": {
        "mode": "DrainNode",
        "podSelectors": [{"selector": {"matchLabels": {"app": "web"}}}],
    },
    "closed nodes": {"mode": "DrainNode", "autoCordon": True},
}

pods = st.builds(
    lambda name, labels, spec, phase, deletion_s, owners: replace(
        pod(name, on=PLACES[name], status=PodStatus(phase)),
        labels=labels,
        spec=spec,
        owners=owners,
        deletion_s=deletion_s,
    ),
    st.sampled_from(list(PLACES)),
    st.sampled_from([{}, {"app": "web"}]),
    st.sampled_from(SPECS),
    st.sampled_from(["Running", "Running", "Running", "Failed"]),
    st.sampled_from([None, None, None, 1]),
    st.sampled_from([OWNERS, OWNERS, ()]),
)
nodes = st.builds(
    lambda name, pool, disk, ready, cordoned, cpu, state: replace(
        node(
            name,
            labels={"pool": pool, "disk": disk},
            ready=ready,
            unschedulable=cordoned,
            allocatable={"cpu": cpu, "memory": "8Gi", "pods": "8"},
        ),
        taints=() if state is None else (consolidating_taint(state),),
    ),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(POOLS),
    st.sampled_from(["ssd", "ssd", "hdd"]),
    st.sampled_from(["True", "True", "True", "False"]),
    st.sampled_from([False, False, True]),
    st.sampled_from(["4", "8", "0"]),
    st.sampled_from([None, None, EMPTYING, EMPTY]),
)
EIGHT = {"cpu": "8", "memory": "8Gi", "pods": "8"}
START: list[tuple[str, Any]] = [
    *(
        ("apply", node(name, labels={"pool": pool, "disk": "ssd"}, allocatable=EIGHT))
        for name, pool in (("n1", "dear"), ("n2", "middle"), ("n3", "cheap"))
    ),
    *(
        ("apply", replace(pod(name, on=on, labels={"app": "web"}), owners=OWNERS, spec=SPECS[2]))
        for name, on in PLACES.items()
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
    plugin = plugin_from_policy(
        CustomPriorityPlugin, CustomPriorityArgs, evictionOrder=ORDER, **policy
    )
    cluster = Scenario(plugin)
    for step, subject in [*START, *steps]:
        getattr(cluster, step)(subject)
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == cluster.flagged_after_restart()
