"""Which of the required kinds something reads: the controller goes on without the others."""

from typing import Any

import pytest

from reactive_desched.controller.asked_kinds import (
    asked_kinds,
    unasked_in_sweep,
    unasked_kinds,
)
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.plugins.node_affinity import PREFERRED, NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from tests.support.assembly_bench import TAINTS, make_config, make_profile

AFFINITY = NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=(PREFERRED,)))
ANTI_AFFINITY = InterPodAntiAffinityPlugin(InterPodAntiAffinityArgs())
NO_GUARD = GuardSettings(disabled=(GuardName.DO_NOT_EVICT,))
ALWAYS = {"pods", "nodes", "poddisruptionbudgets"}
PVC = {"defaultDisabled": [], "extraEnabled": ["PodsWithPVC"]}
CLASSES = {"podsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}}


@pytest.mark.parametrize(
    ("plugin", "evictor", "more"),
    [
        pytest.param(TAINTS, {}, set(), id="a plugin that asks for no node"),
        pytest.param(
            TAINTS, {"nodeFit": True}, {"namespaces", "persistentvolumeclaims"}, id="node fit"
        ),
        pytest.param(
            AFFINITY, {}, {"namespaces", "persistentvolumeclaims"}, id="a plugin that needs a node"
        ),
        pytest.param(ANTI_AFFINITY, {}, {"namespaces"}, id="terms that select namespaces"),
        pytest.param(
            TAINTS,
            {"namespaceLabelSelector": {"matchLabels": {"env": "prod"}}},
            {"namespaces"},
            id="namespaceLabelSelector",
        ),
        pytest.param(
            TAINTS, {"priorityThreshold": {"name": "low"}}, {"priorityclasses"}, id="a threshold"
        ),
        pytest.param(TAINTS, {"priorityThreshold": {"value": 5}}, set(), id="a number"),
        pytest.param(
            TAINTS,
            {"podProtections": PVC | {"config": {"PodsWithPVC": CLASSES["podsWithPVC"]}}},
            {"persistentvolumeclaims"},
            id="storage classes",
        ),
    ],
)
def test_a_kind_is_asked_for_by_what_reads_it(
    plugin: AnyPlugin, evictor: dict[str, Any], more: set[str]
) -> None:
    config = make_config(make_profile("day", plugin, **evictor), guards=NO_GUARD)

    required = {"pods", "nodes", "namespaces", "priorityclasses"}
    required |= {"persistentvolumeclaims", "poddisruptionbudgets"}
    assert asked_kinds(config) & required == ALWAYS | more
    assert unasked_kinds(config) == required - ALWAYS - more


def test_the_guard_that_reads_namespaces_asks_for_them() -> None:
    on = make_config(make_profile("day", TAINTS), guards=GuardSettings())

    assert "namespaces" in asked_kinds(on)


def test_a_sweep_as_upstream_asks_for_what_its_filters_read() -> None:
    policy = make_config(make_profile("day", AFFINITY, nodeFit=True)).policy

    assert unasked_in_sweep(policy, fits_as_scheduler=False) == {
        *("namespaces", "priorityclasses", "persistentvolumeclaims"),
    }
    assert unasked_in_sweep(policy, fits_as_scheduler=True) == {"priorityclasses"}
