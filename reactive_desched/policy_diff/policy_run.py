"""Runs the controller with one policy over a recording, on a clock of its own.

It is the controller's own code, as in a preview (docs/adr/0040-a-preview-runs-the-controller.md):
the watches are replaced by the recorded changes, the API server by the assumed world.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heapreplace
from typing import TYPE_CHECKING, Final

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.disruptions import as_past
from reactive_desched.controller.readiness import SYNC_PREFIX, Readiness
from reactive_desched.controller.suspend import SuspendDetector
from reactive_desched.model.history import PastEviction
from reactive_desched.model.intents import EvictionResult, Intent
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import EVICTED
from reactive_desched.model.plugin_faults import PluginFault
from reactive_desched.plan.assumed_cluster import PreviewClock
from reactive_desched.plan.controller_run import (
    REQUEST_S,
    TIMER_DELAY_S,
    FaultObserver,
    keeps_places,
    with_jobs_that_evict_at_once,
)
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy_diff.decisions import DecisionLog, MadeEviction, workload_of
from reactive_desched.policy_diff.recorded_facts import RecordedFacts
from reactive_desched.policy_diff.world import AssumedWorld
from reactive_desched.primitives.deadline_heap import earliest
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.recording.items import (
    BrakesHeld,
    Item,
    ObjectChanged,
    OrderGiven,
    PauseSet,
    ResourceDenied,
    UsageMeasured,
)
from reactive_desched.recording.reader import RecordedState
from reactive_desched.replay.recorded_inputs import end_start, load_picture, obey_pause
from reactive_desched.state.resources import WATCHED_KINDS

if TYPE_CHECKING:
    from reactive_desched.plan.assumed_jobs import AssumedJobs

__all__ = ["PolicyRun"]

_MAX_IDLE: Final = 1000
"""So often in a row the controller may say that there is work at once, and do nothing."""


class PolicyRun:
    """One policy over a recording: `begin` it, `advance_to` and `take` each item, and `end` it.

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
        self.held: dict[tuple[str, str], DecisionLog] = {}
        self.logs: list[DecisionLog] = []
        self.faults: dict[tuple[str, str], PluginFault] = {}
        self.configuration: Final = configuration
        self.facts: Final = facts
        self.recorded: Final = recorded
        self.past: Final = list(past)
        self._stretch: _Stretch | None = None

    def begin(self, now_s: float) -> None:
        """Begin at this moment, at which the recorded cluster is known: also behind a gap."""
        self.end()
        self._stretch = _Stretch(self, now_s)

    def advance_to(self, wall_s: float) -> None:
        """Let pass the time up to the next recorded item, in seconds since the epoch."""
        if self._stretch is not None:
            self._stretch.advance_to(wall_s)

    def take(self, item: Item) -> None:
        """Take the next recorded item, which is applied to the recorded cluster."""
        if self._stretch is not None:
            self._stretch.take(item)

    def end(self) -> None:
        """End here; what was evicted counts where it begins again."""
        if self._stretch is not None:
            self.past.extend(self._stretch.past)
            self._stretch = None


class _Stretch:
    """A time without a gap, with a controller of its own that starts at its beginning."""

    def __init__(self, run: PolicyRun, now_s: float) -> None:
        configuration, recorded = run.configuration, run.recorded
        self._run = run
        self._began_s = now_s
        self._clock = PreviewClock(now_s)
        observer, work_available = FaultObserver(run.faults), Wakeup()
        self._readiness = Readiness(tuple(WATCHED_KINDS), observer, work_available)
        self._log = DecisionLog(self._clock.wall, self._line_of)
        run.logs.append(self._log)
        self._controller = Controller(
            with_jobs_that_evict_at_once(configuration),
            readiness=self._readiness,
            recorder=self._log,
            observer=observer,
            work_available=work_available,
            suspend=SuspendDetector(lambda: 0.0),
            clock=self._clock.monotonic,
            wall_clock=self._clock.wall,
        )
        objects = {resource: of.values() for resource, of in recorded.objects.items()}
        load_picture(self._controller.state, recorded.denied, objects, recorded.samples.values())
        self._world = AssumedWorld(self._controller, self._clock, run.facts, recorded)
        self._jobs = self._assumed_jobs(needs_place=keeps_places(configuration))
        self._requests: deque[tuple[float, Intent]] = deque()
        self._sender_free_at = [0.0] * configuration.controller.evictions.max_in_flight
        self.past: list[PastEviction] = []
        self._begin(recorded)

    def _assumed_jobs(self, *, needs_place: bool) -> "AssumedJobs | None":
        controller = self._controller
        if controller.migrations is None:
            return None
        from reactive_desched.plan.assumed_jobs import AssumedJobs

        return AssumedJobs(controller, controller.migrations, self._clock, needs_place=needs_place)

    def _begin(self, recorded: RecordedState) -> None:
        controller = self._controller
        end_start(self._readiness)
        controller.restore(self._run.past)
        if recorded.brakes is not None:
            controller.pauses.restore(recorded.brakes.saved)
            controller.pauses.set_pause_file(recorded.brakes.pause_file)
        for name, reason in recorded.pauses.items():
            self._pause(name, reason)
        self._work()
        controller.disruptions.adopt(list(controller.state.store(Pod)))

    def _line_of(self, pod: str) -> str:
        return self._world.origin(pod)

    # --- items ---

    def take(self, item: Item) -> None:
        """Take the next recorded item."""
        match item:
            case ObjectChanged(resource=resource, verb=verb, obj=obj):
                self._world.change(resource, verb, obj)
            case UsageMeasured(sample=sample, is_gone=is_gone):
                self._world.measure(sample, is_gone=is_gone)
            case ResourceDenied(resource=resource, is_denied=is_denied):
                self._controller.state.set_readable(resource, readable=not is_denied)
            case PauseSet(name=name, reason=reason):
                self._pause(name, reason)
            case BrakesHeld(pause_file=text):
                self._controller.pauses.set_pause_file(text)
            case OrderGiven():
                obey_pause(self._controller.pauses, item)
            case _:
                return
        self._work()

    def _pause(self, name: str, reason: str) -> None:
        """Take a pause of the recorded controller that had its cause in what it could not see."""
        if not name.startswith(SYNC_PREFIX):
            return
        if reason:
            self._readiness.pause(name, reason)
        else:
            self._readiness.resume(name)

    # --- time ---

    def advance_to(self, wall_s: float) -> None:
        """Let happen what is due before a moment, in seconds since the epoch."""
        clock, until = self._clock, wall_s - self._began_s
        while True:
            self._step()
            following = earliest(
                self._controller.next_due(clock.now),
                self._world.next_due(),
                None if self._jobs is None else self._jobs.next_due(),
                self._requests[0][0] if self._requests else None,
            )
            if following is None or max(following, clock.now) + TIMER_DELAY_S >= until:
                break
            clock.advance_to(max(following, clock.now) + TIMER_DELAY_S)
        clock.advance_to(max(until, clock.now))

    def _step(self) -> None:
        """Let happen what is due now."""
        self._world.advance()
        if self._jobs is not None:
            self._jobs.advance()
        while self._requests and self._requests[0][0] <= self._clock.now:
            self._execute(self._requests.popleft()[1])
        self._work()

    def _work(self) -> None:
        """Evaluate what is due; requests take a moment, and so many at once as a run sends."""
        controller, now = self._controller, self._clock.now
        for _ in range(_MAX_IDLE):
            due = controller.next_due(now)
            if due is None or due > now:
                return
            before, is_idle = controller.evaluator.evaluations, True
            for intent in controller.work(now, lambda: False):
                is_idle = False
                answered_at = max(now, self._sender_free_at[0]) + REQUEST_S
                heapreplace(self._sender_free_at, answered_at)
                self._requests.append((answered_at, intent))
            if is_idle and controller.evaluator.evaluations == before:
                return

    # --- evictions ---

    def _execute(self, intent: Intent) -> None:
        controller, sent_at = self._controller, self._clock.now
        if (outcome := controller.cancelled(intent)) is not None:
            controller.settle(EvictionResult(intent, outcome, sent_at))
            return
        request_id = f"{len(self._run.evictions)}"
        controller.requested(intent, request_id, sent_at)
        line = self._world.origin(intent.pod.uid)
        answer = self._world.evict(intent)
        made = self._made(intent, line, answer.replacement)
        if answer.outcome.result == EVICTED:
            self._log.by_request[request_id] = made
            self._run.evictions.append(made)
        result = EvictionResult(intent, answer.outcome, sent_at, request_id)
        controller.settle(result)
        if answer.outcome.result == EVICTED:
            self.past.append(as_past(result, self._clock.wall()))

    def _made(self, intent: Intent, line: str, replacement: str) -> MadeEviction:
        context, pod = intent.context, intent.pod
        self._log.held.pop((line, context.finding.plugin), None)
        return MadeEviction(
            time_s=self._clock.wall(),
            line=line,
            pod=pod.name,
            namespace=pod.namespace,
            workload=workload_of(pod, context.owners),
            node=pod.node,
            profile=context.profile,
            plugin=context.finding.plugin,
            finding=context.finding.message,
            was_ready=pod.status.is_ready,
            replacement=replacement,
        )
