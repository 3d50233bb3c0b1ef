"""Decides which pods and nodes a topology spread constraint counts, and which domains it closes."""

from collections.abc import Hashable, Mapping
from typing import Final

import msgspec

from reactive_desched.model.labels import Labels, LabelSelector, Requirement
from reactive_desched.model.node_affinity import NodeAffinity, satisfies_required
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    Node,
    PodSpec,
    TopologySpreadConstraint,
)
from reactive_desched.model.scheduling import FitReason
from reactive_desched.model.taints import HARD_EFFECTS, Tolerations, untolerated

SPREAD_VIOLATED: Final = FitReason(
    "TopologySpreadViolated", "node(s) didn't match pod topology spread constraints"
)
SPREAD_LABEL_MISSING: Final = FitReason(
    "TopologyLabelMissing",
    "node(s) didn't match pod topology spread constraints (missing required label)",
)
DEFAULT_SPREAD: Final = {HOSTNAME_LABEL: 3, ZONE_LABEL: 5}
"""The kube-scheduler's own constraints, label to maxSkew, for pods that declare none: soft ones."""

_HARD: Final = "DoNotSchedule"
_SOFT: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"


def hard_constraints(spec: PodSpec) -> list[TopologySpreadConstraint]:
    """Return the constraints that keep a pod off nodes."""
    return [c for c in spec.topology_spread_constraints if c.when_unsatisfiable == _HARD]


def soft_constraints(spec: PodSpec) -> list[TopologySpreadConstraint]:
    """Return the constraints by which nodes are scored only."""
    return [c for c in spec.topology_spread_constraints if c.when_unsatisfiable == _SOFT]


def effective_selector(
    constraint: TopologySpreadConstraint, labels: Labels
) -> LabelSelector | None:
    """Return the selector of the pods that a constraint counts; None selects no pod.

    `matchLabelKeys` are added to the selector with the pod's own values. Where the API server has
    done so already, adding them again changes nothing.
    """
    selector, keys = constraint.label_selector, constraint.match_label_keys
    if selector is None or not keys:
        return selector
    own = tuple(Requirement(key, "In", (labels[key],)) for key in keys if key in labels)
    expressions = (*selector.match_expressions, *own)
    return msgspec.structs.replace(selector, match_expressions=expressions)


class NodeInclusion(msgspec.Struct, frozen=True, gc=False):
    """The nodes whose domains a constraint counts, by its policies and the pod that declares it.

    Nothing is demanded of a node's labels where nodeAffinityPolicy is Ignore; `tolerations` is None
    where nodeTaintsPolicy is, as by default.
    """

    node_selector: Labels = {}
    required: NodeAffinity | None = None
    tolerations: Tolerations | None = None

    @property
    def key(self) -> Hashable:
        """A hashable key, equal for equal inclusions: a nodeSelector is a dict."""
        required = None if self.required is None else self.required.required
        return tuple(sorted(self.node_selector.items())), required, self.tolerations

    def accepts(self, node: Node) -> bool:
        """Say whether a node counts."""
        if not satisfies_required(self.node_selector, self.required, node.name, node.labels):
            return False
        if self.tolerations is None or not node.taints:
            return True
        hard = (taint for taint in node.taints if taint.effect in HARD_EFFECTS)
        return next(untolerated(self.tolerations, hard), None) is None


def node_inclusion(constraint: TopologySpreadConstraint, spec: PodSpec) -> NodeInclusion:
    """Return the nodes that a constraint of a pod with this spec counts."""
    tolerations = spec.tolerations if constraint.node_taints_policy == HONOR else None
    if constraint.node_affinity_policy != HONOR:
        return NodeInclusion(tolerations=tolerations)
    affinity = spec.node_affinity
    required = None if affinity is None or affinity.required is None else affinity
    return NodeInclusion(spec.node_selector, required, tolerations)


def domains_over_max_skew(
    constraint: TopologySpreadConstraint,
    counts: Mapping[str, int],
    domain_count: int,
    self_match: int,
) -> list[str]:
    """Return the domains in which one more pod would exceed the constraint's maxSkew.

    `counts` has the domains with matching pods, `domain_count` is the number of all domains, and
    `self_match` is 1 for a pod that its own selector matches. With fewer domains than minDomains
    the global minimum is 0.
    """
    all_occupied = len(counts) >= domain_count >= (constraint.min_domains or 1)
    least = min(counts.values()) if counts and all_occupied else 0
    limit = constraint.max_skew + least - self_match
    return [domain for domain, count in counts.items() if count > limit]
