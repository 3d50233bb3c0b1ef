"""What the PodGroup of a gang says: whether it is one, how many run together, and who may leave."""

from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.gate.gang_moves import GATHER_S
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.objects import Pod, PodCondition
from reactive_desched.model.pod_groups import (
    CoschedulingPodGroup,
    GroupRule,
    KubernetesPodGroup,
    KubernetesWorkload,
    PodGroup,
    VolcanoPodGroup,
)
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.testing.builders import node, pod, pod_status, with_spec
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio

NODES = (node("n1", "repair:NoSchedule"), *map(node, ("n2", "n3", "n4")))
ALL_BUT = tuple(set(GuardName) - {GuardName.GANGS, GuardName.DO_NOT_EVICT})
KEEP = GuardSettings(disabled=ALL_BUT)
TOGETHER = GuardSettings.model_validate({"gangs": "together", "disabled": ALL_BUT})
READY = pod_status("Running", conditions=(PodCondition("Ready", "True"),))
STARTING = pod_status("Running", conditions=(PodCondition("Ready", "False"),))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def gang(size: int = 4, *, name: str = "train", sick: int = 1, **fields: Any) -> list[Pod]:
    """Build the pods of a group of Kubernetes, the first ones of which are on the tainted node."""
    return [
        with_spec(
            replace(
                pod(f"{name}-{number}", on="n1" if number < sick else "n2", status=READY),
                **fields,
            ),
            scheduling_group=name,
        )
        for number in range(size)
    ]


def said(**rule: Any) -> PodGroup:
    return KubernetesPodGroup("default", "train", "u", 1, GroupRule(**rule))


def controller(guards: GuardSettings = KEEP) -> FakeEdgesController:
    return FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()), guards=guards)


def blocked(flow: FakeEdgesController) -> dict[str, Defer | Refuse]:
    evaluator: Evaluator = flow.controller.evaluator
    return {each.decision.finding.pod.name: each.decision for each in evaluator.queue.pending()}


async def left(guards: GuardSettings, *objects: Any) -> list[str]:
    async with controller(guards).running() as flow:
        flow.sync_and_resume(*NODES, *objects)
        await anyio.sleep(60)
        return sorted(flow.evicted_names)


@pytest.mark.parametrize("guards", [KEEP, TOGETHER], ids=["keep", "together"])
async def test_pods_of_a_basic_group_leave_one_by_one(guards: GuardSettings) -> None:
    assert await left(guards, *gang(), said(is_basic=True)) == ["train-0"]


async def test_a_basic_group_that_is_disrupted_as_one_leaves_as_a_whole() -> None:
    rule = said(is_basic=True, disruption="All")

    assert await left(KEEP, *gang(), rule) == []
    assert await left(TOGETHER, *gang(), rule) == [each.name for each in gang()]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        pytest.param({"quorum": 3, "disruption": "Single"}, ["train-0"], id="a surplus of one"),
        pytest.param({"quorum": 4, "disruption": "Single"}, [], id="no surplus"),
        pytest.param({"quorum": 3, "disruption": "All"}, [], id="all or none"),
        pytest.param({"quorum": 3}, [], id="nothing said of disruptions"),
        pytest.param({"disruption": "Single"}, [], id="nothing said of a quorum"),
    ],
)
async def test_a_gang_loses_its_surplus_where_it_says_that_it_may(
    rule: dict[str, Any], names: list[str]
) -> None:
    assert await left(KEEP, *gang(), said(**rule)) == names


async def test_of_several_no_more_leave_at_once_than_the_surplus_has() -> None:
    pods = gang(6, sick=3)
    async with controller().running() as flow:
        flow.sync_and_resume(*NODES, *pods, said(quorum=5, disruption="Single"))
        await anyio.sleep(60)
        assert len(flow.evicted_names) == 1
        [first] = [each for each in pods if each.name in flow.evicted_names]
        flow.delete(first)
        new = replace(first, name="train-new", uid="new", node="n3", status=STARTING)
        flow.deliver(new)
        await anyio.sleep(60)
        assert len(flow.evicted_names) == 1
        flow.deliver(replace(new, status=READY, resource_version=9))
        await anyio.sleep(60)
        assert len(flow.evicted_names) == 2


async def test_a_pod_that_is_not_ready_is_no_surplus() -> None:
    pods = gang()
    pods[-1] = replace(pods[-1], status=STARTING)

    assert await left(KEEP, *pods, said(quorum=3, disruption="Single")) == []


async def test_with_together_the_surplus_leaves_alone_and_else_the_gang_as_a_whole() -> None:
    names = [each.name for each in gang()]

    assert await left(TOGETHER, *gang(), said(quorum=3, disruption="Single")) == ["train-0"]
    assert await left(TOGETHER, *gang(), said(quorum=4, disruption="Single")) == names


async def test_a_group_that_comes_or_changes_wakes_the_pods_that_it_holds() -> None:
    async with controller().running() as flow:
        flow.sync_and_resume(*NODES, *gang(sick=2))
        await anyio.sleep(60)
        assert flow.evicted_names == []
        assert blocked(flow)["train-0"].reason == "OneOfGang"
        flow.deliver(said(quorum=4, disruption="Single"))
        await anyio.sleep(60)
        assert flow.evicted_names == []
        flow.deliver(replace(said(quorum=3, disruption="Single"), resource_version=2))
        await anyio.sleep(60)
        assert len(flow.evicted_names) == 1


@pytest.mark.parametrize("record", [CoschedulingPodGroup, VolcanoPodGroup])
async def test_a_group_of_another_system_or_namespace_says_nothing(record: Any) -> None:
    rule = GroupRule(is_basic=True)

    assert await left(KEEP, *gang(), record("default", "train", rule=rule)) == []
    assert await left(KEEP, *gang(), KubernetesPodGroup("shop", "train", rule=rule)) == []
    assert await left(KEEP, *gang(), KubernetesPodGroup("default", "other", rule=rule)) == []


async def test_the_replicas_of_a_group_of_a_workload_are_gangs_by_its_rule() -> None:
    workload = KubernetesWorkload(
        "default", "job", groups=(("alone", GroupRule(is_basic=True)), ("all", GroupRule(2)))
    )
    alone, both = gang(2, name="job/alone/0"), gang(2, name="job/all/0")
    async with controller().running() as flow:
        flow.sync_and_resume(*NODES, *alone, *both)
        await anyio.sleep(60)
        assert flow.evicted_names == []
        flow.deliver(workload)
        await anyio.sleep(60)
        assert flow.evicted_names == ["job/alone/0-0"]


async def test_gangs_leave_one_at_a_time_beside_the_surplus_of_others() -> None:
    spare = [
        with_spec(
            replace(each, name=f"spare-{number}", uid=f"spare-{number}"), scheduling_group="s"
        )
        for number, each in enumerate(gang())
    ]
    rule = KubernetesPodGroup("default", "s", rule=GroupRule(3, disruption="Single"))
    async with controller(TOGETHER).running() as flow:
        flow.sync_and_resume(*NODES, *gang(), *spare, rule)
        await anyio.sleep(GATHER_S + 1)
        assert sorted(flow.evicted_names) == ["spare-0", *(each.name for each in gang())]
