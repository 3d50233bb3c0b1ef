"""The whole pipeline in memory: a fake cluster edge, a fake recorder, and the real rest."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Self

import anyio
import msgspec

from reactive_desched.api.event import EventData
from reactive_desched.controller.pauses import SuspendDetector
from reactive_desched.controller.pipeline import Pipeline, build_pipeline
from reactive_desched.controller.readiness import STARTUP
from reactive_desched.errors import JournalUnavailable, Malformed, RecordUnwritable
from reactive_desched.eviction.client import EvictionClient
from reactive_desched.fit.upstream import SCHEDULER
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.brakes import BrakeNotice
from reactive_desched.model.decisions import Decision, Defer, Refuse
from reactive_desched.model.disruptions import EndedPod, disruption_mark
from reactive_desched.model.evaluation import DecisionContext, Evaluation, Intent
from reactive_desched.model.modes import Mode
from reactive_desched.model.moves import FutileClearing, MoveEnd
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import (
    Accepted,
    EvictionRequest,
    EvictionResponse,
    Outcome,
    PodFound,
    PodLookup,
    PodNotFound,
)
from reactive_desched.model.plugin_faults import PluginFault
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.policy.settings.controller_settings import ProfileSettings
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.resources import WATCHED_KINDS
from tests.support.configurations import UNGUARDED, make_configuration, make_profile_of


def resource_of(obj: ClusterObject) -> str:
    """Return the name of the object's API resource."""
    return next(name for name, kind in WATCHED_KINDS.items() if isinstance(obj, kind.record))


class MemoryIntentStore:
    """Keeps intents and outcomes in memory, in the order they were written.

    It can take `slow_s` to write, or have a `fault`, for which it refuses intents; those on pods
    whose names are `unwritable` are refused for what their records hold. `on_write` is called
    before an intent is written.
    """

    def __init__(self) -> None:
        self.fault = ""
        self.unwritable: set[str] = set()
        self.slow_s = 0.0
        self.on_write: Callable[[], None] = lambda: None
        self.begun: list[str] = []
        self.intents: list[Intent] = []
        self.lines: list[tuple[str, str, str]] = []
        self.brakes: list[BrakeNotice] = []
        self.events: list[EventData] = []
        self.written_events = self.written_brakes = 0
        self.decisions: list[tuple[DecisionContext, Decision]] = []
        self.follow_ups: list[MoveEnd] = []
        self.cleared: list[FutileClearing] = []
        self.corrections: list[tuple[str, str, str]] = []
        self.disruptions: list[EndedPod] = []
        self._names: dict[str, str] = {}

    def record(self, data: EventData, subject: str, *, version: str = "", cause: str = "") -> None:
        """Keep an event of any other type."""
        self.events.append(data)

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Keep a decision."""
        self.decisions.append((context, decision))

    def record_brake(self, notice: BrakeNotice) -> None:
        """Keep what a brake did."""
        self.brakes.append(notice)

    async def record_intent(self, intent: Intent) -> str:
        """Write an intent."""
        self.begun.append(intent.pod.name)
        await anyio.sleep(self.slow_s)
        if self.fault:
            raise JournalUnavailable(self.fault)
        if intent.pod.name in self.unwritable:
            raise RecordUnwritable("the record is too long")
        self.on_write()
        self.intents.append(intent)
        intent_id = f"i{len(self._names) + 1}"
        self._names[intent_id] = intent.pod.name
        self.lines.append(("intent", intent.pod.name, str(intent.context.trigger)))
        return intent_id

    def case_of(self, intent_id: str) -> str:
        """Return a name of its own for the case of each intent."""
        return f"case-of-{intent_id}"

    async def record_outcome(self, intent_id: str, outcome: Outcome) -> None:
        """Write an outcome."""
        await anyio.sleep(self.slow_s)
        self.lines.append(("outcome", self._names[intent_id], outcome.result))

    def adopt(self, intent_id: str, name: str) -> None:
        """Take over an intent of an earlier process, on a pod of this name."""
        self._names[intent_id] = name

    async def record_futile_cleared(self, clearing: FutileClearing) -> None:
        """Remember who cleared what."""
        self.cleared.append(clearing)

    async def written(self) -> None:
        """Write all events and brakes."""
        await anyio.sleep(self.slow_s)
        self.written_events, self.written_brakes = len(self.events), len(self.brakes)

    def record_correction(self, intent_id: str, outcome: Outcome) -> None:
        """Keep the pod of a corrected outcome, the result and the reason."""
        self.corrections.append((self._names[intent_id], outcome.result, outcome.reason))

    def record_disruption(self, ended: EndedPod) -> None:
        """Keep how a pod ended."""
        self.disruptions.append(ended)

    def record_follow_up(self, intent_id: str, end: MoveEnd) -> None:
        """Write what came of an eviction."""
        name = self._names.get(intent_id, intent_id)  # one of an earlier process has no other
        self.lines.append(("follow-up", name, end.result))
        self.follow_ups.append(end)


class FakeEvictor(EvictionClient):
    """Answers from a script per pod name, then with Accepted; remembers what it was asked.

    An answer takes `slow_s`; `open` calls have none yet, and there were `max_open` at once. Each
    call notifies `called`.
    """

    def __init__(self) -> None:
        self.script: dict[str, list[EvictionResponse]] = {}
        self.slow_s = 0.0
        self.requests: list[EvictionRequest] = []
        self.calls: list[tuple[str, float]] = []
        self.open, self.max_open = 0, 0
        self.pods: dict[str, Pod] = {}
        self.called = Wakeup()

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Answer one request."""
        await anyio.lowlevel.checkpoint()
        self.requests.append(request)
        self.calls.append((request.name, anyio.current_time()))
        self.called.notify()
        self.open += 1
        self.max_open = max(self.max_open, self.open)
        return await self._answer(request)

    async def _answer(self, request: EvictionRequest) -> EvictionResponse:
        await anyio.sleep(self.slow_s)
        self.open -= 1
        script = self.script.get(request.name)
        return script.pop(0) if script else Accepted()

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Read a pod that a test has put here."""
        await anyio.lowlevel.checkpoint()
        pod = self.pods.get(f"{namespace}/{name}")
        if pod is None:
            return PodNotFound()
        reason, _ = disruption_mark(pod) or ("", None)
        return PodFound(pod.uid, pod.is_terminating, disruption=reason)


class RecordingObserver(Observer):
    """Remembers every decision and outcome as short tuples."""

    def __init__(self) -> None:
        self.decisions: list[tuple[str, str, str]] = []
        self.outcomes: list[tuple[str, str]] = []
        self.evaluations: list[Evaluation] = []
        self.missing: list[tuple[str, str, str]] = []
        self.plugin_faults: list[tuple[str, str]] = []
        self.effects_unknown: list[tuple[str, str, float]] = []

    def on_effect_unknown(self, intent: Intent, error: str, within_s: float) -> None:
        """Remember the pod, why, and for how long."""
        self.effects_unknown.append((intent.pod.name, error, within_s))

    def on_malformed(self, resource: str, error: Malformed) -> None:
        """Fail: a test's objects are well-formed."""
        raise AssertionError(f"{resource}: {error}")

    def on_resource_missing(self, resource: str, effect: str, reason: str) -> None:
        """Remember it."""
        self.missing.append((resource, effect, reason))

    def on_plugin_fault(self, fault: PluginFault) -> None:
        """Remember the plugin, and what it raised."""
        self.plugin_faults.append((fault.plugin, fault.cause))

    def on_decision(self, evaluation: Evaluation) -> None:
        """Remember the decision."""
        decision = evaluation.decision
        gate = decision.gate if isinstance(decision, Defer | Refuse) else ""
        self.evaluations.append(evaluation)
        self.decisions.append((type(decision).__name__, evaluation.finding.pod.name, gate))

    def on_outcome(self, evaluation: Evaluation, outcome: Outcome, sent_at: float) -> None:
        """Remember the outcome."""
        del sent_at
        self.outcomes.append((evaluation.finding.pod.name, outcome.result))


class FedController:
    """A pipeline that is fed by hand, and runs on the test's own clock."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.controller = pipeline.controller
        self.readiness = pipeline.controller.readiness
        self.handlers = pipeline.event_handlers

    def deliver_list(self, *objects: ClusterObject) -> None:
        """Deliver a complete list of every resource."""
        for handler in self.handlers.values():
            handler.begin_replace()
        self.deliver(*objects)
        for handler in self.handlers.values():
            handler.end_replace()
            handler.mark_synced()

    def sync_and_resume(self, *objects: ClusterObject) -> None:
        """Deliver the initial lists and end the startup pause."""
        self.deliver_list(*objects)
        self.resume(STARTUP)

    def resume(self, pause: str) -> None:
        """End a pause, and work on what is due."""
        self.readiness.resume(pause)
        self.pipeline.worker.wake()

    def reconfigure(self, config: Configuration) -> None:
        """Apply another configuration, and work on what is due."""
        self.controller.reconfigure(config)
        self.pipeline.worker.wake()

    def deliver(self, *objects: ClusterObject) -> None:
        """Deliver objects as they are now."""
        for obj in objects:
            self.handlers[resource_of(obj)].upsert(obj)

    def delete(self, *objects: ClusterObject) -> None:
        """Deliver deletions."""
        for obj in objects:
            self.handlers[resource_of(obj)].remove(obj)

    def terminate(self, pod: Pod) -> None:
        """Deliver a pod with its deletion begun."""
        self.deliver(msgspec.structs.replace(pod, deletion_s=1))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run the worker and the eviction pool while the block lasts."""
        async with anyio.create_task_group() as group:
            await group.start(self.pipeline.evictions.run)
            group.start_soon(self.pipeline.worker.run)
            yield self
            self.controller.disruptions.flush()
            group.cancel_scope.cancel()


def never_suspended() -> SuspendDetector:
    """Return a detector whose clock stands still: virtual time may jump as it likes."""
    return SuspendDetector(lambda: 0.0)


class FakeEdgesController(FedController):
    """A pipeline of one profile with fakes at its edges.

    `wall_offset_s` is by how much the time of day was set.
    """

    def __init__(  # noqa: PLR0913 -- each is one part of its configuration
        self,
        *plugins: AnyPlugin,
        evictor_args: DefaultEvictorArgs | None = None,
        debounce: DebounceConfig = DebounceConfig(0, 0),  # noqa: B008 -- frozen
        rates: Mapping[str, TokenRate | None] | None = None,
        limits: Mapping[str, int | None] | None = None,
        node_fit: str = SCHEDULER,
        max_concurrent: int = 50,
        guards: GuardSettings = UNGUARDED,
        brakes: BrakeSettings | None = None,
        moves: MoveSettings | None = None,
        migration: MigrationJobSettings | None = None,
        evictor: FakeEvictor | None = None,
        makes_jobs: bool = False,
        dry_run: bool = False,
    ) -> None:
        self.wall_offset_s = 0.0
        self.intent_store = MemoryIntentStore()
        self.evictor = evictor or FakeEvictor()
        self.observer = RecordingObserver()
        self.config = make_configuration(
            (make_profile_of("test", plugins, evictor_args),),
            rates=rates,
            limits=limits,
            debounce=debounce,
            max_concurrent=max_concurrent,
            node_fit=node_fit,
            guards=guards,
            brakes=brakes,
            moves=moves,
            migration=migration,
            evictor="migration" if makes_jobs else "api",
        )
        pipeline = build_pipeline(
            self.config,
            recorder=self.intent_store,
            evictor=self.evictor,
            observer=self.observer,
            work_available=Wakeup(),
            suspend=never_suspended(),
            clock=anyio.current_time,
            wall_clock=lambda: anyio.current_time() + self.wall_offset_s,
            dry_run=dry_run,
        )
        super().__init__(pipeline)

    @property
    def evicted_names(self) -> list[str]:
        """The names the evictor was asked for, in order."""
        return [name for name, _ in self.evictor.calls]

    def act_as(self, mode: Mode) -> None:
        """Give the profile's plugins a mode."""
        written = self.config.written
        assert written is not None
        named = {"test": ProfileSettings(mode=mode)}
        settings = written.model_copy(update={"profiles": named})
        self.reconfigure(msgspec.structs.replace(self.config, written=settings))

    def blocking(self) -> dict[str, str]:
        """Return what refuses each pod now."""
        blocked = (each.decision for each in self.controller.evaluator.queue.pending())
        return {each.finding.pod.name: each.reason for each in blocked if isinstance(each, Refuse)}
