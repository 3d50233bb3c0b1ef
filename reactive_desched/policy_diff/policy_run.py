"""Runs the controller with one policy over a recording, on a clock of its own.

The API server is the assumed world of that policy.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import TYPE_CHECKING, Final

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.disruptions import as_past
from reactive_desched.controller.readiness import SYNC_PREFIX, Readiness
from reactive_desched.model.evaluation import EvictionResult, Intent
from reactive_desched.model.history import PastEviction
from reactive_desched.model.migration_jobs import RESOURCE, MigrationJob
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.outcomes import EVICTED
from reactive_desched.model.plugin_faults import PluginFault
from reactive_desched.plan.controller_run import (
    TIMER_DELAY_S,
    FaultObserver,
    as_previewed,
    keeps_places,
)
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy_diff.decisions import (
    BlockedLines,
    DecisionLog,
    MadeEviction,
    PolicyDecisions,
    found_pod,
)
from reactive_desched.policy_diff.recorded_facts import (
    Lines,
    RecordedFacts,
    is_of_recorded_move,
)
from reactive_desched.policy_diff.world import AssumedWorld
from reactive_desched.primitives.timers import earliest
from reactive_desched.recording.items import (
    Instant,
    Item,
    ObjectChanged,
    PauseSet,
    ProcessBegan,
    UsageMeasured,
    Verb,
)
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.replay.driven_controller import DrivenController, Picture, RecordedClock

if TYPE_CHECKING:
    from reactive_desched.plan.assumed_jobs import AssumedJobs

__all__ = ["PolicyRun"]

STARTS_WITHIN_S: Final = 60.0
"""So soon after the first picture of a process its limits have what they begin with."""


class PolicyRun:
    """One policy over a recording: `begin` it, `advance_to` and `take` each item.

    `recorded` is the recorded cluster, to which each item is applied in between.
    """

    def __init__(
        self,
        configuration: Configuration,
        facts: RecordedFacts,
        recorded: RecordedState,
        past: Sequence[PastEviction] = (),
    ) -> None:
        self.evictions: list[MadeEviction] = []
        self.logs: list[DecisionLog] = []
        self.faults: dict[tuple[str, str], PluginFault] = {}
        self.configuration: Final = configuration
        self.facts: Final = facts
        self.recorded: Final = recorded
        self.past: Final = list(past)
        self._driven: DrivenController | None = None

    def begin(self, at: Instant, standing: Sequence[Item]) -> None:
        """Begin with the cluster as it is recorded now, and the items that hold besides it.

        Where the recorded process knew of no evictions before, limits begin without a token.
        """
        clock, recorded, lines = RecordedClock(at), self.recorded, Lines(self.facts)
        log = DecisionLog(clock.moment, lines.of)
        self.logs.append(log)

        def surround(controller: Controller, readiness: Readiness) -> _AssumedSurroundings:
            world = AssumedWorld(controller, clock, self.facts, lines, recorded)
            return _AssumedSurroundings(self, controller, readiness, clock, log, world)

        self._driven = DrivenController(
            as_previewed(self.configuration),
            clock,
            log,
            FaultObserver(self.faults),
            Picture(recorded.denied, _of_any_policy(recorded), tuple(recorded.samples.values())),
            surround,
        )
        controller = self._driven.controller
        if (empty_from_s := self._empty_from_s(at, standing)) is not None:
            with clock.set_back(empty_from_s):
                controller.begin_without_history()
        controller.restore(self.past)
        self._driven.start(standing)

    def _empty_from_s(self, at: Instant, standing: Sequence[Item]) -> float | None:
        """Return since when the recorded process knew of no evictions, in monotonic seconds.

        A process that has just begun says so after the picture.
        """
        for item in standing:
            if isinstance(item, ProcessBegan) and item.empty_from_s is not None:
                return item.empty_from_s
        later_s = (each - at.wall_s for each in self.facts.began_empty)
        return at.monotonic_s if any(0 <= each <= STARTS_WITHIN_S for each in later_s) else None

    def advance_to(self, item: Item, following: Item | None) -> None:
        """Let happen what is due before the next item."""
        assert self._driven is not None, "it began"
        self._driven.advance_to(item, following)

    def take(self, item: Item, following: Item | None) -> None:
        """Take the next item."""
        assert self._driven is not None, "it began"
        self._driven.take(item, following)

    def advance_to_time(self, wall_s: float) -> None:
        """Let happen what is due before a time of day, in seconds since the epoch."""
        assert self._driven is not None, "it began"
        self._driven.advance_to_time(wall_s)

    def decisions(
        self, files: tuple[str, ...], version: str, began_s: float, ended_s: float
    ) -> PolicyDecisions:
        """Return what was decided, for a configuration that is from these files."""
        policy = self.configuration.policy
        enabled = {name for each in policy.profiles for name in (*each.deschedule, *each.balance)}
        lines: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        settings: dict[tuple[str, str], str] = {}
        for log in self.logs:
            for key, of_log in log.reasons.items():
                lines[key] |= of_log
            settings |= log.settings
        return PolicyDecisions(
            version=version,
            files=files,
            revision=policy.revision,
            plugins=tuple(sorted(enabled)),
            began_s=began_s,
            ended_s=ended_s,
            evictions=tuple(self.evictions),
            held=tuple(each for log in self.logs for each in log.held.values()),
            blocked=tuple(
                BlockedLines(*key, tuple(sorted(found)), settings.get(key, ""))
                for key, found in lines.items()
            ),
            plugin_faults=tuple(
                f"{fault.profile}/{fault.plugin}: {fault.message}" for fault in self.faults.values()
            ),
        )


def _of_any_policy(recorded: RecordedState) -> Mapping[str, Mapping[str, ClusterObject]]:
    """Return the objects of a recorded cluster, but for what moves of its own controller made."""
    return {
        resource: {key: obj for key, obj in of_kind.items() if not is_of_recorded_move(obj)}
        for resource, of_kind in recorded.objects.items()
    }


class _AssumedSurroundings:
    """The world of one policy: it answers requests, and follows the recording as far as it can.

    A request takes a moment, and so many are under way at once as a run sends.
    """

    def __init__(
        self,
        run: PolicyRun,
        controller: Controller,
        readiness: Readiness,
        clock: RecordedClock,
        log: DecisionLog,
        world: AssumedWorld,
    ) -> None:
        self._run = run
        self._controller = controller
        self._readiness = readiness
        self._clock = clock
        self._log = log
        self._world = world
        self._jobs = self._assumed_jobs(needs_place=keeps_places(run.configuration))
        self._steps: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._sender_free_at = [0.0] * run.configuration.controller.evictions.max_in_flight

    def _assumed_jobs(self, *, needs_place: bool) -> "AssumedJobs | None":
        controller = self._controller
        if controller.migrations is None:
            return None
        from reactive_desched.plan.assumed_jobs import AssumedJobs

        return AssumedJobs(controller, controller.migrations, self._clock, needs_place=needs_place)

    # --- items ---

    def take(self, item: Item) -> bool:
        """Take a recorded change, and the pauses for which a watch was the cause.

        Any other pause was of the recorded process: the policy leads, and has its own brakes. Its
        worker looks for work by timers of its own.
        """
        match item:
            case ObjectChanged(verb=verb, obj=obj) if not is_of_recorded_move(obj):
                if isinstance(obj, MigrationJob) and verb is not Verb.DELETED:
                    self._take_job(verb, obj)
                else:
                    self._world.change(verb, obj)
            case UsageMeasured(sample=sample, is_gone=is_gone):
                self._world.measure(sample, is_gone=is_gone)
            case PauseSet(name=name, reason=reason) if self._is_of_watch(name):
                if reason:
                    self._readiness.pause(name, reason)
                else:
                    self._readiness.resume(name)
            case _:
                pass
        return False

    def _take_job(self, verb: Verb, job: MigrationJob) -> None:
        """Take a job that another program or a person made, unless it has ended here."""
        jobs, state = self._jobs, self._controller.state
        if jobs is not None and (verb is Verb.ADDED or state.get(RESOURCE, job.key) is not None):
            jobs.take(job)

    def _is_of_watch(self, pause: str) -> bool:
        """Say whether a pause is of a resource that the policy watches, too."""
        return pause.startswith(SYNC_PREFIX) and pause in self._readiness.pauses

    # --- time ---

    def next_due(self) -> float | None:
        """Return when the next request, job or pod of this world is due."""
        due = earliest(
            self._world.next_due(),
            None if self._jobs is None else self._jobs.next_due(),
            self._steps[0][0] if self._steps else None,
        )
        return None if due is None else max(due + TIMER_DELAY_S, self._clock.now)

    def advance(self) -> None:
        """Let happen what is due now."""
        self._world.advance()
        if self._jobs is not None:
            self._jobs.advance()
        while self._steps and self._steps[0][0] <= self._clock.now:
            heappop(self._steps)[2]()

    def _at(self, monotonic_s: float, step: Callable[[], None]) -> None:
        heappush(self._steps, (monotonic_s, next(self._number), step))

    # --- evictions ---

    def send(self, intent: Intent) -> None:
        """Send a request soon."""
        sent_at = max(self._clock.now, self._sender_free_at[0])
        settle_s = self._run.facts.settle_s(intent.pod.uid)
        heapreplace(self._sender_free_at, sent_at + settle_s)
        self._at(sent_at, partial(self._request, intent))

    def _request(self, intent: Intent) -> None:
        """Send a request that was decided, unless it must not be any more."""
        sent_at = self._clock.now
        if (outcome := self._controller.cancelled(intent)) is not None:
            self._controller.settle(EvictionResult(intent, outcome, sent_at))
            return
        request_id = f"{next(self._number)}"
        self._controller.requested(intent, request_id, sent_at)
        settle_s = self._run.facts.settle_s(intent.pod.uid)
        self._at(sent_at + settle_s, partial(self._answer, intent, request_id, sent_at))

    def _answer(self, intent: Intent, request_id: str, sent_at: float) -> None:
        """Let the request that was sent then be answered by this world."""
        run, pod = self._run, found_pod(intent.context, self._log.line_of(intent.pod.uid))
        answer = self._world.evict(intent)
        result = EvictionResult(intent, answer.outcome, sent_at, request_id)
        if answer.outcome.result == EVICTED:
            now_s, was_ready = self._clock.wall(), intent.pod.status.is_ready
            made = MadeEviction(now_s, pod, was_ready, answer.replacement)
            self._log.take_eviction(request_id, made)
            run.evictions.append(made)
            run.past.append(as_past(result, now_s))
        self._controller.settle(result)
