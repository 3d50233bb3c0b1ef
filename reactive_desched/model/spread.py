"""Which topology domains a spread constraint closes, given how many matching pods each has."""

from collections.abc import Mapping
from typing import Final

import msgspec

from reactive_desched.model.labels import Labels, LabelSelector, Requirement
from reactive_desched.model.objects import PodSpec, TopologySpreadConstraint

UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
UNLABELLED: Final = f"{UNEVEN} (missing required label)"
_HARD: Final = "DoNotSchedule"
HONOR: Final = "Honor"


def binding(spec: PodSpec) -> list[TopologySpreadConstraint]:
    """Return the constraints that keep a pod off nodes."""
    return [c for c in spec.spread if c.when_unsatisfiable == _HARD]


def selector_of(constraint: TopologySpreadConstraint, labels: Labels) -> LabelSelector | None:
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


def overfull(
    constraint: TopologySpreadConstraint, counts: Mapping[str, int], domains: int, own: int
) -> list[str]:
    """Name the domains where one more pod would be too many.

    `counts` has the domains with matching pods, `domains` says how many there are in all, `own`
    is 1 for a pod that counts itself. Too few domains to meet minDomains stand as if one more
    were empty.
    """
    everywhere = len(counts) >= domains >= (constraint.min_domains or 1)
    least = min(counts.values()) if counts and everywhere else 0
    most = constraint.max_skew + least - own
    return [domain for domain, count in counts.items() if count > most]
