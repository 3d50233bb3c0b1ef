"""The workloads that are moved most have metrics of their own, and never more than so many."""

from collections import Counter
from typing import Any

import anyio
import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.ledger.eviction import past_eviction
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.evaluation import DecisionContext
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction, PastFollowUp
from reactive_desched.model.outcomes import CANCELLED, DRY_RUN, EVICTED, UNKNOWN
from reactive_desched.moves.moved_workloads import (
    MAX_MOVES,
    MAX_REASONS,
    OTHER_REASONS,
    MovedWorkloads,
)
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController

DAY = 86_400.0
WALL = 1_800_000_000.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def of_workload(name: str, at: float, **more: Any) -> PastEviction:
    return PastEviction(
        **{
            "request_id": f"{name}-{at}",
            "requested_s": WALL + at,
            "pod_uid": f"{name}-{at}",
            "namespace": "shop",
            "pod_name": f"{name}-1",
            "node": "n1",
            "owner_kind": "Deployment",
            "owner_name": name,
            "ended_s": WALL + at,
            "result": EVICTED,
            **more,
        }
    )


def counting(most: int = 20) -> MovedWorkloads:
    return MovedWorkloads(MoveSettings(workloads_in_metrics=most))


def count(workloads: MovedWorkloads, past: PastEviction) -> None:
    wall = past.ended_s or past.requested_s
    workloads.restored(past_eviction(past, wall - WALL, wall), wall - WALL)


def moves(workloads: MovedWorkloads, now: float) -> dict[tuple[str, ...], Any]:
    [found, _] = workloads.collect(now)
    return dict(found.samples)


def blocked(workloads: MovedWorkloads, now: float) -> dict[tuple[str, ...], Any]:
    [_, found] = workloads.collect(now)
    return dict(found.samples)


def block(workloads: MovedWorkloads, owner: str, reason: str) -> None:
    of = pod("web-1", namespace="shop", owner=owner)
    finding = Finding(of, "NodeTaints", "no gpu")
    context = DecisionContext(finding, owners=of.owners)
    workloads.count_blocked(context, Refuse(finding, "NodeFit", reason, ""))


def test_one_that_is_passed_by_another_loses_its_series() -> None:
    workloads = counting(most=1)
    count(workloads, of_workload("web", 0))
    assert moves(workloads, 0) == {("shop", "Deployment", "web"): 1}

    count(workloads, of_workload("api", 1))
    assert moves(workloads, 1) == {("shop", "Deployment", "web"): 1}, "it has no more"
    count(workloads, of_workload("api", 2))
    assert moves(workloads, 2) == {("shop", "Deployment", "api"): 2}


@pytest.mark.parametrize(
    "other",
    [
        {"result": CANCELLED},
        {"result": DRY_RUN},
        {"result": "", "ended_s": None},
        {"owner_kind": "", "owner_name": ""},
        {"is_clean_up": True},
    ],
    ids=str,
)
def test_what_moved_no_workload_is_not_counted(other: dict[str, Any]) -> None:
    workloads = counting()
    count(workloads, of_workload("web", 0, **other))
    assert not moves(workloads, 0)


def test_what_was_evicted_perhaps_is_counted() -> None:
    workloads = counting()
    count(workloads, of_workload("web", 0, result=UNKNOWN))
    assert moves(workloads, 0) == {("shop", "Deployment", "web"): 1}


def test_a_long_name_is_cut_and_one_line() -> None:
    workloads = counting()
    count(workloads, of_workload("w" * 100_000 + "\n", 0))
    [(_, _, name)] = moves(workloads, 0)
    assert len(name) < 1_000
    assert name.isprintable()


def test_no_more_than_so_many_moves_are_kept() -> None:
    workloads = counting()
    count(workloads, of_workload("first", 0))
    for at in range(MAX_MOVES):
        count(workloads, of_workload("web", 1.0 + at / MAX_MOVES))
    assert moves(workloads, 2) == {("shop", "Deployment", "web"): MAX_MOVES}


def test_what_blocks_the_same_workloads_is_counted_by_reason() -> None:
    workloads = counting(most=1)
    block(workloads, "Deployment/web", "NoOtherNodeFits")  # it was not moved yet
    count(workloads, of_workload("web", 0))
    count(workloads, of_workload("web", 0))
    count(workloads, of_workload("api", 0))
    for reason in ("NoOtherNodeFits", "NoOtherNodeFits", "DisruptionBudget"):
        block(workloads, "Deployment/web", reason)
    block(workloads, "Deployment/api", "NoOtherNodeFits")
    block(workloads, "Deployment/other", "NoOtherNodeFits")

    web = "shop", "Deployment", "web"
    assert blocked(workloads, 0) == {(*web, "NoOtherNodeFits"): 2, (*web, "DisruptionBudget"): 1}
    assert not blocked(workloads, DAY)
    count(workloads, of_workload("web", DAY))
    assert not blocked(workloads, DAY), "it begins anew with the moves"


def test_further_reasons_are_counted_together() -> None:
    workloads = counting()
    count(workloads, of_workload("web", 0))
    for number in range(2 * MAX_REASONS):
        block(workloads, "Deployment/web", f"Reason{number}")
    found = blocked(workloads, 0)
    assert len(found) == MAX_REASONS + 1
    assert found["shop", "Deployment", "web", OTHER_REASONS] == MAX_REASONS


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0, 3 * DAY)), max_size=40),
    st.integers(0, 4),
    st.floats(0, 4 * DAY),
)
def test_the_series_are_those_of_the_most_moved_of_the_day(
    moved: list[tuple[str, float]], most: int, later: float
) -> None:
    workloads = counting(most)
    moved.sort(key=lambda each: each[1])
    for name, at in moved:
        count(workloads, of_workload(name, at))
    now = max([later, *(at for _, at in moved)])

    expected = Counter(name for name, at in moved if round(at - now, 3) > -DAY)
    found = {name: number for (_, _, name), number in moves(workloads, now).items()}
    assert len(found) == min(most, len(expected))
    assert {name: expected[name] for name in found} == found
    left_out = [expected[name] for name in expected if name not in found]
    assert max(left_out, default=0) <= min(found.values(), default=0) or not most


@pytest.mark.anyio
async def test_a_controller_counts_its_own_moves_and_those_of_the_journal() -> None:
    taints = NodeTaintsPlugin(NodeTaintsArgs())
    async with FakeEdgesController(taints, moves=UNLIMITED_MOVES).running() as flow:
        now = anyio.current_time()
        before = of_workload(
            *("web", 0),
            requested_s=now,
            ended_s=now,
            namespace="default",
            follow_up=PastFollowUp(now, "replaced"),
        )
        flow.controller.restore([before])
        flow.sync_and_resume(node("n1", "gpu:NoSchedule"), node("n2"))
        flow.deliver(pod("web-2", on="n1", owner="Deployment/web"))
        await anyio.sleep(10)
        found = moves(flow.controller.gates.moved_workloads, anyio.current_time())

    assert found == {("default", "Deployment", "web"): 2}
