"""Tells what happens to the log and the metrics."""

import re
from collections.abc import Iterable

from reactive_desched.controller.evaluation import Judgement
from reactive_desched.errors import Malformed
from reactive_desched.gate.windows import Windows
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Defer, Evict, Refuse
from reactive_desched.model.outcomes import EVICTED, REHEARSED, WITHHELD, Outcome
from reactive_desched.telemetry import sig_compat as upstream
from reactive_desched.telemetry.logs import VerboseLog
from reactive_desched.telemetry.metrics import Metrics

_SCOPE = re.compile(r"(?:limit of|evictions per) (\w+)")
_REACHED = {
    "cluster": upstream.TOTAL_REACHED,
    "node": upstream.NODE_REACHED,
    "namespace": upstream.NAMESPACE_REACHED,
}
_SAID = {EVICTED: "evicted", REHEARSED: "would be evicted"}
"""How the log says that all went well; the SIG descheduler counts both as success."""


class Reporter:
    """Counts everything and logs what is new."""

    def __init__(self, metrics: Metrics, log: VerboseLog) -> None:
        self._metrics = metrics
        self._log = log

    def changed(self, changes: Iterable[Change]) -> None:
        """Count changes."""
        for change in changes:
            self._metrics.change(change.kind)

    def judged(self, judgement: Judgement) -> None:
        """Count a decision, and log it unless it repeats the last one on this subject."""
        decision, finding = judgement.decision, judgement.finding
        self._metrics.finding(finding.plugin)
        self._metrics.decided_after(judgement.at - judgement.cause.at)
        match decision:
            case Evict():
                self._metrics.decision("evict", "")
                self._say(judgement, "decided to evict")
            case Defer(gate=gate, reason=reason):
                self._metrics.decision("defer", gate)
                self._limited(judgement, gate, reason)
                self._say(judgement, "deferred", gate=gate, because=reason)
            case Refuse(gate=gate, reason=reason, detail=detail):
                self._metrics.decision("refuse", gate)
                self._limited(judgement, gate, reason)
                more = {"detail": detail} if detail else {}
                self._say(judgement, "refused", gate=gate, because=reason, **more)

    def ended(self, judgement: Judgement, outcome: Outcome, asked_at: float, /) -> None:
        """Count and log the end of an eviction."""
        finding, took_s = judgement.finding, asked_at - judgement.cause.at
        self._metrics.outcome(outcome.result, finding.plugin)
        self._metrics.evicted_after(took_s)
        if outcome.result != WITHHELD:
            result = upstream.SUCCESS if outcome.result in _SAID else upstream.ERROR
            self._count_upstream(judgement, result)
        say = self._log.info if outcome.result in _SAID else self._log.warning
        say(
            _SAID.get(outcome.result, outcome.result),
            pod=str(finding.pod),
            node=finding.pod.node,
            plugin=finding.plugin,
            detail=outcome.detail or None,
            after_ms=round(took_s * 1000, 3),
        )

    def held_back(self, reason: str | None) -> None:
        """Log it for those who look closely: what lasts is told by `bookkeeping.tell`."""
        if reason is None:
            self._log.debug("judging")
        else:
            self._log.debug("holding back", because=reason)

    def malformed(self, resource: str, error: Malformed, /) -> None:
        """Log an object that could not be read."""
        self._log.warning("skipped an object", resource=resource, reason=str(error))

    def _limited(self, judgement: Judgement, gate: str, reason: str) -> None:
        """Count what a limit of the policy stopped, as the SIG descheduler does."""
        if gate != Windows.name:
            return
        for text in _REACHED.values():
            if reason.startswith(text):  # a sweep says it in these very words
                self._count_upstream(judgement, text)
                return
        if scope := _SCOPE.search(reason):
            self._count_upstream(judgement, _REACHED[scope[1]])

    def _count_upstream(self, judgement: Judgement, result: str) -> None:
        finding, profile = judgement.finding, judgement.instance.profile
        self._metrics.upstream.evicted(profile, finding.plugin, finding.pod, result)

    def _say(self, judgement: Judgement, what: str, **more: str) -> None:
        finding = judgement.finding
        say = self._log.info if judgement.is_news else self._log.debug
        say(
            what,
            pod=str(finding.pod),
            node=finding.pod.node,
            plugin=finding.plugin,
            reason=finding.reason,
            trigger=str(judgement.cause),
            **more,
        )
