"""Runs one controller over a life of a recording, on the clock of that life.

The answers of the API server and the work of the disk are replaced by the times and the outcomes
that the journal has of each eviction.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count, repeat
from math import inf
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.outdated_decisions import DECISION_TTL_S
from reactive_desched.controller.readiness import BRAKE, JOURNAL, MANUAL, Readiness
from reactive_desched.eviction.recorder import NullRecorder
from reactive_desched.journal.history import History
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Decision, Defer, Evict
from reactive_desched.model.evaluation import DecisionContext, Evaluation, EvictionResult, Intent
from reactive_desched.model.migration_jobs import MigrationStep, PodReference
from reactive_desched.model.moves import EndedMove
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import DECISION_OUTDATED, Outcome, recorded_outcome
from reactive_desched.plan.controller_run import FaultObserver
from reactive_desched.policy.configuration import Configuration
from reactive_desched.primitives.token_bucket import TokenBucket, TokenRate
from reactive_desched.recording.items import (
    STOPPED,
    BrakesHeld,
    ConfigurationInForce,
    EvictionSettled,
    HealthAnswered,
    HistoryRead,
    InheritedEnd,
    InheritedEvictionEnded,
    Instant,
    Item,
    JobLookedAt,
    JobOrderEnded,
    JobStepEnded,
    ObjectChanged,
    PauseSet,
    ProcessBegan,
    RecordingInterrupted,
    RequestWritten,
    UsageMeasured,
    Verb,
)
from reactive_desched.replay.driven_controller import (
    DrivenController,
    Picture,
    RecordedClock,
    with_next,
)
from reactive_desched.replay.lives import Life
from reactive_desched.replay.recorded_decisions import (
    CANCEL,
    DEFER,
    EVICT,
    REFUSE,
    SEND,
    WRITE,
    DecisionKey,
    MadeDecision,
    RecordedDecisions,
    job_key,
)
from reactive_desched.telemetry.recent_evictions import RecentEvictions

if TYPE_CHECKING:  # loaded where the settings have migration jobs
    from reactive_desched.replay.recorded_jobs import RecordedJobs

_DERIVED: Final = frozenset({MANUAL, BRAKE})
"""The pauses that follow from orders, files and the cluster: the replayed controller sets them."""

NOTHING: Final = "nothing"
"""What is written of a job that waits."""

LIMIT_ERROR_S: Final = 1.0
"""So exactly it is known when the journal's limit leaves out decisions."""


class _DecisionLog(NullRecorder):
    """Takes the controller's records, and keeps its decisions.

    `dropped_s` are the times of those that the journal's limit leaves out.
    """

    def __init__(self, clock: RecordedClock, rate: TokenRate) -> None:
        self.fault = ""
        self.decisions: list[MadeDecision] = []
        self.dropped_s: list[float] = []
        self._clock = clock
        self._bucket = TokenBucket(rate, clock.now)

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Keep a decision."""
        about = self._about(context)
        if isinstance(decision, Evict):
            self.decisions.append(MadeDecision(*about, EVICT))
            return
        if not self._bucket.try_acquire(self._clock.now):
            self.dropped_s.append(self._clock.now)
        verdict = DEFER if isinstance(decision, Defer) else REFUSE
        message = decision.record(self._clock.moment())
        self.decisions.append(
            MadeDecision(*about, verdict, decision.gate, decision.reason, message)
        )

    def cancel(self, intent: Intent, outcome: Outcome) -> None:
        """Note that a request must not be sent, which the recorded process sent."""
        about = self._about(intent.context)
        self.decisions.append(
            MadeDecision(*about, CANCEL, outcome.result, outcome.reason, outcome.message)
        )

    def send(self, intent: Intent) -> None:
        """Note that a request may be sent, which the recorded process did not send."""
        self.decisions.append(MadeDecision(*self._about(intent.context), SEND))

    def record_migration_step(self, step: MigrationStep) -> None:
        """Keep what was made or deleted for a job, or its end."""
        pod, message = step.pod, f"for {step.job}"
        verdict = f"{step.action} {step.object.kind}"
        about = self._now(), job_key(pod.uid), f"{pod.namespace}/{pod.name}"
        self.decisions.append(MadeDecision(*about, verdict, step.result, step.reason, message))

    def write_otherwise(self, pod: PodReference, step: str, recorded: str) -> None:
        """Note that another step of a job is to be written than the recorded process wrote."""
        message = f"the recorded process wrote {recorded or NOTHING}"
        about = self._now(), job_key(pod.uid), str(pod)
        self.decisions.append(MadeDecision(*about, WRITE, step or NOTHING, "", message))

    def _now(self) -> Instant:
        return Instant(self._clock.wall(), self._clock.now)

    def _about(self, context: DecisionContext) -> tuple[Instant, DecisionKey, str]:
        pod = context.finding.pod
        return self._now(), _key_of(context), f"{pod.namespace}/{pod.name}"


def _key_of(context: DecisionContext) -> DecisionKey:
    return DecisionKey(context.finding.pod.uid, context.profile, context.finding.plugin)


class _RecentObserver(FaultObserver):
    """Keeps the last evictions, and the first fault of each plugin."""

    def __init__(self, recent: RecentEvictions) -> None:
        super().__init__({})
        self._recent = recent

    def on_outcome(self, evaluation: Evaluation, outcome: Outcome, _: float) -> None:
        """Keep an eviction that ended."""
        self._recent.add(evaluation, outcome)

    def on_move_ended(self, ended: EndedMove) -> None:
        """Keep what became of one."""
        self._recent.follow_up(ended)


class LifeRun:
    """One life, from its picture to its end. `decisions` has what the controller decides.

    It has been run up to `ended_s`, in monotonic seconds; `was_stopped` says whether the process
    ended in order, and recorded all that it saw. `recorded` is on the same clock. `read_up_to` is
    the sequence of the last record that the process found in its journal when it started.
    """

    def __init__(
        self,
        life: Life,
        configuration: Configuration,
        read_history: Callable[[HistoryRead | None], History],
        recorded: RecordedDecisions,
        read_configuration: Callable[[ConfigurationInForce], Configuration],
        *,
        is_dry_run: bool = False,
    ) -> None:
        self.life = life
        self.read_up_to = 0
        self.tolerance_s: Final = configuration.controller.debounce.max_wait_s
        self.is_dry_run = is_dry_run
        self.clock: Final = RecordedClock(life.began)
        limit = configuration.settings.journal.verdicts
        self._log = _DecisionLog(self.clock, TokenRate(limit.per_second, limit.burst))
        self.recent = RecentEvictions(self.clock.wall)

        self._history = read_history

        def surround(controller: Controller, readiness: Readiness) -> _RecordedSurroundings:
            return _RecordedSurroundings(
                controller,
                readiness,
                self.clock,
                self._log,
                recorded,
                read_configuration,
                self._read_history,
                self.tolerance_s,
                has_turns=life.process is not None,
            )

        self._observer = _RecentObserver(self.recent)
        self._driven = DrivenController(
            configuration,
            self.clock,
            self._log,
            self._observer,
            Picture(
                life.picture.denied,
                life.objects,
                life.samples,
                life.nodes_seen,
                () if life.process is None else _brakes_of(life),
            ),
            surround,
            is_dry_run=is_dry_run,
        )
        self._recorded = recorded
        self.ended_s = life.began.monotonic_s
        self.was_stopped = False

    def _read_history(self, read: HistoryRead | None) -> History:
        self.read_up_to = self.read_up_to if read is None else read.sequence
        return self._history(read)

    @property
    def decisions(self) -> list[MadeDecision]:
        """Return what the controller has decided so far."""
        return self._log.decisions

    @property
    def plugin_faults(self) -> tuple[str, ...]:
        """Return the first fault of each plugin, for people."""
        return tuple(each.incomplete for each in self._observer.faults.values())

    def may_be_unrecorded(self, decision: MadeDecision) -> bool:
        """Say whether the journal's limit may have left out a decision: never an eviction."""
        if decision.verdict not in (DEFER, REFUSE):
            return False
        dropped = self._log.dropped_s
        at = bisect_left(dropped, decision.monotonic_s - LIMIT_ERROR_S)
        return at < len(dropped) and dropped[at] <= decision.monotonic_s + LIMIT_ERROR_S

    @property
    def controller(self) -> Controller:
        """Return the controller as it is now."""
        return self._driven.controller

    def run(self, until_s: float = inf) -> None:
        """Let the controller see the life up to a moment, in monotonic seconds."""
        driven, process = self._driven, self.life.process
        self._start(process)
        later = self.life.later
        items = with_next(later) if process is None else zip(later, repeat(None))
        for item, following in items:
            if item.at.monotonic_s > until_s:
                self.pass_to(until_s)
                break
            if isinstance(item, RecordingInterrupted) and item.reason != STOPPED:
                break  # what had not been written by then is lost
            if process is None:
                driven.advance_to(item, following)
                driven.take(item, following)
            else:
                driven.take_in_turn(item)
            self.ended_s = self.clock.now
            self.was_stopped = isinstance(item, RecordingInterrupted)

    def pass_to(self, monotonic_s: float) -> None:
        """Let pass the time up to a moment, before which nothing more was recorded."""
        driven, has_turns = self._driven, self.life.process is not None
        end = driven.pass_to if has_turns else driven.advance_to_moment
        end(monotonic_s)
        self.ended_s = self.clock.now

    def _start(self, process: ProcessBegan | None) -> None:
        """Start as the recorded process did, or at its picture where it does not say how."""
        life, driven = self.life, self._driven
        if process is None:
            history = self._read_history(None)
            driven.controller.restore(history.evictions, history.ends)
            for each in self._recorded.open_at(life.began.monotonic_s):
                driven.controller.inherit_eviction(each.key.pod)
            driven.start(life.standing)
        elif process.evaluates_from_s is None:
            driven.take_standing(life.standing)
        else:
            driven.start_in_midst(life.standing, process.evaluates_from_s)


def _brakes_of(life: Life) -> tuple[BrakesHeld, ...]:
    return tuple(each for each in life.standing if isinstance(each, BrakesHeld))


class _RecordedSurroundings:
    """The recorded cluster; each eviction begins and ends when that of the journal did.

    The requests of an earlier process whose outcome came in this life end as they did.
    """

    def __init__(  # noqa: PLR0913 -- what each recorded item needs
        self,
        controller: Controller,
        readiness: Readiness,
        clock: RecordedClock,
        log: _DecisionLog,
        recorded: RecordedDecisions,
        read_configuration: Callable[[ConfigurationInForce], Configuration],
        read_history: Callable[[HistoryRead | None], History],
        tolerance_s: float,
        *,
        has_turns: bool,
    ) -> None:
        self._read_history = read_history
        self._has_turns = has_turns
        self._process: ProcessBegan | None = None
        self._controller = controller
        self._readiness = readiness
        self._clock = clock
        self._log = log
        self._recorded = recorded
        self._read_configuration = read_configuration
        self._tolerance_s = tolerance_s
        self._in_force: ConfigurationInForce | None = None
        self._jobs = _recorded_jobs(controller, clock, log)
        self._steps: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._under_way: dict[tuple[PodKey, bool], Intent] = {}
        for each in () if has_turns else recorded.open_at(clock.now):
            if each.ended_s is not None and (ended := each.outcome) is not None:
                end = InheritedEnd(each.key.pod, ended.result, ended.reason, ended.message)
                self._at(each.ended_s, partial(self._end_inherited, end))

    # --- time ---

    def next_due(self) -> float | None:
        """Return when the next recorded step is due."""
        return self._steps[0][0] if self._steps else None

    def advance(self) -> None:
        """Let happen the next step."""
        heappop(self._steps)[2]()

    def _at(self, monotonic_s: float, step: Callable[[], None]) -> None:
        due = max(self._clock.now, monotonic_s)
        heappush(self._steps, (due, next(self._number), step))

    # --- evictions ---

    def _take_process(self, item: ProcessBegan) -> None:
        """Do what the recorded process did at its start, at the times at which it did."""
        before, self._process = self._process or ProcessBegan(item.at), item
        controller, set_back = self._controller, self._clock.set_back
        if item.empty_from_s is not None and before.empty_from_s is None:
            with set_back(item.empty_from_s):
                controller.begin_without_history()
        if item.restored_s is not None and before.restored_s is None and item.history is not None:
            past = self._read_history(item.history)
            with set_back(item.restored_s):
                controller.restore(past.evictions, past.ends)
        for end in item.ended:
            if end not in before.ended:
                self._end_inherited(end)
        were_open = {*before.inherited, *(end.uid for end in before.ended)}
        for pod in item.inherited:
            if pod not in were_open:
                controller.inherit_eviction(pod)

    def _end_inherited(self, end: InheritedEnd) -> None:
        outcome = recorded_outcome(end.result, end.reason, end.message, end.retry_after_s)
        with self._clock.set_back(self._clock.now if end.ended_s is None else end.ended_s):
            self._controller.end_inherited_eviction(end.uid, outcome)

    def send(self, intent: Intent) -> None:
        """Begin a decided eviction: it ends when that of the recorded process ended."""
        now_s, key = self._clock.now, _key_of(intent.context)
        from_s, until_s = now_s - self._tolerance_s, now_s + self._tolerance_s
        if not self._recorded.has_eviction_decided(key, from_s, until_s):
            outcome = DECISION_OUTDATED.outcome("the recorded process did not decide so")
            self._controller.settle(EvictionResult(intent, outcome, self._clock.now))
            return
        pod = intent.pod.uid, intent.is_observed
        self._under_way[pod] = intent
        if self._has_turns:
            return
        requested = self._recorded.take_request(key, from_s, until_s + DECISION_TTL_S)
        if requested is not None:
            self._at(requested.time_s, partial(self._request, pod, requested.id))

    def _request(self, pod: tuple[PodKey, bool], request_id: str, *, is_sent: bool = True) -> None:
        """Write the intent down, as the recorded process did now; compare whether it is sent.

        It is that on a pod which is carried out, or only observed.
        """
        if (intent := self._under_way.get(pod)) is None:
            return
        if is_sent:  # for however long it had waited for late watches
            self._controller.caught_up(intent)
        if (outcome := self._controller.cancelled(intent)) is not None and is_sent:
            self._log.cancel(intent, outcome)
        elif outcome is None and not is_sent:
            self._log.send(intent)
        self._controller.requested(intent, request_id, self._clock.now)

    def _settle(self, item: EvictionSettled) -> None:
        if (intent := self._under_way.pop((item.uid, item.is_observed), None)) is None:
            return
        outcome = recorded_outcome(item.result, item.reason, item.message, item.retry_after_s)
        self._controller.settle(EvictionResult(intent, outcome, item.sent_s, item.request_id))

    # --- items ---

    def take(self, item: Item) -> bool:  # noqa: C901 -- one case for each item
        """Take a change of the cluster, or what the recorded process was given.

        Say whether the worker looks for work by that.
        """
        state = self._controller.state
        match item:
            case ObjectChanged(verb=verb, obj=obj):
                changes = state.remove(obj) if verb is Verb.DELETED else state.upsert(obj)
                return self._apply(changes, obj.resource_version)
            case UsageMeasured(sample=sample, is_gone=is_gone):
                return self._apply(state.remove(sample) if is_gone else state.upsert(sample))
            case HealthAnswered(answer=answer):
                self._controller.pauses.take_answer(answer)
            case PauseSet(name=name, reason=reason):
                self._set_pause(name, reason)
            case ConfigurationInForce():
                self._configure(item)
            case RequestWritten():
                pod = item.uid, item.is_observed
                self._request(pod, item.request_id, is_sent=item.is_sent)
            case EvictionSettled():
                self._settle(item)
            case InheritedEvictionEnded(end=end):
                self._end_inherited(end)
                if self._process is not None:  # a later picture says it again
                    self._process = self._process.with_end(end)
            case ProcessBegan():
                self._take_process(item)
            case JobLookedAt() | JobOrderEnded() | JobStepEnded() if self._jobs is not None:
                self._jobs.take(item)
            case _:
                pass
        return False

    def _apply(self, changes: Sequence[Change], version: int = 0) -> bool:
        """Let the controller have changes, and ask it as the worker does, which it counts from."""
        is_concerned = bool(changes) and self._controller.apply(changes, version)
        if is_concerned:
            self._controller.next_due(self._clock.now)
        return is_concerned

    def _set_pause(self, name: str, reason: str) -> None:
        if name in _DERIVED:
            self._controller.pauses.update()
            return
        if name == JOURNAL:
            self._log.fault = reason
            self._controller.pauses.update()
        elif reason:
            self._readiness.pause(name, reason)
        else:
            self._readiness.resume(name)

    def _configure(self, item: ConfigurationInForce) -> None:
        before, self._in_force = self._in_force, item
        if before is not None and replace(before, at=item.at) != item:
            self._controller.reconfigure(self._read_configuration(item))


def _recorded_jobs(
    controller: Controller, clock: RecordedClock, log: _DecisionLog
) -> "RecordedJobs | None":
    """Return what has migration jobs go on, which is loaded where the settings have them."""
    if (migrations := controller.migrations) is None:
        return None
    from reactive_desched.replay.recorded_jobs import RecordedJobs

    record, differs = log.record_migration_step, log.write_otherwise
    return RecordedJobs(controller, migrations, clock, record, differs)
