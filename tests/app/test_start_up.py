"""Open intents of an earlier process are resolved before anything is evaluated."""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec import Struct

from reactive_desched.app.input_notes import InputNotes
from reactive_desched.app.start_up import (
    adopt_disruptions,
    end_startup_pause,
    log_identity,
    log_start,
)
from reactive_desched.controller.readiness import STARTUP
from reactive_desched.errors import ClusterError
from reactive_desched.eviction.client import EFFECT_TIMEOUT_S
from reactive_desched.eviction.recovery import resolve_open_intents
from reactive_desched.journal.clocks import Moment
from reactive_desched.journal.history import History
from reactive_desched.model.eviction_options import BY_EVICTION, EvictionOptions
from reactive_desched.model.evictors.soft_eviction import ANNOTATION
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import (
    BY_EVICTION_API,
    DRY_RUN_INTERRUPTED,
    NOT_KNOWN,
    Outcome,
    PodFound,
    PodLookup,
    PodNotFound,
    RequestTime,
)
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.testing.builders import node, pod
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Log:
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **values: Any) -> None:  # as structlog
        self.lines.append((event, values))

    debug = warning = info


def whole_flow() -> FakeEdgesController:
    return FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()))


SETTLED = "resolved an open intent"


class Open(Struct):
    """An intent that an earlier life left open, as far as it matters here."""

    id: str
    who: Any
    is_dry_run: bool = False
    options: EvictionOptions = BY_EVICTION
    sent: RequestTime = NOT_KNOWN


class Who(Struct):
    """Its pod."""

    namespace: str
    name: str
    uid: str


def open_intent(name: str, *, dry_run: bool = False, policy: str = "Eviction") -> Open:
    who = Who("shop", name, f"uid-{name}")
    return Open(f"i-{name}", who, dry_run, EvictionOptions(policy))


class OpenIntentStore:
    """Holds the intents an earlier life left open."""

    started_behind = 0

    def __init__(self, *intents: Open) -> None:
        self.intents = {intent.id: intent for intent in intents}
        self.ends: list[tuple[str, Outcome]] = []

    def open_intents(self) -> tuple[Open, ...]:
        return tuple(self.intents.values())

    async def record_outcome(self, intent_id: str, outcome: Outcome) -> None:
        await anyio.lowlevel.checkpoint()
        del self.intents[intent_id]
        self.ends.append((intent_id, outcome))


class Reader:
    """Reads pods by name; those unknown to it cannot be read at first."""

    effect_timeout_s = EFFECT_TIMEOUT_S

    def __init__(self, **pods: PodLookup) -> None:
        self.pods = pods
        self.asked: list[str] = []

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        await anyio.lowlevel.checkpoint()
        self.asked.append(f"{namespace}/{name}")
        if name not in self.pods:
            raise ClusterError("unreachable")
        return self.pods[name]


async def no_history() -> History:
    return History()


async def settle_all(
    flow: FakeEdgesController, ledger: OpenIntentStore, reader: Reader, log: Log
) -> None:
    parts = ledger, reader, log, no_history, Moment(0.0), InputNotes()
    await end_startup_pause(flow.controller, *parts)  # type: ignore[arg-type]  # what it uses of them


async def test_open_intents_of_an_earlier_process_are_settled_by_reading_their_pods() -> None:
    names = ("gone", "leaving", "stayed", "replaced", "deleted")
    ledger = OpenIntentStore(*map(open_intent, names))
    reader = Reader(
        gone=PodNotFound(),
        deleted=PodFound("uid-deleted", terminating=True),
        leaving=PodFound("uid-leaving", terminating=True, disruption=BY_EVICTION_API),
        stayed=PodFound("uid-stayed", terminating=False),
        replaced=PodFound("another", terminating=False),
    )
    log, flow = Log(), whole_flow()
    await settle_all(flow, ledger, reader, log)

    assert [(key, outcome.result) for key, outcome in ledger.ends] == [
        ("i-gone", "unknown"),
        ("i-leaving", "evicted"),
        ("i-replaced", "unknown"),
        ("i-deleted", "unknown"),
        ("i-stayed", "failed"),
    ]
    settled = [(values["pod"], values["result"]) for event, values in log.lines if event == SETTLED]
    assert settled == [
        (f"shop/{key.removeprefix('i-')}", outcome.result) for key, outcome in ledger.ends
    ]
    assert flow.readiness.pauses[STARTUP].reason == ""


async def test_a_soft_eviction_of_an_earlier_process_ends_by_the_annotation_of_its_pod() -> None:
    annotated = PodFound("uid-web", terminating=False, annotations={ANNOTATION: "{}"})
    soft = open_intent("web", policy="SoftEviction")
    ledger, reader, flow = OpenIntentStore(soft), Reader(web=annotated), whole_flow()
    await settle_all(flow, ledger, reader, Log())

    assert [(key, outcome.reason) for key, outcome in ledger.ends] == [
        ("i-web", "SoftEvictionRequested")
    ]


async def test_open_intents_of_a_dry_run_are_withheld_and_no_pod_is_read() -> None:
    ledger, reader, flow = OpenIntentStore(open_intent("web", dry_run=True)), Reader(), whole_flow()
    await settle_all(flow, ledger, reader, Log())

    assert ledger.ends == [("i-web", DRY_RUN_INTERRUPTED.outcome("the dry run was interrupted"))]
    assert reader.asked == []
    assert flow.readiness.pauses[STARTUP].reason == ""


async def test_nothing_begins_before_every_open_intent_is_settled() -> None:
    ledger, reader, flow = OpenIntentStore(open_intent("web")), Reader(), whole_flow()
    tainted = node("n1", "gpu:NoSchedule")
    async with flow.running(), anyio.create_task_group() as group:
        for feed in flow.handlers.values():
            feed.begin_replace()
        flow.deliver(tainted, node("n2"), pod("other", on="n1"))
        for feed in flow.handlers.values():
            feed.end_replace()
            feed.mark_synced()
        group.start_soon(settle_all, flow, ledger, reader, Log())
        await anyio.sleep(100)
        assert flow.readiness.pauses[STARTUP].reason.startswith("resolving")
        assert flow.evicted_names == []

        reader.pods["web"] = PodNotFound()
        await anyio.sleep(31)
        assert flow.evicted_names == ["other"]
        assert [key for key, _ in ledger.ends] == ["i-web"]
        group.cancel_scope.cancel()


async def test_without_open_intents_the_core_begins_at_once() -> None:
    flow = whole_flow()
    await settle_all(flow, OpenIntentStore(), Reader(), Log())

    assert flow.readiness.pauses[STARTUP].reason == ""


@pytest.mark.parametrize(
    ("later", "result"),
    [
        (PodNotFound(), "unknown"),
        (PodFound("uid-web", terminating=True, disruption=BY_EVICTION_API), "evicted"),
    ],
)
async def test_a_request_of_an_earlier_process_that_a_proxy_held_does_not_make_the_outcome_false(
    later: PodLookup, result: str
) -> None:
    ledger, flow = OpenIntentStore(open_intent("web")), whole_flow()
    reader = Reader(web=PodFound("uid-web", terminating=False))
    async with anyio.create_task_group() as group:
        group.start_soon(settle_all, flow, ledger, reader, Log())
        await anyio.sleep(8)
        assert ledger.ends == []
        reader.pods["web"] = later

    assert [(key, outcome.result) for key, outcome in ledger.ends] == [("i-web", result)]


async def test_a_sweep_begins_when_no_request_of_an_earlier_process_can_arrive_any_more() -> None:
    ledger = OpenIntentStore(open_intent("web"), open_intent("gone"))
    reader = Reader(web=PodFound("uid-web", terminating=False), gone=PodNotFound())
    await resolve_open_intents(ledger, reader, Log())  # type: ignore[arg-type]  # what it uses of them

    results = [(key, outcome.result) for key, outcome in ledger.ends]
    assert results == [("i-gone", "unknown"), ("i-web", "failed")]
    assert anyio.current_time() == pytest.approx(EFFECT_TIMEOUT_S)


async def test_while_an_outcome_is_awaited_other_pods_are_judged_and_its_pod_is_not_evicted() -> (
    None
):
    ledger, flow = OpenIntentStore(open_intent("web")), whole_flow()
    reader = Reader(web=PodFound("uid-web", terminating=False))
    web = pod("web", uid="uid-web", on="n1", namespace="shop")
    async with flow.running(), anyio.create_task_group() as group:
        flow.deliver_list(node("n1", "gpu:NoSchedule"), node("n2"), pod("other", on="n1"), web)
        group.start_soon(settle_all, flow, ledger, reader, Log())
        await anyio.sleep(1)
        assert flow.evicted_names == ["other"]
        flow.deliver(node("n1", "gpu:NoSchedule", "tpu:NoSchedule"))
        await anyio.sleep(EFFECT_TIMEOUT_S - 2)
        assert flow.evicted_names == ["other"]
        assert ledger.ends == []
        await anyio.sleep(2)
        assert [(key, outcome.result) for key, outcome in ledger.ends] == [("i-web", "failed")]
        assert flow.evicted_names == ["other", "web"]
        group.cancel_scope.cancel()


async def test_a_pod_that_an_earlier_process_evicted_after_all_is_not_evicted_again() -> None:
    ledger, flow = OpenIntentStore(open_intent("web")), whole_flow()
    reader = Reader(web=PodFound("uid-web", terminating=False))
    web = pod("web", uid="uid-web", on="n1", namespace="shop")
    async with flow.running(), anyio.create_task_group() as group:
        flow.deliver_list(node("n1", "gpu:NoSchedule"), node("n2"), web)
        group.start_soon(settle_all, flow, ledger, reader, Log())
        await anyio.sleep(8)
        reader.pods["web"] = PodFound(
            "uid-web", terminating=True, disruption=BY_EVICTION_API
        )  # our picture lags behind
        await anyio.sleep(30)
        assert [(key, outcome.result) for key, outcome in ledger.ends] == [("i-web", "evicted")]
        assert flow.evicted_names == []
        group.cancel_scope.cancel()


async def test_a_start_says_what_runs_what_was_synced_the_limits_and_what_was_found(
    golden: Golden,
) -> None:
    log, flow = Log(), whole_flow()
    log_identity(flow.config, log, dry_run=True)
    async with flow.running(), anyio.create_task_group() as group:
        group.start_soon(log_start, flow.pipeline, flow.config, log)
        await anyio.sleep(60)
        said = [event for event, _ in log.lines]
        assert said == [
            "reactive-desched starts",
            golden(),
            "the policy is in force",
        ]

        tainted = node("n1", "gpu:NoSchedule")
        flow.sync_and_resume(
            tainted, node("n2"), pod("web", on="n1"), pod("own", on="n1", owner="")
        )
        await anyio.sleep(60)

    said = [event for event, _ in log.lines[3:] if not event.startswith("RemovePods")]
    assert said == [
        "eviction limits are set",
        "move limits are set",
        "brakes are configured",
        "the first evaluation is complete",
    ]
    values = dict(log.lines)
    assert values["the policy is in force"]["plugins"] == ["RemovePodsViolatingNodeTaints"]
    assert set(values["eviction limits are set"]) >= {"budgets.cluster", "budgets.node"}
    assert {"moves.maxMoving.node", "moves.cooldown", "moves.futileAfter"} < set(
        values["move limits are set"]
    )
    assert set(values["brakes are configured"]) == {
        *("brakes.zones", "brakes.storm", "brakes.pending", "brakes.health", "brakes.pauseFile")
    }
    assert values["the first evaluation is complete"]["findings"] == 2
    found = values["the first evaluation is complete"]
    assert sum(found["blocked"].values()) + found["evicting"] + found["evicted"] == 2


@pytest.mark.parametrize("stands_by", [False, True])
async def test_the_limits_are_logged_before_any_task_can_decide(*, stands_by: bool) -> None:
    log, flow = Log(), whole_flow()
    controller, said = flow.controller, list[str]()
    leadership = controller.pauses.leadership
    latch = controller.initial_sync_done if stands_by else controller.readiness.synced
    if stands_by:
        leadership.stand_by("another replica acts")

    def note_lines() -> None:
        said.extend(event for event, _ in log.lines)

    async with flow.running(), anyio.create_task_group() as group:
        group.start_soon(log_start, flow.pipeline, flow.config, log)
        await anyio.sleep(1)
        with latch.followed_by(note_lines):
            flow.sync_and_resume(node("n1"), pod("web", on="n1"))
            await anyio.sleep(1)
            leadership.begin()
            leadership.renew(inf)
            flow.pipeline.worker.wake()
            await anyio.sleep(1)
        group.cancel_scope.cancel()

    said = [event for event in said if not event.startswith("RemovePods")]
    of_standby = ["the cluster is synced"] if stands_by else []
    limits = ["eviction limits are set", "move limits are set", "brakes are configured"]
    assert said == [*of_standby, *limits]


async def test_a_pod_that_has_left_by_the_time_of_the_count_was_found_all_the_same() -> None:
    flow = whole_flow()
    async with flow.running():
        flow.sync_and_resume(node("n1", "gpu:NoSchedule"), node("n2"), pod("web", on="n1"))
        await anyio.sleep(60)

    assert flow.evicted_names == ["web"]
    counted = flow.pipeline.description.count_findings()
    assert counted == {"findings": 1, "evicted": 1, "evicting": 0, "blocked": {}}


class AdoptingController:
    """Has pods, and notes of how many it is asked at once whether they were ended before."""

    def __init__(self, pods: int) -> None:
        self.initial_sync_done = anyio.Event()
        self.initial_sync_done.set()
        self.state = self.view = self.disruptions = self
        self.pods = {f"uid-{number}": pod(f"p{number}", on="n1") for number in range(pods)}
        self.asked: list[int] = []

    def key_batches(self, _: str) -> Iterator[list[str]]:
        yield list(self.pods)

    def pod(self, uid: str) -> Pod | None:
        return self.pods.get(uid)

    def adopt(self, pods: Iterable[Pod]) -> None:
        self.asked.append(len(list(pods)))


async def test_few_pods_at_once_are_asked_whether_they_were_ended_before_the_start() -> None:
    controller = AdoptingController(1_050)

    await adopt_disruptions(controller)  # type: ignore[arg-type]  # what it uses of one

    assert sum(controller.asked) == 1_050
    assert max(controller.asked) <= 100
