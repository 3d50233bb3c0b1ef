"""Which topology domains a spread constraint closes, given how many matching pods each has."""

from collections.abc import Mapping
from typing import Final

import msgspec

from reactive_desched.model.labels import Labels, LabelSelector, Requirement
from reactive_desched.model.objects import PodSpec, TopologySpreadConstraint

SPREAD_VIOLATED: Final = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL_MISSING: Final = f"{SPREAD_VIOLATED} (missing required label)"
_HARD: Final = "DoNotSchedule"
HONOR: Final = "Honor"


def hard_constraints(spec: PodSpec) -> list[TopologySpreadConstraint]:
    """Return the constraints that keep a pod off nodes."""
    return [c for c in spec.topology_spread_constraints if c.when_unsatisfiable == _HARD]


def effective_selector(
    constraint: TopologySpreadConstraint, labels: Labels
) -> LabelSelector | None:
    """Return whom a constraint of a pod with these labels counts; None is nobody.

    The label keys to match join the selector with the pod's own values. Where the API server has
    done so already, doing it again changes nothing.
    """
    selector, keys = constraint.label_selector, constraint.match_label_keys
    if selector is None or not keys:
        return selector
    own = tuple(Requirement(key, "In", (labels[key],)) for key in keys if key in labels)
    expressions = (*selector.match_expressions, *own)
    return msgspec.structs.replace(selector, match_expressions=expressions)


def domains_over_max_skew(
    constraint: TopologySpreadConstraint,
    counts: Mapping[str, int],
    domain_count: int,
    self_match: int,
) -> list[str]:
    """Name the domains where one more pod would be too many.

    `counts` has the domains with matching pods, `domains` says how many there are in all, `own`
    is 1 for a pod that counts itself. Too few domains to meet minDomains stand as if one more
    were empty.
    """
    all_occupied = len(counts) >= domain_count >= (constraint.min_domains or 1)
    least = min(counts.values()) if counts and all_occupied else 0
    limit = constraint.max_skew + least - self_match
    return [domain for domain, count in counts.items() if count > limit]
