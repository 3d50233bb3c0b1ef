"""Every eviction is written down, asked for once, and ends exactly once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import anyio
import anyio.lowlevel
import pytest

from reactive_desched.controller.turn_clocks import TurnClocks
from reactive_desched.controller.worker import EVICTIONS_UNDER_WAY, EvictionPool
from reactive_desched.eviction.client import IntentOwner
from reactive_desched.eviction.executor import (
    EvictionExecutor,
)
from reactive_desched.model.evaluation import DecisionContext, EvictionResult, Intent
from reactive_desched.model.eviction_options import DeleteOptions, EvictionOptions
from reactive_desched.model.findings import Finding
from reactive_desched.model.outcomes import (
    EVICTIONS_PAUSED,
    JOURNAL_UNAVAILABLE,
    RECORD_UNWRITABLE,
    SHUTTING_DOWN,
    Accepted,
    Conflict,
    Denied,
    EffectUnknown,
    EvictionRequest,
    EvictionResponse,
    NotFound,
    Outcome,
    PdbRefused,
    ServerError,
    TooManyRequests,
)
from reactive_desched.testing.builders import pod
from tests.support.flow import FakeEvictor, MemoryIntentStore

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Bench(IntentOwner):
    """An eviction pool between a recorder and a server; it is its own controller."""

    def __init__(self, max_concurrent: int = 50, server: FakeEvictor | None = None) -> None:
        self.ledger = MemoryIntentStore()
        self.server = server or FakeEvictor()
        self.why_not = ""
        self.superseded: dict[str, str] = {}
        self.requests: list[tuple[str, str, float]] = []
        self.ended: list[tuple[str, Outcome, float]] = []
        self.clocks = TurnClocks(anyio.current_time, anyio.current_time)
        executor = EvictionExecutor(self.ledger, self.server, anyio.current_time)
        self.evictions = EvictionPool(self, executor, max_concurrent)  # type: ignore[arg-type]  # what a pool uses of a controller

    def cancelled(self, intent: Intent) -> Outcome | None:
        reason = self.superseded.get(intent.pod.name) or self.why_not
        return EVICTIONS_PAUSED.outcome(reason) if reason else None

    def requested(self, intent: Intent, request_id: str, sent_at: float) -> None:
        self.requests.append((intent.pod.name, request_id, sent_at))

    def settle(self, result: EvictionResult) -> None:
        self.ended.append((result.intent.pod.name, result.outcome, result.sent_at))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        async with anyio.create_task_group() as group:
            await group.start(self.evictions.run)
            yield self
            group.cancel_scope.cancel()

    def submit(self, *names: str) -> None:
        for name in names:
            finding = Finding(pod(name, on="n1"), "NodeTaints", "does not tolerate gpu")
            self.evictions.submit(Intent(DecisionContext(finding, "default")))

    @property
    def asked(self) -> list[str]:
        return [name for name, _ in self.server.calls]

    @property
    def results(self) -> list[tuple[str, str]]:
        return [(name, outcome.result) for name, outcome, _ in self.ended]


async def test_the_intent_is_on_record_before_the_call_and_its_outcome_after() -> None:
    async with Bench().running() as bench:
        bench.ledger.slow_s = bench.server.slow_s = 1
        bench.submit("web")
        await anyio.sleep(0.5)
        assert (bench.asked, bench.ledger.lines) == ([], [])
        await anyio.sleep(1)
        assert (bench.asked, bench.ledger.lines) == (["web"], [("intent", "web", "")])
        await anyio.sleep(2)

    assert bench.ledger.lines == [("intent", "web", ""), ("outcome", "web", "evicted")]
    assert bench.results == [("web", "evicted")]


async def test_an_intent_goes_to_disk_when_a_task_is_free() -> None:
    async with Bench(max_concurrent=1).running() as bench:
        bench.server.slow_s = 1
        bench.submit("a", "b")
        await anyio.sleep(0.5)
        assert bench.ledger.begun == ["a"]
        await anyio.sleep(1)
        assert bench.ledger.begun == ["a", "b"]


async def test_what_may_not_continue_after_the_write_of_its_intent_is_withheld_on_record() -> None:
    async with Bench().running() as bench:
        bench.ledger.on_write = lambda: setattr(bench, "why_not", "the Lease ran out")
        bench.submit("web")
        await anyio.sleep(1)

    assert bench.server.requests == []
    assert bench.ledger.lines == [("intent", "web", ""), ("outcome", "web", "cancelled")]


async def test_what_shows_only_when_the_state_has_caught_up_keeps_the_pod() -> None:
    class LateServer(FakeEvictor):
        async def caught_up(self) -> bool:
            await anyio.sleep(3)
            bench.superseded["web"] = "the pod has changed since the decision"
            return True

    async with Bench(server=LateServer()).running() as bench:
        bench.submit("web", "other")
        await anyio.sleep(4)

    assert (bench.asked, bench.results) == (["other"], [("web", "cancelled"), ("other", "evicted")])
    assert [name for _, name, _ in bench.ledger.lines] == ["other", "other"]


async def test_evictions_that_waited_too_long_hold_up_none_behind_them() -> None:
    class SlowServer(FakeEvictor):
        async def caught_up(self) -> bool:
            await anyio.sleep(3)
            return True

    old = [f"old-{number}" for number in range(20)]
    async with Bench(max_concurrent=1, server=SlowServer()).running() as bench:
        bench.submit("first", *old, "new")
        await anyio.sleep(1)
        bench.superseded |= dict.fromkeys(old, "the decision waited 6 s for its turn")
        await anyio.sleep(6)

    assert bench.asked == ["first", "new"]
    assert [name for name, result in bench.results if result == "cancelled"] == old


async def test_a_request_is_known_while_the_server_has_not_answered_it() -> None:
    async with Bench().running() as bench:
        bench.server.slow_s = 30
        bench.submit("web")
        await anyio.sleep(1)
        requested = [name for name, _, _ in bench.requests]

    assert (requested, bench.ended) == (["web"], [])


async def test_an_intent_that_was_not_written_was_not_requested() -> None:
    async with Bench().running() as bench:
        bench.ledger.fault = "no space left on device"
        bench.submit("web")
        await anyio.sleep(1)

    assert bench.requests == []


async def test_a_request_that_has_no_answer_is_read_back() -> None:
    async with Bench().running() as bench:
        bench.server.script["web"] = [EffectUnknown("connection reset")]
        bench.submit("web")
        await anyio.sleep(1)

    assert bench.results == [("web", "unknown")]


async def test_the_request_names_the_pod_by_uid_and_its_case_and_says_why_it_must_go() -> None:
    async with Bench().running() as bench:
        finding = Finding(pod("web", uid="u7", on="n1"), "NodeTaints", "no gpu")
        grace = EvictionOptions(delete=DeleteOptions(grace_period_seconds=3))
        what = Intent(DecisionContext(finding, "night"), grace_period_s=3)
        bench.evictions.submit(what)
        await anyio.sleep(1)

    assert bench.server.requests == [
        EvictionRequest(
            "default", "web", "u7", "night/NodeTaints: no gpu", grace, case="case-of-i1"
        )
    ]


async def test_nothing_is_written_or_asked_while_paused() -> None:
    async with Bench().running() as bench:
        bench.why_not = "nodes: link lost"
        bench.submit("web")
        await anyio.sleep(1)

    assert bench.ledger.lines == []
    assert bench.server.requests == []
    assert [(name, outcome) for name, outcome, _ in bench.ended] == [
        ("web", EVICTIONS_PAUSED.outcome("nodes: link lost"))
    ]


async def test_what_may_not_continue_after_it_was_written_down_is_withheld_on_record() -> None:
    async with Bench().running() as bench:
        bench.ledger.slow_s = 1
        bench.submit("web")
        await anyio.sleep(0.5)
        bench.why_not = "stopping"
        await anyio.sleep(5)

    assert bench.server.requests == []
    assert bench.ledger.lines == [("intent", "web", ""), ("outcome", "web", "cancelled")]
    assert bench.results == [("web", "cancelled")]


async def test_without_a_durable_record_nothing_is_requested() -> None:
    async with Bench().running() as bench:
        bench.ledger.fault = "no space left on device"
        bench.submit("web")
        await anyio.sleep(1)

    assert bench.server.requests == []
    assert [outcome for _, outcome, _ in bench.ended] == [
        JOURNAL_UNAVAILABLE.outcome("no space left on device")
    ]


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        pytest.param(Accepted(), "evicted", id="2xx"),
        pytest.param(PdbRefused("no"), "pdb_refused", id="429, budget"),
        pytest.param(TooManyRequests("no"), "too_many_requests", id="429 or 503"),
        pytest.param(NotFound(), "not_found", id="404"),
        pytest.param(Conflict("no"), "conflict", id="409"),
        pytest.param(Denied(403, "no"), "denied", id="another 4xx"),
        pytest.param(ServerError(500, "no"), "failed", id="5xx"),
        pytest.param(EffectUnknown("reset"), "unknown", id="no answer, and the pod is gone"),
    ],
)
async def test_every_answer_is_one_outcome_on_record_and_reported_once(
    answer: EvictionResponse, result: str
) -> None:
    async with Bench().running() as bench:
        bench.server.script["web"] = [answer]
        bench.submit("web")
        await anyio.sleep(10)

    assert bench.ledger.lines[1:] == [("outcome", "web", result)]
    assert bench.results == [("web", result)]


async def test_the_outcome_is_reported_only_when_it_is_on_record() -> None:
    async with Bench().running() as bench:
        bench.ledger.slow_s = 2
        bench.submit("web")
        await anyio.sleep(3)
        assert len(bench.server.requests) == 1
        assert bench.results == []
        await anyio.sleep(2)

    assert bench.results == [("web", "evicted")]


async def test_the_reported_time_is_that_of_the_request() -> None:
    async with Bench().running() as bench:
        began = anyio.current_time()
        bench.ledger.slow_s = 2
        bench.server.slow_s = 7
        bench.submit("web")
        await anyio.sleep(20)

    assert [at - began for _, _, at in bench.ended] == [2]


async def test_at_most_so_many_calls_are_open_and_the_others_have_their_turn_afterwards() -> None:
    names = ["a", "b", "c", "d", "e"]
    async with Bench(max_concurrent=2).running() as bench:
        bench.server.slow_s = 1
        bench.submit(*names)
        await anyio.sleep(1.5)
        first = bench.asked
        await anyio.sleep(10)

    assert sorted(first) == names[:4]
    assert bench.server.max_open == 2
    assert sorted(name for name, _ in bench.results) == names


async def test_an_eviction_that_waited_for_its_turn_is_checked_again() -> None:
    async with Bench(max_concurrent=1).running() as bench:
        bench.server.slow_s = 5
        bench.submit("a", "b")
        await anyio.sleep(1)
        bench.why_not = "pods: link lost"
        await anyio.sleep(20)

    assert bench.results == [("a", "evicted"), ("b", "cancelled")]
    assert bench.asked == ["a"]
    assert ("intent", "b", "") not in bench.ledger.lines


async def test_ended_waits_for_what_is_under_way() -> None:
    async with Bench().running() as bench:
        began = anyio.current_time()
        bench.server.slow_s = 3
        bench.submit("a")
        await anyio.sleep(1)
        bench.submit("b")
        await anyio.sleep(1)
        await bench.evictions.drained()
        assert anyio.current_time() - began == 4
        assert sorted(name for name, _ in bench.results) == ["a", "b"]


async def test_ended_does_not_return_while_another_has_begun_meanwhile() -> None:
    async with Bench().running() as bench:
        began = anyio.current_time()
        bench.server.slow_s = 3
        bench.submit("a")
        await anyio.lowlevel.checkpoint()
        async with anyio.create_task_group() as group:
            group.start_soon(bench.evictions.drained)
            await anyio.sleep(2.5)
            bench.submit("b")
        assert anyio.current_time() - began == 5.5


async def test_ended_waits_for_those_in_line_too() -> None:
    async with Bench(max_concurrent=1).running() as bench:
        began = anyio.current_time()
        bench.server.slow_s = 3
        bench.submit("a", "b", "c")
        await bench.evictions.drained()
        assert anyio.current_time() - began == 9


async def test_ended_returns_max_concurrent_when_nothing_is_under_way() -> None:
    async with Bench().running() as bench:
        before = anyio.current_time()
        await bench.evictions.drained()
        bench.submit("a")
        await anyio.sleep(1)
        await bench.evictions.drained()
        assert anyio.current_time() - before == 1


async def test_a_run_cancelled_in_the_middle_of_a_call_leaves_the_intent_open() -> None:
    bench = Bench()
    async with bench.running():
        bench.server.slow_s = 60
        bench.submit("web")
        await anyio.sleep(1)

    assert bench.server.open == 1
    assert bench.ledger.lines == [("intent", "web", "")]
    assert bench.results == []
    await bench.evictions.drained()


async def test_after_a_cancelled_run_queued_evictions_hold_up_nothing() -> None:
    bench = Bench(max_concurrent=1)
    async with bench.running():
        bench.server.slow_s = 60
        bench.submit("a", "b")
        await anyio.sleep(1)

    with anyio.fail_after(1):
        await bench.evictions.drained()
    assert bench.ledger.lines == [("intent", "a", "")]


async def test_what_is_submitted_before_or_after_the_run_is_withheld() -> None:
    bench = Bench()
    bench.submit("early")
    async with bench.running():
        pass
    bench.submit("late")

    assert [(name, outcome) for name, outcome, _ in bench.ended] == [
        ("early", SHUTTING_DOWN.outcome("the controller stops")),
        ("late", SHUTTING_DOWN.outcome("the controller stops")),
    ]
    assert bench.ledger.lines == []


async def test_an_intent_that_was_not_sent_yet_can_be_cancelled_and_the_others_continue() -> None:
    bench = Bench(max_concurrent=1)
    bench.server.slow_s = 5
    async with bench.running():
        bench.submit("a", "b")
        await anyio.sleep(1)
        bench.superseded = dict.fromkeys("ab", "another policy")
        bench.submit("c")
        await anyio.sleep(20)

    assert bench.asked == ["a", "c"]
    assert [(name, outcome.result, outcome.message) for name, outcome, _ in bench.ended] == [
        ("a", "evicted", ""),
        ("b", "cancelled", "another policy"),
        ("c", "evicted", ""),
    ]


async def test_an_intent_that_is_cancelled_while_it_is_written_is_not_sent() -> None:
    bench = Bench()
    bench.ledger.slow_s = 5
    async with bench.running():
        bench.submit("a")
        await anyio.sleep(1)
        bench.superseded = {"a": "another policy"}
        await anyio.sleep(20)
        bench.superseded = {}
        bench.submit("a")
        await anyio.sleep(20)

    assert bench.results == [("a", "cancelled"), ("a", "evicted")]
    assert [kind for kind, _, _ in bench.ledger.lines] == ["intent", "outcome"] * 2


async def test_the_metric_counts_evictions_that_have_no_outcome_yet_those_that_wait_included() -> (
    None
):
    async with Bench(max_concurrent=1).running() as bench:
        bench.server.slow_s = 5
        bench.submit("a", "b", "c")
        await anyio.sleep(1)
        assert list(bench.evictions.collect()) == [EVICTIONS_UNDER_WAY.value(3)]
        await anyio.sleep(5)
        assert list(bench.evictions.collect()) == [EVICTIONS_UNDER_WAY.value(2)]
        await bench.evictions.drained()
        assert list(bench.evictions.collect()) == [EVICTIONS_UNDER_WAY.value(0)]


async def test_nothing_is_evicted_whose_record_cannot_be_written_and_others_go_on() -> None:
    async with Bench().running() as bench:
        bench.ledger.unwritable.add("hostile")
        bench.submit("hostile", "web")
        await bench.evictions.drained()

    assert bench.asked == ["web"]
    refused = next(outcome for name, outcome, _ in bench.ended if name == "hostile")
    assert (refused.reason, refused.message) == (RECORD_UNWRITABLE.code, "the record is too long")
