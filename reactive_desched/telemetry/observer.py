"""Counts and logs what a controller does."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from reactive_desched.errors import Malformed
from reactive_desched.model.brakes import BrakeNotice
from reactive_desched.model.changes import Change
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import (
    NAMESPACE_LIMIT_REACHED,
    NODE_LIMIT_REACHED,
    TOTAL_LIMIT_REACHED,
    Defer,
    Evict,
    Refuse,
)
from reactive_desched.model.disruptions import EndedPod
from reactive_desched.model.evaluation import Evaluation, Intent
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.moves import EndedMove
from reactive_desched.model.objects import PodKey
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import (
    CANCELLED,
    CONFLICT,
    DENIED,
    DRY_RUN,
    DRY_RUN_NOT_SENT,
    EVICTED,
    EVICTION_ACCEPTED,
    EVICTION_IN_BACKGROUND,
    FAILED,
    NOT_FOUND,
    PDB_REFUSED,
    POD_LEAVES,
    TOO_MANY_REQUESTS,
    UNKNOWN,
    Outcome,
)
from reactive_desched.model.plugin_faults import PluginFault, SlowPlugin
from reactive_desched.telemetry import sig_compat as upstream
from reactive_desched.telemetry.logs import DebugLogger
from reactive_desched.telemetry.metrics import Histogram, Metric, counter, histogram
from reactive_desched.telemetry.recent_evictions import RecentEvictions
from reactive_desched.telemetry.registry import MetricsRegistry
from reactive_desched.telemetry.sig_compat import BackgroundEvictions
from reactive_desched.text.times import format_second

CHANGES = counter("changes", "Changes seen.", "change")
FINDINGS = counter("findings", "Findings of plugins.", "plugin")
DECISIONS = counter(
    "decisions",
    "Decisions on findings, with the gate that decided and its reason code.",
    "decision",
    "gate",
    "reason",
)
OUTCOMES = counter(
    "outcomes",
    "Outcomes of evictions, with their reason code; `dry_run` counts those of a dry run.",
    "result",
    "reason",
    "plugin",
)
DISRUPTIONS = counter(
    "disruptions",
    "Pods that something else ended, by what: the causes of `disruption.observed`.",
    "cause",
)
CORRECTIONS = counter(
    "outcomes_corrected",
    "Outcomes corrected by what the pod showed later, by the result and reason they have now.",
    "result",
    "reason",
)
CHANGE_TO_DECISION = histogram(
    "change_to_decision_seconds", "From a change to the decision it led to."
)
CHANGE_TO_EVICTION = histogram(
    "change_to_eviction_seconds", "From a change to the eviction request it led to."
)

_LIMIT_RESULTS = {
    TOTAL_LIMIT_REACHED.code: upstream.TOTAL_REACHED,
    NODE_LIMIT_REACHED.code: upstream.NODE_REACHED,
    NAMESPACE_LIMIT_REACHED.code: upstream.NAMESPACE_REACHED,
}
_SUCCESS_EVENTS = {EVICTED: "evicted", DRY_RUN: "would be evicted"}
"""The log events of success; the SIG descheduler counts both as success."""
_OTHER_EVENTS = {
    PDB_REFUSED: "refused by a PodDisruptionBudget",
    TOO_MANY_REQUESTS: "refused: too many requests",
    NOT_FOUND: "not evicted: the pod is gone",
    CONFLICT: "not evicted: another pod has its name",
    DENIED: "eviction denied",
    FAILED: "eviction failed",
    CANCELLED: "eviction cancelled",
    UNKNOWN: "the pod is leaving or gone, perhaps by the eviction",
}
_NEVER: Final = float("inf")

MAX_CAUSES: Final = 100
"""So many causes of disruptions are counted apart; Kubernetes has a handful."""

MAX_LOGGED_UNREAD: Final = 1_000
"""Of so many objects it is remembered that parts are not read; then each is logged once more."""

MAX_LOGGED: Final = 10_000
"""The log remembers so many pods with the decisions that were logged; of further ones, the pod that
was decided on longest ago is forgotten, and what is decided on it next is logged again."""

LOG_AGAIN_S: Final = 3600.0
"""A finding is blocked by turns for several reasons: each of them is logged once in this time."""


class TelemetryObserver(Observer):
    """Counts everything, and logs a decision once an hour for each pod, plugin and reason.

    `wall_clock` is the time of day in seconds since 1970; `recent` keeps the last evictions.
    """

    def __init__(
        self, metrics: MetricsRegistry, log: DebugLogger, wall_clock: Callable[[], float]
    ) -> None:
        self.recent = RecentEvictions(wall_clock)
        self._upstream = metrics.upstream
        self._log = log
        self._logged_unread: set[tuple[str, str]] = set()
        self._wall_clock = wall_clock
        self._logged: OrderedDict[PodKey, dict[tuple[str, str, str], float]] = OrderedDict()
        self._changes: defaultdict[type[Change], int] = defaultdict(int)
        self._findings: defaultdict[str, int] = defaultdict(int)
        self._decisions: defaultdict[tuple[str, ...], int] = defaultdict(int)
        self._outcomes: defaultdict[tuple[str, ...], int] = defaultdict(int)
        self._disruptions: defaultdict[str, int] = defaultdict(int)
        self._corrections: defaultdict[tuple[str, ...], int] = defaultdict(int)
        self._background = BackgroundEvictions()
        self._change_to_decision = Histogram()
        self._change_to_eviction = Histogram()
        metrics.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield what was counted and timed."""
        yield CHANGES.by_label({kind.__name__: count for kind, count in self._changes.items()})
        yield FINDINGS.by_label(self._findings)
        yield DECISIONS.by_labels(self._decisions)
        yield OUTCOMES.by_labels(self._outcomes)
        yield DISRUPTIONS.by_label(self._disruptions)
        yield CORRECTIONS.by_labels(self._corrections)
        yield CHANGE_TO_DECISION.value(self._change_to_decision)
        yield CHANGE_TO_EVICTION.value(self._change_to_eviction)

    def on_plugins(self, names: Collection[str]) -> None:
        """Start every plugin's counter at 0: `increase()` then shows its first eviction, too."""
        self._decisions["evict", "", ""] += 0
        for plugin in names:
            self._findings[plugin] += 0
            for success in (EVICTION_ACCEPTED, DRY_RUN_NOT_SENT):
                self._outcomes[success.result, success.code, plugin] += 0

    def on_initial_sync(self, size: Mapping[str, int]) -> None:
        """Log what was synced, before the first decision."""
        self._log.info("the cluster is synced", **size)

    def on_changes(self, changes: Sequence[Change]) -> None:
        """Count changes, and the evictions in the background that end by them."""
        for change in changes:
            self._changes[type(change)] += 1
        if self._background:
            for end in self._background.apply_changes(changes, self._wall_clock()):
                self._upstream.count_eviction(*end)

    def on_decision(self, evaluation: Evaluation) -> None:
        """Count a decision, and log it: one that was logged already at debug level."""
        decision, finding = evaluation.decision, evaluation.finding
        self._findings[finding.plugin] += 1
        self._change_to_decision.observe(evaluation.decided_at - evaluation.trigger.seen_at)
        match decision:
            case Evict():
                self._decisions["evict", "", ""] += 1
                self._log_decision(evaluation, "decided to evict", ("", ""), {})
            case Defer():
                self._on_blocked(evaluation, decision, "defer", "deferred")
            case Refuse():
                self._on_blocked(evaluation, decision, "refuse", "refused")

    def _on_blocked(
        self, evaluation: Evaluation, decision: Defer | Refuse, kind: str, event: str
    ) -> None:
        gate, reason = decision.gate, decision.reason
        self._decisions[kind, gate, reason] += 1
        if (result := _LIMIT_RESULTS.get(reason)) is not None:  # as the SIG descheduler counts
            self._count_upstream(evaluation, result)
        until = self._time_of_day(decision.retry_at_s, evaluation.decided_at)
        setting = decision.setting or None
        message = decision.record(ClockPair(evaluation.decided_at, self._wall_clock()))
        more = {"until": until, "setting": setting, "message": message, "gate": gate}
        self._log_decision(evaluation, event, (gate, reason), more)

    def on_outcome(self, evaluation: Evaluation, outcome: Outcome, sent_at: float) -> None:
        """Count and log the end of an eviction."""
        finding, took_s = evaluation.finding, sent_at - evaluation.trigger.seen_at
        self._outcomes[outcome.result, outcome.reason, finding.plugin] += 1
        self._change_to_eviction.observe(took_s)
        self.recent.add(evaluation, outcome)
        if outcome.reason == EVICTION_IN_BACKGROUND.code:  # as the SIG descheduler counts
            profile, strategy, now = evaluation.profile, _strategy(finding), self._wall_clock()
            if self._background.begin(profile, strategy, finding.pod, now):
                self._count_upstream(evaluation, upstream.BACKGROUND)
        elif outcome.result != CANCELLED:
            result = upstream.SUCCESS if outcome.result in _SUCCESS_EVENTS else upstream.ERROR
            self._count_upstream(evaluation, result)
        if outcome.result in POD_LEAVES:
            self._logged.pop(finding.pod.uid, None)  # also what other plugins found of it
        is_success = outcome.result in _SUCCESS_EVENTS
        log = self._log.info if is_success else self._log.warning
        log(
            _SUCCESS_EVENTS[outcome.result] if is_success else _OTHER_EVENTS[outcome.result],
            pod=str(finding.pod),
            node=finding.pod.node,
            plugin=finding.plugin,
            reason=outcome.reason or None,
            message=outcome.message or None,
            change_to_eviction_s=round(took_s, 6),
        )

    def on_effect_unknown(self, intent: Intent, error: str, within_s: float) -> None:
        """Log a request whose answer does not say what became of the pod."""
        self._log.warning(
            "it is not known yet whether the pod was evicted",
            pod=str(intent.pod),
            node=intent.pod.node,
            plugin=intent.plugin,
            message=f"{error}; the pod is read again and again until it leaves, for "
            f"{within_s:.0f} s at most, and counts as being evicted until then",
        )

    def on_move_ended(self, ended: EndedMove) -> None:
        """Log how a move ended; one that was futile, or left a gap, is a warning."""
        self.recent.follow_up(ended)
        end, origin = ended.end, ended.origin
        log = self._log.warning if end.needs_a_look else self._log.info
        log(
            "followed up an eviction",
            pod=f"{origin.owner.namespace}/{origin.pod_name}",
            node=origin.node,
            plugin=origin.plugin,
            result=end.result,
            replacement=end.replacement or None,
            replacement_node=end.node or None,
            finding_holds=end.finding_holds,
            ready_s=None if end.ready_s is None else round(end.ready_s, 3),
            message=end.message or None,
        )

    def on_disruption(self, ended: EndedPod) -> None:
        """Count a pod that something else ended, and log it at debug level."""
        cause = ended.cause
        if cause in self._disruptions or len(self._disruptions) < MAX_CAUSES:
            self._disruptions[cause] += 1
        pod = ended.pod
        self._log.debug(
            "a pod was ended by something else",
            pod=str(pod),
            node=pod.node or None,
            cause=cause,
            message=ended.message or None,
        )

    def on_correction(self, past: PastEviction, outcome: Outcome) -> None:
        """Count and log that an outcome turned out to be another one."""
        self._corrections[outcome.result, outcome.reason] += 1
        self._log.warning(
            "the outcome of an eviction was corrected",
            pod=f"{past.namespace}/{past.pod_name}",
            node=past.node,
            plugin=past.plugin,
            before=past.result,
            result=outcome.result,
            reason=outcome.reason,
            message=outcome.message,
        )

    def on_pause(self, reason: str) -> None:
        """Log a pause at debug level: `app.status.log_states` logs those that last."""
        if not reason:
            self._log.debug("evictions are resumed")
        else:
            self._log.debug("evictions are paused", message=reason)

    def on_brake(self, notice: BrakeNotice) -> None:
        """Log a brake."""
        log = self._log.warning if notice.engaged else self._log.info
        log(
            "a brake engaged" if notice.engaged else "a brake was released",
            brake=notice.brake,
            scope=notice.scope,
            message=notice.message,
            by=notice.by or None,
        )

    def on_suspend(self, seconds: float) -> None:
        """Log a suspend."""
        self._log.warning(
            "the process was suspended: every watch is reopened", suspended_s=round(seconds, 1)
        )

    def on_resource_missing(self, resource: str, effect: str, reason: str) -> None:
        """Log what the controller cannot do without this resource."""
        self._log.warning(
            "an optional resource cannot be read", resource=resource, effect=effect, message=reason
        )

    def on_cycle(self, seconds: float) -> None:
        """Time an evaluation of all that was due, as the SIG descheduler times a cycle."""
        self._upstream.observe_cycle(seconds)

    def on_plugin_fault(self, fault: PluginFault) -> None:
        """Log an exception of a plugin: its traceback once for each line that raises it."""
        text = "a plugin is switched off" if fault.is_off else "a plugin failed"
        log = self._log.warning if fault.is_off or fault.traceback else self._log.debug
        log(
            text,
            plugin=fault.plugin,
            profile=fault.profile,
            message=fault.message,
            exception=fault.traceback or None,
        )

    def on_slow_plugin(self, slow: SlowPlugin) -> None:
        """Log that calls of a plugin held the event loop."""
        self._log.warning("a plugin is slow", plugin=slow.plugin, message=slow.message)

    def on_unread(self, kind: str, name: str, unread: str) -> None:
        """Log an object of which not all is read, once."""
        if (kind, name) in self._logged_unread:
            return
        if len(self._logged_unread) >= MAX_LOGGED_UNREAD:
            self._logged_unread.clear()
        self._logged_unread.add((kind, name))
        self._log.warning(
            "parts of an object are too long to be read", kind=kind, name=name, message=unread
        )

    def on_malformed(self, resource: str, error: Malformed) -> None:
        """Log an object that could not be decoded."""
        self._log.warning("skipped an object", resource=resource, message=str(error))

    def _count_upstream(self, evaluation: Evaluation, result: str) -> None:
        finding, profile = evaluation.finding, evaluation.profile
        self._upstream.count_eviction(profile, _strategy(finding), finding.pod, result)

    def _log_decision(
        self,
        evaluation: Evaluation,
        event: str,
        decided: tuple[str, str],
        more: dict[str, Any],  # structlog takes values of any type
    ) -> None:
        finding = evaluation.finding
        log = self._log.info if self._is_due_to_be_logged(evaluation, decided) else self._log.debug
        log(
            event,
            pod=str(finding.pod),
            node=finding.pod.node,
            plugin=finding.plugin,
            reason=decided[1] or None,
            **more,
            finding=finding.message,
            trigger=str(evaluation.trigger),
        )

    def _is_due_to_be_logged(self, evaluation: Evaluation, decided: tuple[str, str]) -> bool:
        """Say whether this gate and reason were not logged of this finding for a while."""
        pod, key, now = evaluation.finding.pod, (evaluation.plugin, *decided), evaluation.decided_at
        logged = self._logged.pop(pod.uid, {})
        if len(self._logged) >= MAX_LOGGED:
            self._logged.popitem(last=False)
        self._logged[pod.uid] = logged
        is_due = evaluation.changed and now - logged.get(key, -_NEVER) >= LOG_AGAIN_S
        if is_due:
            logged[key] = now
        return is_due

    def _time_of_day(self, at: float | None, now: float) -> str | None:
        """Return a moment of the monotonic clock, now `now`, as people write it."""
        if at is None or at == _NEVER:
            return None
        return format_second(self._wall_clock() + max(0.0, at - now))


def _strategy(finding: Finding) -> str:
    """Return the cause of an eviction for metrics: the plugin, or the trigger that a job names.

    koordinator counts by that trigger, which need not be a plugin of the policy.
    """
    options = finding.options
    return finding.plugin if options is None else options.initiator or finding.plugin
