"""Runs one controller over a life of a recording, on the clock of that life.

It is the controller's own code, as in a preview (docs/adr/0040-a-preview-runs-the-controller.md):
the watches are replaced by the recorded changes, the API server and the disk by the times and the
outcomes that the journal has of each eviction.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Final

from msgspec.structs import replace

from reactive_desched.controller.controller import DECISION_TTL_S, Controller
from reactive_desched.controller.readiness import (
    BRAKE,
    JOURNAL,
    LEADER,
    MANUAL,
    SYNC_PREFIX,
    Readiness,
)
from reactive_desched.controller.suspend import SuspendDetector
from reactive_desched.eviction.recorder import NullRecorder
from reactive_desched.journal.history import History
from reactive_desched.model.decisions import Decision, Defer, Evict
from reactive_desched.model.evaluation import DecisionContext, Evaluation
from reactive_desched.model.intents import EvictionResult, Intent
from reactive_desched.model.moves import EndedMove
from reactive_desched.model.objects import ClusterObject, Pod, PodKey
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import DECISION_OUTDATED, Outcome, recorded_outcome
from reactive_desched.policy.configuration import Configuration
from reactive_desched.primitives.token_bucket import TokenBucket, TokenRate
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.recording.items import (
    BrakesHeld,
    ConfigurationInForce,
    EvictionSettled,
    Instant,
    Item,
    ObjectChanged,
    OrderGiven,
    PauseSet,
    RecordingInterrupted,
    ResourceDenied,
    UsageMeasured,
    Verb,
)
from reactive_desched.replay.lives import Life
from reactive_desched.replay.recorded_decisions import (
    CANCEL,
    DEFER,
    EVICT,
    REFUSE,
    DecisionKey,
    MadeDecision,
    RecordedDecisions,
    RecordedEviction,
)
from reactive_desched.replay.recorded_inputs import end_start, load_picture, obey_pause
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.telemetry.recent_evictions import RecentEvictions

_NOTICED: Final = frozenset({BRAKE, JOURNAL, LEADER, MANUAL})
"""The pauses that begin when the controller looks for them, as it does before it evaluates."""

_DERIVED: Final = frozenset({MANUAL, BRAKE})
"""The pauses that follow from orders, files and the cluster: the replayed controller sets them."""

TIMER_DELAY_S: Final = 0.001
"""How late timers ring: a pause that is noticed as one rings holds what it would have done."""

MAX_CLOCK_ERROR_S: Final = 1.0
"""By so much the time of day may be corrected."""

LIMIT_ERROR_S: Final = 1.0
"""So exactly it is known when the journal's limit leaves out decisions."""

ROUNDING_S: Final = 0.000_002
"""So exact are the times of items: what is due at the time of one happens after it."""

_MAX_TURNS: Final = 10_000
"""So often in a row the controller may have work at one moment."""


class ReplayClock:
    """The clocks of the recorded process: monotonic seconds, and the time of day then."""

    def __init__(self, wall_s: float, monotonic_s: float) -> None:
        self.now = monotonic_s
        self._offset_s = wall_s - monotonic_s

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return self.now

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return self.now + self._offset_s

    def set_wall(self, wall_s: float, monotonic_s: float) -> None:
        """Go by the time of day that the process had at a moment."""
        self._offset_s = wall_s - monotonic_s

    def error_s(self, at: Instant) -> float:
        """Return by how much the time of day was set up to a moment."""
        return abs(at.wall_s - at.monotonic_s - self._offset_s)

    def monotonic_of(self, wall_s: float) -> float:
        """Return the monotonic seconds of a time of day."""
        return wall_s - self._offset_s


class _DecisionLog(NullRecorder):
    """Takes the controller's records, and keeps its decisions.

    `dropped_s` are the times of those that the journal's limit leaves out.
    """

    def __init__(self, clock: ReplayClock, rate: TokenRate) -> None:
        self.fault = ""
        self.decisions: list[MadeDecision] = []
        self.dropped_s: list[float] = []
        self._clock = clock
        self._wall = clock.wall
        self._bucket = TokenBucket(rate, clock.now)

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Keep a decision."""
        finding = context.finding
        key = DecisionKey(finding.pod.uid, context.profile, finding.plugin)
        about = self._wall(), key, f"{finding.pod.namespace}/{finding.pod.name}"
        if isinstance(decision, Evict):
            self.decisions.append(MadeDecision(*about, EVICT))
            return
        if not self._bucket.try_acquire(self._clock.now):
            self.dropped_s.append(self._wall())
        verdict = DEFER if isinstance(decision, Defer) else REFUSE
        self.decisions.append(
            MadeDecision(*about, verdict, decision.gate, decision.reason, decision.message)
        )

    def cancel(self, intent: Intent, outcome: Outcome) -> None:
        """Note that a request must not be sent, which the recorded process wrote down."""
        context, pod = intent.context, intent.pod
        key = DecisionKey(pod.uid, context.profile, context.finding.plugin)
        about = self._wall(), key, f"{pod.namespace}/{pod.name}"
        self.decisions.append(
            MadeDecision(*about, CANCEL, outcome.result, outcome.reason, outcome.message)
        )


class _RecentObserver(Observer):
    """Keeps the last evictions."""

    def __init__(self, recent: RecentEvictions) -> None:
        self._recent = recent

    def on_outcome(self, evaluation: Evaluation, outcome: Outcome, _: float) -> None:
        """Keep an eviction that ended."""
        self._recent.add(evaluation, outcome)

    def on_move_ended(self, ended: EndedMove) -> None:
        """Keep what became of one."""
        self._recent.follow_up(ended)


class LifeRun:
    """One life, from its picture to its end. `decisions` has what the controller decides.

    `was_stopped` says whether the process ended in order. It is replayed up to `clock_set_s`, when
    the time of day was set: by their times the records after that may be of before.
    """

    def __init__(
        self,
        life: Life,
        configuration: Configuration,
        history: History,
        recorded: RecordedDecisions,
        read_configuration: Callable[[ConfigurationInForce], Configuration],
        tolerance_s: float,
        *,
        is_dry_run: bool = False,
    ) -> None:
        self.life = life
        self.is_dry_run = is_dry_run
        self._recorded = recorded
        self._read_configuration = read_configuration
        self._tolerance_s = tolerance_s
        self._in_force: ConfigurationInForce | None = None
        began = life.began
        self._clock = ReplayClock(began.wall_s, began.monotonic_s)
        limit = configuration.settings.journal.verdicts
        self._log = _DecisionLog(self._clock, TokenRate(limit.per_second, limit.burst))
        self.recent = RecentEvictions(self._clock.wall)
        observer, work_available = _RecentObserver(self.recent), Wakeup()
        self._readiness = Readiness(tuple(WATCHED_KINDS), observer, work_available)
        self._controller = Controller(
            configuration,
            readiness=self._readiness,
            recorder=self._log,
            observer=observer,
            work_available=work_available,
            suspend=SuspendDetector(lambda: 0.0),
            clock=self._clock.monotonic,
            wall_clock=self._clock.wall,
            dry_run=is_dry_run,
        )
        self._history = history
        self._steps: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._under_way: dict[PodKey, Intent] = {}
        self._is_adopted = False
        self.ended_s = began.wall_s
        self.was_stopped = False
        self.clock_set_s: float | None = None

    @property
    def decisions(self) -> list[MadeDecision]:
        """Return what the controller has decided so far."""
        return self._log.decisions

    def may_be_unrecorded(self, decision: MadeDecision) -> bool:
        """Say whether the journal's limit may have left out a decision: never an eviction."""
        if decision.verdict not in (DEFER, REFUSE):
            return False
        dropped = self._log.dropped_s
        at = bisect_left(dropped, decision.time_s - LIMIT_ERROR_S)
        return at < len(dropped) and dropped[at] <= decision.time_s + LIMIT_ERROR_S

    @property
    def controller(self) -> Controller:
        """Return the controller as it is now."""
        return self._controller

    @property
    def clock(self) -> ReplayClock:
        """Return the clock of the recorded process."""
        return self._clock

    def run(self, until_s: float = inf) -> None:
        """Let the controller see the life up to a time of day, in seconds since the epoch."""
        self._begin()
        for item, following in _with_next(self.life.later):
            if item.at.wall_s > until_s:
                self._advance_to(self._clock.monotonic_of(until_s))
                self.ended_s = until_s
                return
            if self._clock.error_s(item.at) > MAX_CLOCK_ERROR_S:
                self.clock_set_s = item.at.wall_s
                break
            self._advance_to(item.at.monotonic_s, _delay_s(item, following))
            self._clock.set_wall(item.at.wall_s, item.at.monotonic_s)
            self._apply(item)
            if not _is_noticed_with(item, following):
                self._work()
        self.ended_s = self._clock.wall()

    # --- the beginning ---

    def _begin(self) -> None:
        life, controller = self.life, self._controller
        listed = {resource: _as_listed(of.values()) for resource, of in life.objects.items()}
        load_picture(controller.state, life.picture.denied, listed, life.samples)
        end_start(self._readiness)
        controller.restore(self._history.evictions, self._history.ends)
        self._inherit()
        for item in life.standing:
            if isinstance(item, BrakesHeld):
                controller.pauses.restore(item.saved)
            self._apply(item)
        self._work()

    def _inherit(self) -> None:
        """Take over the requests of an earlier process whose outcome came in this life."""
        for each in self._recorded.open_at(self.life.began.wall_s):
            self._controller.inherit_eviction(each.key.pod)
            if each.ended_s is not None and each.outcome is not None:
                self._at(each.ended_s, partial(self._end_inherited, each))

    def _end_inherited(self, recorded: RecordedEviction) -> None:
        assert recorded.outcome is not None, "it has ended"
        self._controller.end_inherited_eviction(recorded.key.pod, recorded.outcome)

    # --- time ---

    def _at(self, wall_s: float, step: Callable[[], None]) -> None:
        due = max(self._clock.now, self._clock.monotonic_of(wall_s))
        heappush(self._steps, (due, next(self._number), step))

    def _advance_to(self, monotonic_s: float, delay_s: float = 0.0) -> None:
        """Let pass the time up to a moment, and happen what is due before it.

        Timers ring so much later than they are due.
        """
        clock = self._clock
        while True:
            step_due = self._steps[0][0] if self._steps else inf
            due = self._controller.next_due(clock.now)
            work_due = inf if due is None else max(due, clock.now)
            if step_due >= monotonic_s and work_due + delay_s >= monotonic_s:
                break
            clock.now = max(min(step_due, work_due), clock.now)
            if step_due <= work_due:
                heappop(self._steps)[2]()
            if not self._work() and work_due < step_due:
                clock.now += TIMER_DELAY_S  # rounding decides at the very instant
        clock.now = max(monotonic_s, clock.now)

    def _work(self) -> bool:
        """Evaluate what is due now; say whether there was anything."""
        has_worked = False
        for _ in range(_MAX_TURNS):
            due = self._controller.next_due(self._clock.now)
            if due is None or due > self._clock.now:
                break
            before = self._controller.evaluator.evaluations
            intents = list(self._controller.work(self._clock.now, lambda: False))
            for intent in intents:
                self._begin_eviction(intent)
            self._adopt()
            if self._controller.evaluator.evaluations == before and not intents:
                break
            has_worked = True
        return has_worked

    def _adopt(self) -> None:
        if not self._is_adopted and self._controller.initial_sync_done.is_set():
            self._is_adopted = True
            self._controller.disruptions.adopt(list(self._controller.state.store(Pod)))

    # --- evictions ---

    def _begin_eviction(self, intent: Intent) -> None:
        """Begin a decided eviction: it ends when that of the recorded process ended."""
        now_s, context = self._clock.wall(), intent.context
        key = DecisionKey(intent.pod.uid, context.profile, context.finding.plugin)
        from_s, until_s = now_s - self._tolerance_s, now_s + self._tolerance_s
        if not self._recorded.has_eviction_decided(key, from_s, until_s):
            outcome = DECISION_OUTDATED.outcome("the recorded process did not decide so")
            self._controller.settle(EvictionResult(intent, outcome, self._clock.now))
            return
        self._under_way[intent.pod.uid] = intent
        requested = self._recorded.take_request(key, from_s, until_s + DECISION_TTL_S)
        if requested is not None:
            self._at(requested.time_s, partial(self._request, intent, requested))

    def _request(self, intent: Intent, recorded: RecordedEviction) -> None:
        """Write the intent down, as the recorded process did now, unless it must not be sent."""
        if self._under_way.get(intent.pod.uid) is not intent:
            return
        if (outcome := self._controller.cancelled(intent)) is not None:
            self._log.cancel(intent, outcome)
        self._controller.requested(intent, recorded.id, self._clock.now)

    def _settle(self, item: EvictionSettled) -> None:
        if (intent := self._under_way.pop(item.uid, None)) is None:
            return
        outcome = recorded_outcome(item.result, item.reason, item.message, item.retry_after_s)
        self._controller.settle(EvictionResult(intent, outcome, item.sent_s, item.request_id))

    # --- items ---

    def _apply(self, item: Item) -> None:  # noqa: C901 -- one case for each item
        controller = self._controller
        match item:
            case ObjectChanged(verb=verb, obj=obj):
                state = controller.state
                changes = state.remove(obj) if verb is Verb.DELETED else state.upsert(obj)
                if changes:
                    controller.apply(changes, obj.resource_version)
            case UsageMeasured(sample=sample, is_gone=is_gone):
                state = controller.state
                if changes := state.remove(sample) if is_gone else state.upsert(sample):
                    controller.apply(changes)
            case PauseSet(name=name, reason=reason):
                self._set_pause(name, reason)
            case ResourceDenied(resource=resource, is_denied=is_denied):
                controller.state.set_readable(resource, readable=not is_denied)
            case ConfigurationInForce():
                self._configure(item)
            case EvictionSettled():
                self._settle(item)
            case BrakesHeld(pause_file=text):
                controller.pauses.set_pause_file(text)
            case OrderGiven():
                self._obey(item)
            case RecordingInterrupted():
                self.was_stopped = True
            case _:
                pass

    def _obey(self, item: OrderGiven) -> None:
        """Carry out an order of a person as the recorded process did, if it could."""
        if item.order != "futile-clear":
            obey_pause(self._controller.pauses, item)
        elif not (named := item.arguments.get("owner", "")):
            self._controller.clear_futile("")
        elif owners := self._controller.gates.memory.owners_called(named):
            self._controller.clear_futile(owners[0].uid)

    def _set_pause(self, name: str, reason: str) -> None:
        if name in _DERIVED:
            return
        if name == JOURNAL:
            self._log.fault = reason
            self._controller.pauses.check()
        elif reason:
            self._readiness.pause(name, reason)
        else:
            self._readiness.resume(name)

    def _configure(self, item: ConfigurationInForce) -> None:
        before, self._in_force = self._in_force, item
        if before is not None and replace(before, at=item.at) != item:
            self._controller.reconfigure(self._read_configuration(item))


def _with_next(items: Iterable[Item]) -> Iterator[tuple[Item, Item | None]]:
    """Yield each item with the one that follows it."""
    before: Item | None = None
    for item in items:
        if before is not None:
            yield before, item
        before = item
    if before is not None:
        yield before, None


def _is_noticed(item: Item | None) -> bool:
    """Say whether an item is a pause that held before, and was noticed as something came due."""
    return isinstance(item, PauseSet) and bool(item.reason) and item.name in _NOTICED


def _delay_s(item: Item, following: Item | None) -> float:
    """Return how late the timers ring that are due about the time of an item.

    What a pause holds that is noticed, did not happen; what ends was decided before.
    """
    if isinstance(item, EvictionSettled):
        return -ROUNDING_S
    is_noticed = _is_noticed(item) or _is_noticed_with(item, following)
    return TIMER_DELAY_S if is_noticed else ROUNDING_S


def _is_noticed_with(item: Item, following: Item | None) -> bool:
    """Say whether the controller evaluates nothing between two items.

    A pause that follows at once may have held before, and was noticed as the first one came. What
    is no change of the cluster wakes the worker for the next turn of the event loop: what comes
    until then counts already. The end of a list is looked at in its own turn.
    """
    if following is None or following.at.monotonic_s - item.at.monotonic_s > TIMER_DELAY_S:
        return False
    is_listed = isinstance(item, PauseSet) and item.name.startswith(SYNC_PREFIX)
    return _is_noticed(following) or not (
        is_listed or isinstance(item, ObjectChanged | UsageMeasured)
    )


def _as_listed(objects: Iterable[ClusterObject]) -> list[ClusterObject]:
    """Return objects in the order in which the API server lists them: by namespace and name.

    Pods of a node that are found at one moment are judged in the order in which they came.
    """
    return sorted(
        objects, key=lambda each: (getattr(each, "namespace", ""), getattr(each, "name", ""))
    )
