"""Pods that have ended are cleared away beside the limits that are made for running work."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.history import PastEviction
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    Deployment,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodStatus,
    ReplicaSet,
)
from reactive_desched.plugins.failed_pods import FailedPodsArgs, FailedPodsPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings.brakes import BrakeSettings, StormBrakeSettings
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.policy.settings.limits import EvictionRateLimits
from reactive_desched.policy.settings.moves import MaxMovingSettings, MoveSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import UNGUARDED
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio

DEFAULT_RATES = EvictionRateLimits().by_scope()
FAILED = PodStatus("Failed", "Evicted")
TAINTED, FREE, OTHER = node("n1", "gpu:NoSchedule"), node("n2"), node("n3")
ONE_CPU = {"cpu": "1", "pods": "110"}
NODES = (TAINTED, FREE, OTHER)
ONE_MOVES = MoveSettings(
    max_moving=MaxMovingSettings(owner=1, namespace=1, node=1, zone=1, cluster=1),
    cooldown_s=0,
    node_cooldown_s=0,
    futile_backoff_s=0,
)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def flow_of(**settings: Any) -> FakeEdgesController:
    """Build a controller that finds failed pods, and pods on tainted nodes."""
    failed = FailedPodsPlugin(FailedPodsArgs(min_pod_lifetime_seconds=0))
    return FakeEdgesController(failed, NodeTaintsPlugin(NodeTaintsArgs()), **settings)


def failed_pods(count: int, name: str = "ended", **more: Any) -> list[Pod]:
    """Make failed pods of one ReplicaSet on a node without a taint."""
    made = {"on": "n2", "status": FAILED, "owner": "ReplicaSet/web", **more}
    return [pod(f"{name}-{number}", **made) for number in range(count)]


def evicted_at(flow: FakeEdgesController) -> dict[str, float]:
    """Return when each pod was asked to leave."""
    return dict(flow.evictor.calls)


def blocked(flow: FakeEdgesController, name: str) -> Sequence[tuple[str, str]]:
    """Return by which gates a pod was blocked, and for which setting."""
    decisions = (
        each.decision for each in flow.observer.evaluations if each.finding.pod.name == name
    )
    return [(each.gate, each.setting) for each in decisions if isinstance(each, Defer | Refuse)]


async def test_five_hundred_ended_pods_of_one_owner_are_gone_in_five_minutes() -> None:
    ended = failed_pods(500)
    async with flow_of(rates=DEFAULT_RATES).running() as flow:
        flow.sync_and_resume(*NODES, *ended)
        await anyio.sleep(300)

    assert set(flow.evicted_names) == {each.name for each in ended}
    times = sorted(evicted_at(flow).values())
    assert all(later - first > 9.9 for first, later in zip(times, times[40:], strict=False)), (
        "the API server is spared: 20 at once, and two a second"
    )


async def test_running_pods_leave_as_fast_as_if_no_pod_had_ended() -> None:
    running = [pod(f"run-{number}", on="n1", owner="ReplicaSet/web") for number in range(6)]
    times = []
    for ended in ([], failed_pods(200)):
        async with flow_of(rates=DEFAULT_RATES).running() as flow:
            begin = anyio.current_time()
            flow.sync_and_resume(*NODES, *ended, *running)
            await anyio.sleep(120)
        at = evicted_at(flow)
        times.append([at[each.name] - begin for each in running])
    assert times[1] == pytest.approx(times[0], abs=0.2)


async def test_ended_pods_leave_as_fast_as_if_no_pod_ran_that_has_to_leave() -> None:
    running = [pod(f"run-{number}", on="n1", owner="ReplicaSet/web") for number in range(60)]
    async with flow_of(rates=DEFAULT_RATES).running() as flow:
        flow.sync_and_resume(*NODES, *running)
        await anyio.sleep(5)
        flow.deliver(*failed_pods(20))
        await anyio.sleep(1)

    assert {each.name for each in failed_pods(20)} <= set(flow.evicted_names)


@pytest.mark.parametrize(
    "ended",
    [
        pytest.param(pod("x", on="n2", status=FAILED, owner=None), id="a bare pod"),
        pytest.param(pod("x", on="n2", status=FAILED, owner="Job/batch"), id="of a Job"),
        pytest.param(pod("x", on="n1", status=FAILED), id="on a tainted node"),
    ],
)
async def test_any_ended_pod_passes_limits_that_are_spent(ended: Pod) -> None:
    spent = dict.fromkeys(DEFAULT_RATES, TokenRate(1 / 3600, 1)) | {"ended": TokenRate(1, 1)}
    args = DefaultEvictorArgs(evict_failed_bare_pods=True)
    async with flow_of(rates=spent, evictor_args=args, moves=ONE_MOVES).running() as flow:
        flow.sync_and_resume(*NODES, pod("web-0", on="n1"), pod("web-1", on="n1"))
        await anyio.sleep(1)
        assert len(flow.evicted_names) == 1
        flow.deliver(ended)
        await anyio.sleep(2)

    assert "x" in flow.evicted_names


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
async def test_an_ended_pod_that_is_replaced_only_then_counts_as_one_that_runs(kind: str) -> None:
    args = DefaultEvictorArgs(evict_daemon_set_pods=True)
    rates = dict.fromkeys(DEFAULT_RATES, TokenRate(1 / 60, 1))
    async with flow_of(rates=rates, evictor_args=args).running() as flow:
        flow.sync_and_resume(*NODES, pod("a", on="n1"))
        await anyio.sleep(1)
        flow.deliver(pod("x", on="n2", status=FAILED, owner=f"{kind}/x"))
        await anyio.sleep(5)
        assert flow.evicted_names == ["a"]
        assert blocked(flow, "x") == [("EvictionRateLimit", "budgets.cluster")]
        await anyio.sleep(60)
        assert flow.evicted_names == ["a", "x"]


async def test_a_pod_that_ends_while_it_waits_for_a_limit_waits_no_more() -> None:
    rates = {"owner": TokenRate(1 / 60, 1), "ended": TokenRate(1, 1)}
    pods = [pod(f"web-{number}", on="n1") for number in range(3)]
    async with flow_of(rates=rates).running() as flow:
        flow.sync_and_resume(*NODES, *pods)
        await anyio.sleep(5)
        assert flow.evicted_names == ["web-0"]
        flow.deliver(replace(pods[2], status=FAILED))
        await anyio.sleep(2)
        assert flow.evicted_names == ["web-0", "web-2"]
        await anyio.sleep(60)

    assert flow.evicted_names == ["web-0", "web-2", "web-1"]


async def test_the_message_names_the_limit_of_ended_pods() -> None:
    async with flow_of(rates={"ended": TokenRate(1 / 10, 1)}).running() as flow:
        flow.sync_and_resume(*NODES, *failed_pods(3))
        await anyio.sleep(1)

    assert blocked(flow, "ended-2") == [("EvictionRateLimit", "budgets.ended")]


# --- what counts moving pods, or looks for the place of a replacement ---


async def test_moving_pods_do_not_hold_ended_ones_nor_ended_ones_them() -> None:
    async with flow_of(moves=ONE_MOVES).running() as flow:
        flow.sync_and_resume(*NODES, *failed_pods(2))
        await anyio.sleep(1)
        assert set(flow.evicted_names) == {"ended-0", "ended-1"}
        flow.deliver(pod("run-0", on="n1", owner="ReplicaSet/web"))
        await anyio.sleep(1)
        assert flow.evicted_names[2:] == ["run-0"]
        flow.deliver(*failed_pods(1, "late"), pod("run-1", on="n1", owner="ReplicaSet/web"))
        await anyio.sleep(1)

    assert flow.evicted_names[3:] == ["late-0"]


async def test_an_ended_pod_that_leaves_excuses_no_missing_pod_of_its_workload() -> None:
    guards = UNGUARDED.model_copy(
        update={"disabled": tuple(set(GuardName) - {GuardName.UNREADY_WORKLOADS})}
    )
    wanted = Deployment("default", "top", "top", replicas=3)
    owner = ReplicaSet("owner-web", 3, OwnerReference("Deployment", "top", "top"))
    there = [
        pod("run-0", on="n1", owner="ReplicaSet/web"),
        pod("run-1", on="n2", owner="ReplicaSet/web"),
        pod("down", on="n2", owner="ReplicaSet/web", status=PodStatus("Running")),
    ]
    async with flow_of(guards=guards).running() as flow:
        flow.sync_and_resume(*NODES, wanted, owner, *there, *failed_pods(1))
        await anyio.sleep(5)

    assert flow.evicted_names == ["ended-0"]
    assert [gate for gate, _ in blocked(flow, "run-0")][:1] == ["UnreadyWorkloads"]


async def test_an_ended_pod_takes_no_disruption_of_a_budget_from_its_siblings() -> None:
    labels = {"app": "web"}
    budget = PodDisruptionBudget(
        "default", "web", uid="pdb", selector=LabelSelector(labels), disruptions_allowed=1
    )
    async with flow_of().running() as flow:
        flow.sync_and_resume(*NODES, budget, *failed_pods(5, labels=labels))
        await anyio.sleep(1)
        flow.deliver(pod("run-0", on="n1", labels=labels))
        await anyio.sleep(1)

    assert flow.evicted_names[5:] == ["run-0"]


async def test_a_budget_does_not_hold_an_ended_pod_whose_condition_says_ready_still() -> None:
    labels = {"app": "web"}
    budget = PodDisruptionBudget(
        "default", "web", uid="pdb", selector=LabelSelector(labels), disruptions_allowed=0
    )
    lost = replace(pod("any").status, phase="Failed")
    assert lost.is_ready, "as the pod garbage collector leaves the pods of a node that is gone"
    async with flow_of().running() as flow:
        flow.sync_and_resume(*NODES, budget, pod("x", on="n2", labels=labels, status=lost))
        await anyio.sleep(1)

    assert flow.evicted_names == ["x"]


async def test_an_ended_pod_needs_no_place_and_takes_none() -> None:
    """The only other node has room for one pod, which a replacement that never comes may not."""
    full, room = node("n2", allocatable={"pods": "0"}), node("n3", allocatable=ONE_CPU)
    args = DefaultEvictorArgs(node_fit=True)
    ended = failed_pods(3, on="n3", requests={"cpu": "1"})
    async with flow_of(evictor_args=args).running() as flow:
        flow.sync_and_resume(TAINTED, full, room, *ended)
        await anyio.sleep(1)
        assert set(flow.evicted_names) == {each.name for each in ended}
        assert flow.controller.gates.node_fit.reserved_by_node() == {}
        flow.deliver(pod("run-0", on="n1", requests={"cpu": "1"}, owner="ReplicaSet/web"))
        await anyio.sleep(1)

    assert flow.evicted_names[3:] == ["run-0"]


async def test_the_memory_of_moves_does_not_hold_a_replacement_that_has_ended() -> None:
    moves = ONE_MOVES.model_copy(update={"cooldown_s": 600.0})
    async with flow_of(moves=moves).running() as flow:
        first = pod("web-0", on="n1")
        flow.sync_and_resume(*NODES, first)
        await anyio.sleep(1)
        flow.delete(first)
        flow.deliver(pod("web-1", on="n2", created=2))
        await anyio.sleep(1)
        flow.deliver(pod("web-1", on="n2", created=2, status=FAILED))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web-0", "web-1"]


async def test_an_ended_pod_of_a_single_replica_holds_up_no_other_workload() -> None:
    guards = UNGUARDED.model_copy(
        update={"disabled": tuple(set(GuardName) - {GuardName.SINGLE_REPLICAS})}
    )
    workloads = [
        thing
        for name in ("web", "db")
        for thing in (
            Deployment("default", name, f"top-{name}", replicas=1),
            ReplicaSet(f"owner-{name}", 1, OwnerReference("Deployment", name, f"top-{name}")),
        )
    ]
    async with flow_of(guards=guards).running() as flow:
        flow.sync_and_resume(*NODES, *workloads, *failed_pods(1))
        await anyio.sleep(1)
        flow.deliver(pod("db-0", on="n1", owner="ReplicaSet/db"))
        await anyio.sleep(2)

    assert flow.evicted_names == ["ended-0", "db-0"]


# --- what is about every eviction ---


async def test_the_limits_of_the_policy_count_ended_pods_as_upstream_does() -> None:
    async with flow_of(limits={"namespace": 2}).running() as flow:
        flow.sync_and_resume(*NODES, *failed_pods(4))
        await anyio.sleep(10)

    assert len(flow.evicted_names) == 2


async def test_a_brake_holds_ended_pods_too() -> None:
    brakes = BrakeSettings(zones=None, storm=StormBrakeSettings(pods=3, percent=1), pending=None)
    rates = {"ended": TokenRate(1, 1)}
    async with flow_of(brakes=brakes, rates=rates).running() as flow:
        flow.sync_and_resume(*NODES)
        await anyio.sleep(1)
        flow.deliver(*failed_pods(20))
        await anyio.sleep(60)

    assert len(flow.evicted_names) < 5
    assert blocked(flow, "ended-19")[-1][0] == "StormBrake"


# --- a restart ---


def past(name: str, **more: Any) -> PastEviction:
    fields = {
        "owner_uid": "owner-web",
        "owner_kind": "ReplicaSet",
        "owner_name": "web",
        "replacing_uid": "owner-web",
        "replacing_kind": "ReplicaSet",
        "plugin": FailedPodsPlugin.name,
        "ended_s": 5,
        "result": "evicted",
        **more,
    }
    return PastEviction(f"request-{name}", 5, name, "default", name, "n2", **fields)


@pytest.mark.parametrize("is_clean_up", [True, False])
async def test_after_a_restart_ended_pods_count_where_they_did(*, is_clean_up: bool) -> None:
    async with flow_of(rates=DEFAULT_RATES, moves=ONE_MOVES).running() as flow:
        await anyio.sleep(6)
        flow.controller.restore([past(f"x-{i}", is_clean_up=is_clean_up) for i in range(3)])
        for number in range(3):
            flow.intent_store.adopt(f"request-x-{number}", f"x-{number}")
        free = flow.controller.gates.rate_limiter.min_available(6)
        flow.sync_and_resume(*NODES, pod("run-0", on="n1", owner="ReplicaSet/web"))
        await anyio.sleep(1)

    assert round(20 - free["ended"]) == (1 if is_clean_up else 0), "three were, two came back"
    assert (free["cluster"] == 10) == is_clean_up
    assert (flow.evicted_names == ["run-0"]) == is_clean_up
