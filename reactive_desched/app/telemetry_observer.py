"""Tells what happens to the log and the metrics."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from reactive_desched.errors import Malformed
from reactive_desched.gate.windows import SlidingWindowLimits
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Defer, Evict, Refuse
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.outcomes import CANCELLED, DRY_RUN, EVICTED, Outcome
from reactive_desched.telemetry import sig_compat as upstream
from reactive_desched.telemetry.logs import DebugLogger
from reactive_desched.telemetry.metrics import Histogram, Metric, counter, histogram
from reactive_desched.telemetry.registry import MetricsRegistry

CHANGES = counter("changes", "Changes seen.", "change")
FINDINGS = counter("findings", "Findings of plugins.", "plugin")
DECISIONS = counter(
    "decisions", "Decisions on findings, and the gate that decided.", "decision", "gate"
)
OUTCOMES = counter(
    "outcomes",
    "Ends of begun evictions; `rehearsed` is what a dry run would have evicted.",
    "result",
    "plugin",
)
CHANGE_TO_DECISION = histogram(
    "change_to_decision_seconds", "From a change to the decision it led to."
)
CHANGE_TO_EVICTION = histogram(
    "change_to_eviction_seconds", "From a change to the eviction request it led to."
)

_LIMIT_SCOPE = re.compile(r"(?:limit of|evictions per) (\w+)")
_LIMIT_RESULTS = {
    "cluster": upstream.TOTAL_REACHED,
    "node": upstream.NODE_REACHED,
    "namespace": upstream.NAMESPACE_REACHED,
}
_SUCCESS_EVENTS = {EVICTED: "evicted", DRY_RUN: "would be evicted"}
"""How the log says that all went well; the SIG descheduler counts both as success."""


class TelemetryObserver:
    """Counts everything and logs what is new."""

    def __init__(self, metrics: MetricsRegistry, log: DebugLogger) -> None:
        self._upstream = metrics.upstream
        self._log = log
        self._changes: defaultdict[str, int] = defaultdict(int)
        self._findings: defaultdict[str, int] = defaultdict(int)
        self._decisions: defaultdict[tuple[str, ...], int] = defaultdict(int)
        self._outcomes: defaultdict[tuple[str, ...], int] = defaultdict(int)
        self._change_to_decision = Histogram()
        self._change_to_eviction = Histogram()
        metrics.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield what was counted and timed."""
        yield CHANGES.by_label(self._changes)
        yield FINDINGS.by_label(self._findings)
        yield DECISIONS.by_labels(self._decisions)
        yield OUTCOMES.by_labels(self._outcomes)
        yield CHANGE_TO_DECISION.value(self._change_to_decision)
        yield CHANGE_TO_EVICTION.value(self._change_to_eviction)

    def on_changes(self, changes: Iterable[Change]) -> None:
        """Count changes."""
        for change in changes:
            self._changes[change.kind] += 1

    def on_decision(self, evaluation: Evaluation) -> None:
        """Count a decision, and log it unless it repeats the last one on this subject."""
        decision, finding = evaluation.decision, evaluation.finding
        self._findings[finding.plugin] += 1
        self._change_to_decision.observe(evaluation.decided_at - evaluation.trigger.seen_at)
        match decision:
            case Evict():
                self._decisions["evict", ""] += 1
                self._log_decision(evaluation, "decided to evict")
            case Defer(gate=gate, message=reason):
                self._decisions["defer", gate] += 1
                self._count_limit_reached(evaluation, gate, reason)
                self._log_decision(evaluation, "deferred", gate=gate, because=reason)
            case Refuse(gate=gate, message=reason, detail=detail):
                self._decisions["refuse", gate] += 1
                self._count_limit_reached(evaluation, gate, reason)
                more = {"detail": detail} if detail else {}
                self._log_decision(evaluation, "refused", gate=gate, because=reason, **more)

    def on_outcome(self, evaluation: Evaluation, outcome: Outcome, sent_at: float, /) -> None:
        """Count and log the end of an eviction."""
        finding, took_s = evaluation.finding, sent_at - evaluation.trigger.seen_at
        self._outcomes[outcome.result, finding.plugin] += 1
        self._change_to_eviction.observe(took_s)
        if outcome.result != CANCELLED:
            result = upstream.SUCCESS if outcome.result in _SUCCESS_EVENTS else upstream.ERROR
            self._count_upstream(evaluation, result)
        log = self._log.info if outcome.result in _SUCCESS_EVENTS else self._log.warning
        log(
            _SUCCESS_EVENTS.get(outcome.result, outcome.result),
            pod=str(finding.pod),
            node=finding.pod.node,
            plugin=finding.plugin,
            detail=outcome.message or None,
            after_ms=round(took_s * 1000, 3),
        )

    def on_pause(self, reason: str | None) -> None:
        """Log it for those who look closely: what lasts is told by `bookkeeping.tell`."""
        if reason is None:
            self._log.debug("judging")
        else:
            self._log.debug("holding back", because=reason)

    def on_malformed(self, resource: str, error: Malformed, /) -> None:
        """Log an object that could not be read."""
        self._log.warning("skipped an object", resource=resource, reason=str(error))

    def _count_limit_reached(self, evaluation: Evaluation, gate: str, reason: str) -> None:
        """Count what a limit of the policy stopped, as the SIG descheduler does."""
        if gate != SlidingWindowLimits.name:
            return
        for text in _LIMIT_RESULTS.values():
            if reason.startswith(text):  # a sweep says it in these very words
                self._count_upstream(evaluation, text)
                return
        if scope := _LIMIT_SCOPE.search(reason):
            self._count_upstream(evaluation, _LIMIT_RESULTS[scope[1]])

    def _count_upstream(self, evaluation: Evaluation, result: str) -> None:
        finding, profile = evaluation.finding, evaluation.profile
        self._upstream.count_eviction(profile, finding.plugin, finding.pod, result)

    def _log_decision(self, evaluation: Evaluation, event: str, **more: str) -> None:
        finding = evaluation.finding
        log = self._log.info if evaluation.changed else self._log.debug
        log(
            event,
            pod=str(finding.pod),
            node=finding.pod.node,
            plugin=finding.plugin,
            reason=finding.message,
            trigger=str(evaluation.trigger),
            **more,
        )
