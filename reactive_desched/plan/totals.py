"""Counts decisions by what they are about."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from reactive_desched.plan.report import Counts, Summary, Verdict

__all__ = ["summary"]


def summary(verdicts: Iterable[Verdict]) -> Summary:
    """Count them all, and per plugin, profile, node, namespace and gate."""
    verdicts = list(verdicts)
    return Summary(
        total=_by(verdicts, lambda _: "").get("", Counts()),
        by_plugin=_by(verdicts, lambda verdict: verdict.plugin),
        by_profile=_by(verdicts, lambda verdict: verdict.profile),
        by_node=_by(verdicts, lambda verdict: verdict.node),
        by_namespace=_by(verdicts, lambda verdict: verdict.pod.namespace),
        by_gate=dict(sorted(Counter(v.gate for v in verdicts if v.gate is not None).items())),
    )


def _by(verdicts: Iterable[Verdict], key: Callable[[Verdict], str]) -> Mapping[str, Counts]:
    counted = Counter((key(verdict), verdict.action) for verdict in verdicts)
    return {
        name: Counts(*(counted[name, action] for action in ("Evict", "Refuse", "Defer")))
        for name in sorted({name for name, _ in counted})
    }
