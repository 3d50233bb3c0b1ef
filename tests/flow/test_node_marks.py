"""A cordon is not a drain: what the controller does about nodes that others close or empty."""

from collections.abc import Mapping
from typing import Any, Final

import anyio
import pytest
import trio.testing

from reactive_desched.model.node_marks import CORDON, NODE_MARK_GROUPS, taint_of
from reactive_desched.plugins.node_affinity import REQUIRED, NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.testing.builders import node, pod
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
NO_ARGS: Final[Mapping[str, Any]] = {}
OTHER_GUARDS = tuple(set(GuardName) - {GuardName.DRAINED_NODES})


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def controller(settings: dict[str, object], **args: object) -> FakeEdgesController:
    plugins = (
        NodeTaintsPlugin(NodeTaintsArgs.model_validate(args)),
        NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=(REQUIRED,))),
    )
    guards = GuardSettings.model_validate({"disabled": OTHER_GUARDS, **settings})
    return FakeEdgesController(*plugins, guards=guards)


async def evicted_after(
    *taints: str, args: Mapping[str, object] = NO_ARGS, **settings: object
) -> list[str]:
    """Name the pods that are evicted in an hour after node n1 got these taints."""
    async with controller(settings, **args).running() as flow:
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"))
        flow.deliver(node("n1", *taints, unschedulable=any(CORDON in each for each in taints)))
        await anyio.sleep(3600)
    return flow.evicted_names


async def test_a_cordon_empties_no_node() -> None:
    assert await evicted_after(f"{CORDON}:NoSchedule") == []


async def test_a_cordon_is_a_drain_where_the_settings_say_so() -> None:
    assert await evicted_after(f"{CORDON}:NoSchedule", cordoned_nodes="drain") == ["web"]


async def test_another_taint_of_a_cordoned_node_counts_as_ever() -> None:
    assert await evicted_after(f"{CORDON}:NoSchedule", "gpu:NoSchedule") == ["web"]


MARKS = {
    str(taint_of(key, mark)): group.name
    for group in NODE_MARK_GROUPS
    for key, mark in group.marks.items()
}

LAGGING = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""They repeat the Ready condition: on a node that is Ready they are left over."""


@pytest.mark.parametrize("taint", MARKS)
async def test_no_mark_empties_a_node_unless_its_setting_or_the_policy_says_so(taint: str) -> None:
    soft: dict[str, object] = {"includePreferNoSchedule": True}
    taint = taint.replace("NoExecute", "NoSchedule")  # by whatever effect the taint is set
    named = soft | {"includedTaints": (taint.rpartition(":")[0],)}

    assert await evicted_after(taint, args=soft) == []
    [setting] = (each for of, each in MARKS.items() if of.split(":")[0] == taint.split(":")[0])
    may_count = [] if taint.split(":")[0] in LAGGING else ["web"]
    assert await evicted_after(taint, args=named) == may_count
    assert await evicted_after(taint, args=soft, **{setting: "drain"}) == may_count


@pytest.mark.parametrize("settings", [{}, {"ignored_by": {NodeAffinityPlugin.name: ()}}])
async def test_no_plugin_evicts_from_a_node_that_an_autoscaler_empties_until_it_lets_go(
    settings: dict[str, object],
) -> None:
    async with controller(settings).running() as flow:
        flow.sync_and_resume(
            node("n1", f"{TO_BE_DELETED}:NoSchedule"),
            node("n2", labels={"disk": "ssd"}),
            pod("web", on="n1", requires="disk=ssd"),
        )
        await anyio.sleep(3600)
        assert flow.evicted_names == []
        assert flow.observer.decisions == [("Refuse", "web", "DrainedNodes")]

        flow.deliver(node("n1"))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


@pytest.mark.parametrize(
    "settings",
    [
        {"disabled": tuple(GuardName)},
        {"ignored_by": {NodeAffinityPlugin.name: (GuardName.DRAINED_NODES,)}},
        {"scaled_down_nodes": "drain"},
    ],
    ids=["disabled", "ignored by the plugin", "drain"],
)
async def test_the_settings_switch_that_guard_off(settings: dict[str, object]) -> None:
    async with controller(settings, excludedTaints=(TO_BE_DELETED,)).running() as flow:
        flow.sync_and_resume(
            node("n1", f"{TO_BE_DELETED}:NoSchedule"),
            node("n2", labels={"disk": "ssd"}),
            pod("web", on="n1", requires="disk=ssd"),
        )
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]
