"""Counts decisions by what they are about."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from reactive_desched.plan.report import DecisionCounts, PlannedDecision, PlanSummary

__all__ = ["summarize"]


def summarize(decisions: Iterable[PlannedDecision]) -> PlanSummary:
    """Count them all, and per plugin, profile, node, namespace and gate."""
    decisions = list(decisions)
    return PlanSummary(
        total=_count_by(decisions, lambda _: "").get("", DecisionCounts()),
        by_plugin=_count_by(decisions, lambda decision: decision.plugin),
        by_profile=_count_by(decisions, lambda decision: decision.profile),
        by_node=_count_by(decisions, lambda decision: decision.node),
        by_namespace=_count_by(decisions, lambda decision: decision.pod.namespace),
        by_gate=dict(
            sorted(Counter(each.gate for each in decisions if each.gate is not None).items())
        ),
    )


def _count_by(
    decisions: Iterable[PlannedDecision], key: Callable[[PlannedDecision], str]
) -> Mapping[str, DecisionCounts]:
    counted = Counter((key(decision), decision.action) for decision in decisions)
    return {
        name: DecisionCounts(*(counted[name, action] for action in ("Evict", "Refuse", "Defer")))
        for name in sorted({name for name, _ in counted})
    }
