"""Counts decisions by what they are about."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from reactive_desched.plan.report import DecisionCounts, PlannedDecision, PlanSummary

__all__ = ["summarize"]


def summarize(verdicts: Iterable[PlannedDecision]) -> PlanSummary:
    """Count them all, and per plugin, profile, node, namespace and gate."""
    verdicts = list(verdicts)
    return PlanSummary(
        total=_count_by(verdicts, lambda _: "").get("", DecisionCounts()),
        by_plugin=_count_by(verdicts, lambda verdict: verdict.plugin),
        by_profile=_count_by(verdicts, lambda verdict: verdict.profile),
        by_node=_count_by(verdicts, lambda verdict: verdict.node),
        by_namespace=_count_by(verdicts, lambda verdict: verdict.pod.namespace),
        by_gate=dict(sorted(Counter(v.gate for v in verdicts if v.gate is not None).items())),
    )


def _count_by(
    verdicts: Iterable[PlannedDecision], key: Callable[[PlannedDecision], str]
) -> Mapping[str, DecisionCounts]:
    counted = Counter((key(verdict), verdict.action) for verdict in verdicts)
    return {
        name: DecisionCounts(*(counted[name, action] for action in ("Evict", "Refuse", "Defer")))
        for name in sorted({name for name, _ in counted})
    }
