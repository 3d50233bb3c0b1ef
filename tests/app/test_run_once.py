import time
from collections.abc import Iterable
from typing import Any

import pytest
import trio.testing

from reactive_desched.app.run_once import COMPLETED, NOT_COMPLETED, OneShotRun
from reactive_desched.errors import ConfigError
from reactive_desched.eviction.executor import EvictionExecutor
from reactive_desched.fit.upstream import SCHEDULER, UPSTREAM
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.outcomes import (
    EVICTIONS_PAUSED,
    JOURNAL_UNAVAILABLE,
    SHUTTING_DOWN,
    Conflict,
    Denied,
    DryRun,
    EffectUnknown,
    EvictionResponse,
    NotFound,
    Outcome,
    PdbRefused,
    ServerError,
    TooManyRequests,
)
from reactive_desched.plan.snapshot import SnapshotBuilder
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.state.cluster import ClusterView
from reactive_desched.telemetry.sig_compat import UpstreamMetrics
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import make_policy, make_profile_of
from tests.support.flow import FakeEvictor, MemoryIntentStore, RecordingObserver

pytestmark = pytest.mark.anyio

RESOURCE_OF = {"Pod": "pods", "Node": "nodes"}
TAINTED = node("n1", "gpu:NoSchedule")
FULL: list[ClusterObject] = [TAINTED, node("n2"), pod("a", on="n1"), pod("b", on="n1")]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Log:
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **values: Any) -> None:  # as structlog
        self.lines.append((event, values))

    debug = warning = info


class Bench:
    """A sweep with fakes at its edges; `stop_after` evictions somebody asks it to end."""

    def __init__(
        self, stop_after: int = 1000, node_fit: str = UPSTREAM, **evictor_args: Any
    ) -> None:
        self.ledger, self.evictor, self.diary = (
            MemoryIntentStore(),
            FakeEvictor(),
            RecordingObserver(),
        )
        self.log, self.timings = Log(), UpstreamMetrics()
        self._stop_after = stop_after
        self.unwritable = ""
        evictor = DefaultEvictorArgs.model_validate(evictor_args)
        profile = make_profile_of("night", (NodeTaintsPlugin(NodeTaintsArgs()),), evictor)
        plan = make_policy((profile,), limits={"node": 5})
        means = EvictionExecutor(self.ledger, self.evictor, lambda: 0.0)
        self.sweep = OneShotRun(
            plan,
            means,
            self.ledger,
            self.diary,
            self.stopped,
            self.writable,
            self.timings,
            node_fit,
        )

    async def writable(self) -> None:
        """Let the disk take records again."""
        self.unwritable = ""

    def stopped(self) -> Outcome | None:
        if self.unwritable:
            return JOURNAL_UNAVAILABLE.outcome(self.unwritable)
        is_over = len(self.evictor.calls) >= self._stop_after
        return SHUTTING_DOWN.outcome("asked to stop") if is_over else None

    def stop_once_after_the_first(self, why: Outcome) -> None:
        """Stop the sweep when it asks for the first time after an eviction, and not again."""
        reasons = iter([why])
        self.sweep._stopped = lambda: next(reasons, None) if self.evictor.calls else None

    async def over(self, things: Iterable[ClusterObject]) -> int:
        gathering = SnapshotBuilder()
        for thing in things:
            gathering.add(RESOURCE_OF[type(thing).__name__], thing)
        state = gathering.build().build_state(EVERYTHING)
        return await self.sweep.run(state, ClusterView(state, time.time), self.log)

    @property
    def asked(self) -> list[str]:
        return [name for name, _ in self.evictor.calls]


async def test_what_the_cycle_lets_go_is_written_down_and_evicted_in_its_order() -> None:
    bench = Bench()

    assert await bench.over([*FULL, pod("bare", on="n1", owner=None)]) == COMPLETED
    assert bench.asked == ["a", "b"]
    assert bench.ledger.lines == [
        ("intent", "a", "Sweep"),
        ("outcome", "a", "evicted"),
        ("intent", "b", "Sweep"),
        ("outcome", "b", "evicted"),
    ]
    assert bench.diary.decisions == [
        ("Evict", "a", ""),
        ("Evict", "b", ""),
        ("Refuse", "bare", "FailedBarePods"),
    ]
    assert bench.diary.outcomes == [("a", "evicted"), ("b", "evicted")]
    assert {each.profile for each in bench.diary.evaluations} == {"night"}
    assert bench.log.lines == [("the sweep is complete", {"evicted": 2, "refused": 1})]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        pytest.param(PdbRefused("no"), COMPLETED, id="a disruption budget"),
        pytest.param(NotFound(), COMPLETED, id="gone already"),
        pytest.param(Conflict("another uid"), COMPLETED, id="another pod by now"),
        pytest.param(
            TooManyRequests("slow down"), NOT_COMPLETED, id="a server that has too much to do"
        ),
        pytest.param(Denied(403, "no"), NOT_COMPLETED, id="missing rights"),
        pytest.param(ServerError(500, "no"), NOT_COMPLETED, id="a server that failed"),
    ],
)
async def test_the_exit_status_says_whether_something_failed(
    answer: EvictionResponse, status: int
) -> None:
    bench = Bench()
    bench.evictor.script["a"] = [answer]

    assert await bench.over(FULL) == status
    assert bench.asked == ["a", "b"]


async def test_a_request_whose_answer_is_lost_is_seen_before_the_pod_is_read() -> None:
    bench = Bench()
    bench.evictor.script["a"] = [EffectUnknown("connection reset")]

    await bench.over(FULL)
    assert [said[:2] for said in bench.diary.effects_unknown] == [("a", "connection reset")]
    assert bench.diary.outcomes == [("a", "unknown"), ("b", "evicted")]


async def test_a_dry_sweep_says_how_many_it_would_evict() -> None:
    bench = Bench()
    bench.evictor.script = {"a": [DryRun()], "b": [DryRun()]}

    assert await bench.over(FULL) == COMPLETED
    assert bench.diary.outcomes == [("a", "dry_run"), ("b", "dry_run")]
    assert bench.log.lines == [("the sweep is complete", {"would_evict": 2})]


async def test_a_run_that_is_asked_to_stop_begins_nothing_more_and_has_not_completed() -> None:
    bench = Bench(stop_after=1)

    assert await bench.over(FULL) == NOT_COMPLETED
    assert bench.asked == ["a"]
    assert bench.log.lines == [
        ("the sweep was stopped", {"message": "asked to stop", "evicted": 1})
    ]


async def test_a_person_who_pauses_in_the_middle_ends_the_sweep_and_it_has_not_failed() -> None:
    bench = Bench()
    bench.stop_once_after_the_first(EVICTIONS_PAUSED.outcome("paused by ann"))

    assert await bench.over(FULL) == COMPLETED
    assert bench.asked == ["a"]
    assert bench.log.lines == [("evictions are paused", {"message": "paused by ann", "evicted": 1})]


async def test_a_disk_that_takes_no_records_for_a_moment_stops_no_sweep() -> None:
    bench = Bench()
    bench.unwritable = "a write is under way"

    assert await bench.over(FULL) == COMPLETED
    assert bench.asked == ["a", "b"]


async def test_what_has_stopped_a_sweep_and_has_passed_by_its_end_has_stopped_it() -> None:
    bench = Bench()
    bench.stop_once_after_the_first(JOURNAL_UNAVAILABLE.outcome("no space"))

    assert await bench.over(FULL) == NOT_COMPLETED
    assert bench.asked == ["a"]
    assert bench.log.lines == [("the sweep was stopped", {"message": "no space", "evicted": 1})]


@pytest.mark.parametrize(
    ("node_fit", "asked"),
    [
        pytest.param(UPSTREAM, ["a", "b"], id="upstream counts on one place twice"),
        pytest.param(SCHEDULER, ["a"], id="the scheduler's filters book it"),
    ],
)
async def test_node_fit_is_as_strict_as_configured(node_fit: str, asked: list[str]) -> None:
    bench = Bench(node_fit=node_fit, nodeFit=True)
    one_place = node("n2", allocatable={"cpu": "4", "memory": "8Gi", "pods": "1"})
    await bench.over([TAINTED, one_place, pod("a", on="n1"), pod("b", on="n1")])

    assert bench.asked == asked


async def test_a_sweep_with_too_few_nodes_says_so_and_is_complete() -> None:
    bench = Bench()

    assert await bench.over([TAINTED, pod("a", on="n1")]) == COMPLETED
    assert bench.log.lines[0][0] == "there is nothing to do"
    assert bench.asked == []


async def test_a_threshold_class_that_is_not_there_ends_it_before_anything_happens() -> None:
    bench = Bench(priorityThreshold={"name": "high"})

    with pytest.raises(ConfigError, match="unable to get priority value"):
        await bench.over(FULL)
    assert bench.asked == []


async def test_the_sweep_and_each_plugin_are_timed_under_upstreams_names() -> None:
    bench = Bench()
    await bench.over(FULL)

    text = bench.timings.render()
    labels = 'profile="night",strategy="RemovePodsViolatingNodeTaints"'
    assert f"descheduler_strategy_duration_seconds_count{{{labels}}} 1" in text
    assert "descheduler_loop_duration_seconds_count 1" in text
