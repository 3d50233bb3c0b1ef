"""Gangs that may move: all pods of a gang leave together, or none of them does."""

from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.gate.approval import proposal_id
from reactive_desched.gate.gang_moves import GATHER_S, MAX_GANG_PODS, REST_S
from reactive_desched.model.approvals import ProposalAnswer
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.gangs import GANG_SYSTEMS
from reactive_desched.model.history import PastEviction, PastFollowUp
from reactive_desched.model.modes import PROPOSE
from reactive_desched.model.objects import (
    Annotations,
    Deployment,
    OwnerReference,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    StatefulSet,
)
from reactive_desched.model.outcomes import PdbRefused, ServerError
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings.brakes import StormBrakeSettings
from reactive_desched.policy.settings.controller_settings import ProfileSettings
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.testing.anti_affinity import selector
from reactive_desched.testing.builders import node, pod, pod_status, with_spec
from tests.support.configurations import NO_BRAKES, UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

SICK = node("n1", "repair:NoSchedule")
NODES = (SICK, *map(node, ("n2", "n3", "n4")))
ALL_BUT = tuple(set(GuardName) - {GuardName.GANGS, GuardName.DO_NOT_EVICT})
TOGETHER = GuardSettings.model_validate({"gangs": "together", "disabled": ALL_BUT})


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def gang(name: str = "train", size: int = 8, **fields: Any) -> list[Pod]:
    """Build the pods of a Volcano job: the first is on the tainted node."""
    nodes = ["n1", "n2", "n3", "n4"]
    return [
        replace(
            pod(f"{name}-{number}", on=nodes[number % 4] if number else "n1"),
            labels={"volcano.sh/job-name": name, "app": name},
            **fields,
        )
        for number in range(size)
    ]


def controller(guards: GuardSettings = TOGETHER, **parts: Any) -> FakeEdgesController:
    return FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()), guards=guards, **parts)


def blocked(flow: FakeEdgesController) -> dict[str, Defer | Refuse]:
    evaluator: Evaluator = flow.controller.evaluator
    return {each.decision.finding.pod.name: each.decision for each in evaluator.queue.pending()}


def names(pods: list[Pod]) -> list[str]:
    return [each.name for each in pods]


def left_in(flow: FakeEdgesController) -> list[str]:
    """Name the pods that were evicted, by name: several requests are under way at once."""
    return sorted(flow.evicted_names)


async def test_all_pods_of_a_gang_leave_together_amid_everything_else(golden: Golden) -> None:
    others = [pod("web", on="n2"), pod("db", on="n3"), *gang("other")[1:4]]
    rates = {"owner": TokenRate(per_second=1 / 600, burst=2)}
    one = MoveSettings(max_moving=UNLIMITED_MOVES.max_moving.model_copy(update={"owner": 1}))
    async with controller(rates=rates, moves=one).running() as flow:
        flow.sync_and_resume(*NODES, *gang(), *others)
        await anyio.sleep(GATHER_S + 1)

        assert left_in(flow) == names(gang())
        reasons = {each.context.finding.message for each in flow.intent_store.intents}
        assert "\n".join(sorted(reasons)) == golden()


@pytest.mark.parametrize("key", ["", *(system.key for system in GANG_SYSTEMS)])
async def test_eight_of_every_system_stay_by_default_and_leave_as_a_whole_where_they_may(
    key: str,
) -> None:
    """The empty key is a group of Kubernetes itself; pods of no gang leave beside them."""
    marks: dict[str, str] = {key: "train"} if key else {}
    eight = [
        replace(
            with_spec(each, scheduling_group="" if key else "train"),
            labels={"app": "train", **marks},
            owners=(OwnerReference("RayCluster", "train", "uid-train", controller=True),),
        )
        for each in gang()
    ]
    others = [pod("web", on="n1"), pod("db", on="n2"), *gang("other")[1:4]]
    async with controller(GuardSettings(disabled=ALL_BUT)).running() as flow:
        flow.sync_and_resume(*NODES, *eight, *others)
        await anyio.sleep(600)
        assert flow.evicted_names == ["web"]

    async with controller().running() as flow:
        flow.sync_and_resume(*NODES, *eight, *others)
        await anyio.sleep(GATHER_S + 5)
        assert left_in(flow) == [*names(eight), "web"]


async def test_by_default_a_gang_stays(golden: Golden) -> None:
    async with controller(GuardSettings(disabled=ALL_BUT)).running() as flow:
        flow.sync_and_resume(*NODES, *gang())
        await anyio.sleep(3600)
        assert flow.evicted_names == []
        assert {name: each.reason for name, each in blocked(flow).items()} == {
            "train-0": "OneOfGang",
            "train-4": "OneOfGang",
        }
        assert blocked(flow)["train-0"].message == golden()


async def test_a_plugin_that_balances_moves_no_gang(golden: Golden) -> None:
    guards = TOGETHER
    async with controller(guards).running() as flow:
        balancing = frozenset({NodeTaintsPlugin.name})
        flow.controller.gates.gangs.reconfigure(guards, balancing)
        flow.controller.gates._guards.reconfigure(guards, balancing)
        flow.sync_and_resume(*NODES, *gang())
        await anyio.sleep(60)
        assert flow.evicted_names == []
        assert blocked(flow)["train-0"].message == golden()


async def test_what_keeps_one_pod_keeps_all_until_it_lets_that_go(golden: Golden) -> None:
    pods = gang()
    pods[5] = replace(pods[5], annotations=Annotations(do_not_evict="true"))
    async with controller().running() as flow:
        flow.sync_and_resume(*NODES, *pods)
        await anyio.sleep(600)
        assert flow.evicted_names == []
        kept = blocked(flow)["train-0"]
        assert kept.message == golden()
        assert kept.keeps
        assert len(flow.controller.ledger) == 0
        flow.deliver(replace(pods[5], annotations=Annotations(), resource_version=9))
        await anyio.sleep(GATHER_S + 1)
        assert left_in(flow) == names(pods)


@pytest.mark.parametrize(("allowed", "left"), [(7, []), (8, names(gang()))])
async def test_a_disruption_budget_has_to_allow_all_pods(allowed: int, left: list[str]) -> None:
    budget = PodDisruptionBudget(
        "default", "b", selector=selector("app=train"), disruptions_allowed=allowed
    )
    async with controller().running() as flow:
        flow.sync_and_resume(*NODES, *gang(), budget)
        await anyio.sleep(600)
        assert left_in(flow) == left


@pytest.mark.parametrize(("limit", "left"), [(7, []), (8, names(gang()))])
async def test_the_limits_of_the_policy_have_to_leave_room_for_all_pods(
    limit: int, left: list[str]
) -> None:
    async with controller(limits={"cluster": limit}).running() as flow:
        flow.sync_and_resume(*NODES, *gang())
        await anyio.sleep(60)
        assert left_in(flow) == left


async def test_other_pods_wait_for_the_tokens_that_a_gang_took() -> None:
    rates = {"cluster": TokenRate(per_second=1 / 10, burst=2)}
    async with controller(rates=rates).running() as flow:
        flow.sync_and_resume(*NODES, *gang())
        await anyio.sleep(GATHER_S + 1)
        assert len(flow.evicted_names) == 8
        flow.deliver(pod("web", on="n1"))
        await anyio.sleep(55)  # eight are spent of two: seven tokens are to come
        assert "web" not in flow.evicted_names
        await anyio.sleep(20)
        assert "web" in flow.evicted_names


async def test_one_gang_moves_at_a_time_and_the_one_hurt_least_is_the_first(
    golden: Golden,
) -> None:
    dear = [replace(each, annotations=Annotations(deletion_cost="9000000")) for each in gang("a")]
    cheap = gang("b")
    async with controller().running() as flow:
        flow.sync_and_resume(*NODES, *dear, *cheap)
        await anyio.sleep(GATHER_S - 1)
        gathered = blocked(flow)["a-0"]
        assert gathered.reason == "GangsGathered"
        assert gathered.message == golden("gathered")
        await anyio.sleep(60)
        assert left_in(flow) == names(cheap)
        moves = blocked(flow)["a-0"]
        assert moves.reason == "OtherGangMoves"
        assert moves.message == golden("moves")
        for each in cheap:
            flow.delete(each)
        await anyio.sleep(700)  # no replacement comes: the moves are given up
        assert sorted(flow.evicted_names[8:]) == names(dear)


async def test_a_gang_that_something_keeps_does_not_hold_a_dearer_one() -> None:
    dear = [replace(each, annotations=Annotations(deletion_cost="9000000")) for each in gang("a")]
    kept = [replace(each, annotations=Annotations(do_not_evict="true")) for each in gang("b")]
    async with controller().running() as flow:
        flow.sync_and_resume(*NODES, *dear, gang("b")[0], *kept[1:])
        await anyio.sleep(GATHER_S + 1)
        assert left_in(flow) == names(dear)


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
async def test_what_keeps_a_workload_running_is_asked_about_the_first_pod_alone(kind: str) -> None:
    owner = OwnerReference(kind, "train", "uid-train", controller=True, api_version="apps/v1")
    kinds = {"StatefulSet": StatefulSet, "Deployment": Deployment}
    workload = kinds[kind]("default", "train", "uid-train", replicas=8)
    ready = pod_status("Running", conditions=(PodCondition("Ready", "True"),))
    pods = gang(owners=(owner,), status=ready)
    disabled = tuple(set(ALL_BUT) - {GuardName.UNREADY_WORKLOADS, GuardName.STATEFUL_SET_ORDER})
    guards = GuardSettings.model_validate({"gangs": "together", "disabled": disabled})
    async with controller(guards).running() as flow:
        flow.sync_and_resume(*NODES, workload, *pods)
        await anyio.sleep(60)
        assert left_in(flow) == names(pods)


async def test_the_storm_brake_counts_the_pods_that_were_found_alone() -> None:
    storm = StormBrakeSettings(pods=5, percent=1)
    async with controller(brakes=NO_BRAKES.model_copy(update={"storm": storm})).running() as flow:
        flow.sync_and_resume(*map(node, ("n1", "n2", "n3", "n4")), *gang())
        await anyio.sleep(60)
        flow.deliver(replace(SICK, resource_version=9))
        await anyio.sleep(60)
        assert left_in(flow) == names(gang())


async def test_gangs_of_which_a_pod_is_found_make_a_storm() -> None:
    storm = StormBrakeSettings(pods=5, percent=1)
    async with controller(brakes=NO_BRAKES.model_copy(update={"storm": storm})).running() as flow:
        jobs = [each for name in "abcde" for each in gang(name, size=2)]
        flow.sync_and_resume(*map(node, ("n1", "n2", "n3", "n4")), *jobs)
        await anyio.sleep(60)
        flow.deliver(replace(SICK, resource_version=9))
        await anyio.sleep(60)
        assert flow.evicted_names == []
        assert {each.reason for each in blocked(flow).values()} == {"FindingStorm"}


async def test_a_pod_of_a_kept_gang_is_looked_at_when_what_keeps_another_one_changes() -> None:
    pods = gang()
    budget = PodDisruptionBudget(
        "default", "b", selector=selector("app=train"), disruptions_allowed=7
    )
    async with controller().running() as flow:
        flow.sync_and_resume(*NODES, *pods, budget)
        await anyio.sleep(60)
        assert flow.evicted_names == []
        flow.deliver(replace(budget, disruptions_allowed=8, resource_version=9))
        await anyio.sleep(GATHER_S + 2)
        assert left_in(flow) == names(pods)


async def test_a_gang_of_very_many_pods_stays(golden: Golden) -> None:
    async with controller().running() as flow:
        flow.sync_and_resume(*NODES, *gang(size=MAX_GANG_PODS + 1))
        await anyio.sleep(60)
        assert flow.evicted_names == []
        assert blocked(flow)["train-0"].message == golden()


async def test_a_pod_whose_owner_lets_it_go_leaves_alone_whatever_the_size_of_its_gang() -> None:
    for size in (8, MAX_GANG_PODS + 1):
        [first, *others] = gang(size=size)
        first = replace(first, annotations=Annotations(evict="true"))
        async with controller().running() as flow:
            flow.sync_and_resume(*NODES, first, *[each for each in others if each.node != "n1"])
            await anyio.sleep(60)
            assert flow.evicted_names == [first.name]


async def test_one_approval_of_a_person_is_for_the_whole_gang() -> None:
    flow = controller()
    written = flow.config.written
    assert written is not None
    settings = written.model_copy(update={"profiles": {"test": ProfileSettings(mode=PROPOSE)}})
    flow.reconfigure(replace(flow.config, written=settings))
    async with flow.running():
        flow.sync_and_resume(*NODES, *gang(size=4), pod("web", on="n3"))
        await anyio.sleep(60)
        asked = blocked(flow)
        assert {name: each.reason for name, each in asked.items()} == {"train-0": "NotApproved"}
        answer = ProposalAnswer(approves=True, by="ada", reason="", for_s=3600.0)
        proposal = proposal_id("test", asked["train-0"].finding)
        flow.controller.answer_proposals([proposal], answer)
        flow.pipeline.worker.wake()
        await anyio.sleep(GATHER_S + 1)

    assert left_in(flow) == names(gang(size=4))


def sized(pods: list[Pod]) -> list[Pod]:
    return [
        replace(each, spec=pod("x", requests={"cpu": "4", "memory": "1Gi"}).spec) for each in pods
    ]


async def test_pods_whose_own_nodes_take_no_more_need_room_on_others() -> None:
    has = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    sick = [node(name, "repair:NoSchedule", allocatable=has) for name in ("n1", "n2")]
    pods = sized(gang(size=2))
    async with controller(evictor_args=DefaultEvictorArgs(node_fit=True)).running() as flow:
        flow.sync_and_resume(*sick, node("n3", allocatable=has), *pods)
        await anyio.sleep(60)
        assert flow.evicted_names == []
        flow.deliver(node("n4", allocatable=has))
        await anyio.sleep(60)
        assert left_in(flow) == ["train-0", "train-1"]


async def test_pods_whose_own_nodes_take_such_pods_need_no_other_place() -> None:
    has = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    nodes = [node("n1", "repair:NoSchedule", allocatable=has), node("n2", allocatable=has)]
    async with controller(evictor_args=DefaultEvictorArgs(node_fit=True)).running() as flow:
        flow.sync_and_resume(*nodes, node("n3", allocatable=has), *sized(gang(size=2)))
        await anyio.sleep(60)
        assert left_in(flow) == ["train-0", "train-1"]


LEFT = "train-5"
OTHERS = [name for name in names(gang()) if name != LEFT]
"""A pod whose eviction the API server refuses, and those that leave."""


async def others_leave(flow: FakeEdgesController) -> list[Pod]:
    """Let all but one leave; return the replacements of those, which run already."""
    pods = gang()
    flow.sync_and_resume(*NODES, *pods)
    await anyio.sleep(GATHER_S + 0.5)
    assert set(OTHERS) <= set(left_in(flow))
    gone = [each for each in pods if each.name != LEFT]
    flow.delete(*gone)
    replacements = [
        replace(each, name=f"{each.name}x", uid=f"{each.name}x", node="n2") for each in gone
    ]
    flow.deliver(*replacements)
    return replacements


@pytest.mark.parametrize("left", [LEFT, "train-0"], ids=["one that follows", "the one found"])
async def test_a_pod_whose_eviction_the_api_server_refuses_follows_the_others(left: str) -> None:
    async with controller().running() as flow:
        flow.evictor.script[left] = [PdbRefused("not now"), ServerError(500, "broken")]
        pods = gang()
        flow.sync_and_resume(*NODES, *pods)
        await anyio.sleep(GATHER_S + 0.5)
        gone = [each for each in pods if each.name != left]
        flow.delete(*gone)
        flow.deliver(*(replace(e, name=f"{e.name}x", uid=f"{e.name}x", node="n2") for e in gone))
        await anyio.sleep(300)

        assert flow.evicted_names.count(left) == 3
        assert sorted(set(flow.evicted_names)) == names(pods)


async def test_what_keeps_a_pod_that_is_left_behind_keeps_it_until_it_lets_it_go() -> None:
    async with controller().running() as flow:
        flow.evictor.script[LEFT] = [PdbRefused("not now")]
        await others_leave(flow)
        kept = replace(gang()[5], annotations=Annotations(do_not_evict="true"))
        flow.deliver(replace(kept, resource_version=7))
        await anyio.sleep(120)
        assert flow.evicted_names.count(LEFT) == 1
        assert blocked(flow)[LEFT].reason == "DoNotEvict"
        flow.deliver(replace(gang()[5], resource_version=9))
        await anyio.sleep(60)

        assert flow.evicted_names.count(LEFT) == 2


async def test_a_pod_of_a_gang_does_not_go_alone_where_no_other_has_left() -> None:
    """All requests are refused: then all gates are asked for all of them again."""
    async with controller().running() as flow:
        flow.evictor.script |= {name: [ServerError(500, "broken")] for name in names(gang())}
        flow.sync_and_resume(*NODES, *gang())
        await anyio.sleep(GATHER_S + 0.5)
        assert left_in(flow) == names(gang())
        held = replace(gang()[3], annotations=Annotations(do_not_evict="true"))
        flow.deliver(replace(held, resource_version=7))
        await anyio.sleep(600)
        assert left_in(flow) == names(gang())
        assert blocked(flow)["train-0"].reason == "GangMemberKept"


async def test_a_pod_that_is_left_behind_for_long_is_moved_no_more() -> None:
    async with controller().running() as flow:
        flow.evictor.script[LEFT] = [ServerError(500, "broken")] * 100
        await others_leave(flow)
        await anyio.sleep(2 * REST_S)
        tried = flow.evicted_names.count(LEFT)
        assert 2 < tried < 20
        await anyio.sleep(REST_S)

        assert flow.evicted_names.count(LEFT) == tried


def past(name: str, *, at: float, **more: Any) -> PastEviction:
    """An eviction of a pod of the gang that an earlier process requested at this time."""
    known: dict[str, Any] = {"ended_s": at, "result": "evicted", "accepted_s": at, "began_s": at}
    told = {"plugin": NodeTaintsPlugin.name, "profile": "test", "gang": "default/train"}
    owner = {"owner_uid": "t", "owner_kind": "Job", "owner_name": "t", "replacing_uid": "t"}
    values = {**known, **told, **owner, **more}
    return PastEviction(f"request-{name}", at, name, "default", name, "n2", **values)


@pytest.mark.parametrize("restored_first", [True, False])
async def test_a_pod_that_an_earlier_process_left_behind_follows(*, restored_first: bool) -> None:
    """Neither it nor the replacement of another one is on the node that has to be left."""
    began_s = 1_000.0
    async with controller().running() as flow:
        await anyio.sleep(1_030)
        old = replace(gang()[5], created_s=900)
        new = replace(gang()[2], name="train-2x", uid="train-2x", created_s=1_002)
        restored = [past(f"train-{number}", at=began_s) for number in (0, 1, 2)]
        if restored_first:
            flow.controller.restore(restored)
        flow.sync_and_resume(*NODES, old, new)
        if not restored_first:
            flow.controller.restore(restored)
        await anyio.sleep(60)

        assert flow.evicted_names == ["train-5"]


async def test_after_a_restart_no_other_gang_begins_while_one_moves() -> None:
    async with controller().running() as flow:
        await anyio.sleep(1_030)
        flow.controller.restore([past("other-1", at=1_000.0, gang="default/other")])
        flow.sync_and_resume(*NODES, *gang())
        await anyio.sleep(GATHER_S + 5)

        assert flow.evicted_names == []
        assert blocked(flow)["train-0"].reason == "OtherGangMoves"


async def test_after_a_restart_a_gang_that_was_replaced_holds_up_no_other_one() -> None:
    replaced = PastFollowUp(1_010.0, "moved", "n3")
    async with controller().running() as flow:
        await anyio.sleep(1_030)
        moved = past("other-1", at=1_000.0, gang="default/other", follow_up=replaced)
        flow.controller.restore([moved])
        flow.sync_and_resume(*NODES, *gang())
        await anyio.sleep(60)

        assert left_in(flow) == names(gang())
