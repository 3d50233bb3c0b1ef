"""Bounds how many rules of one pod are evaluated: the API server bounds none of them.

Each affinity term and each spread constraint may concern every pod of the cluster, and each
requested resource every node. What is beyond is left out, as if nothing were wrong by it, and the
pod is held.
"""

from collections.abc import Callable, Iterable, Sized
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from reactive_desched.model.labels import Requirement
from reactive_desched.model.node_affinity import NodeAffinity
from reactive_desched.model.objects import (
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from reactive_desched.model.taints import Toleration

__all__ = ["MAX_CONTAINERS", "MAX_CONTAINER_BYTES", "within_limits"]

MAX_CONTAINERS: Final = 128
MAX_CONTAINER_BYTES: Final = 16 * 1024
"""What containers request, limit and listen on, as text."""

MAX_TERMS: Final = 16
MAX_SPREAD_CONSTRAINTS: Final = 8
MAX_BROAD: Final = 4
"""So many terms, or constraints, may be broad: each pod of the cluster, or of the namespace, may
match. The pods that do are kept for each term, which takes a microsecond and 100 bytes for each."""

MAX_VALUES: Final = 8
"""A selector that requires one of more values of a label is as broad as one that requires none."""

MAX_NAMESPACES: Final = 8
"""A term that lists more namespaces is as broad as one that selects them."""

MAX_TOLERATIONS: Final = 256
MAX_SELECTOR_LABELS: Final = 64
MAX_NODE_REQUIREMENTS: Final = 128
MAX_RESOURCES: Final = 32
MAX_HOST_PORTS: Final = 128
MAX_DEVICE_REQUESTS: Final = 128

_ANY: Final = (Toleration(operator="Exists"),)


class _Limit(NamedTuple):
    """The most of something that a pod may have, and what is read instead of more."""

    field: str
    what: str
    most: int
    neutral: Any
    count: Callable[[Any], int] = len


def _count_requirements(affinity: NodeAffinity | None) -> int:
    """Count the alternatives of a node affinity, and what each requires."""
    if affinity is None:
        return 0
    terms = () if affinity.required is None else affinity.required.node_selector_terms
    terms += tuple(each.preference for each in affinity.preferred)
    return len(terms) + sum(len(each.match_expressions) for each in terms)


_Broad: TypeAlias = PodAffinityTerm | WeightedPodAffinityTerm | TopologySpreadConstraint


def _count_broad(terms: Iterable[_Broad]) -> int:
    """Count the terms that may match any pod, of all namespaces or of one."""
    return sum(_is_broad(each) for each in terms)


def _is_broad(term: _Broad) -> bool:
    if isinstance(term, WeightedPodAffinityTerm):
        term = term.pod_affinity_term
    if (selector := term.label_selector) is None:
        return False  # it matches no pod
    if isinstance(term, PodAffinityTerm) and (
        term.namespace_selector is not None or len(term.namespaces) > MAX_NAMESPACES
    ):
        return True
    return not selector.match_labels and not any(map(_requires_value, selector.match_expressions))


def _requires_value(requirement: Requirement) -> bool:
    return requirement.operator == "In" and len(requirement.values) <= MAX_VALUES


def _len(value: Sized | None) -> int:
    return 0 if value is None else len(value)


_LIMITS: Final = (
    _Limit("tolerations", "tolerations", MAX_TOLERATIONS, _ANY),
    _Limit("node_selector", "labels of the nodeSelector", MAX_SELECTOR_LABELS, {}),
    _Limit(
        "node_affinity",
        "requirements of the node affinity",
        MAX_NODE_REQUIREMENTS,
        None,
        _count_requirements,
    ),
    _Limit("pod_affinity", "required affinity terms", MAX_TERMS, ()),
    _Limit("anti_affinity", "required anti-affinity terms", MAX_TERMS, ()),
    _Limit("preferred_pod_affinity", "preferred affinity terms", MAX_TERMS, ()),
    _Limit("preferred_anti_affinity", "preferred anti-affinity terms", MAX_TERMS, ()),
    _Limit(
        "topology_spread_constraints", "topology spread constraints", MAX_SPREAD_CONSTRAINTS, ()
    ),
    *(
        _Limit(field, f"{what} that may match any pod", MAX_BROAD, (), _count_broad)
        for field, what in (
            ("pod_affinity", "required affinity terms"),
            ("anti_affinity", "required anti-affinity terms"),
            ("preferred_pod_affinity", "preferred affinity terms"),
            ("preferred_anti_affinity", "preferred anti-affinity terms"),
            ("topology_spread_constraints", "topology spread constraints"),
        )
    ),
    _Limit("host_ports", "host ports", MAX_HOST_PORTS, ()),
    _Limit("requests", "requested resources", MAX_RESOURCES, {}),
    _Limit("scored_requests", "scored resources", MAX_RESOURCES, None, _len),
    _Limit("device_requests", "requests for extended resources", MAX_DEVICE_REQUESTS, ()),
)


def within_limits(spec: PodSpec, unread: str = "") -> PodSpec:
    """Return the spec without what is too much of it, which `unread` names then."""
    exceeded = [
        (limit, count)
        for limit in _LIMITS
        if (count := limit.count(getattr(spec, limit.field))) > limit.most
    ]
    if not exceeded and not unread:
        return spec
    texts = (f"{count:,} {limit.what} (at most {limit.most})" for limit, count in exceeded)
    neutral = {limit.field: limit.neutral for limit, _ in exceeded}
    return replace(spec, **neutral, unread=", ".join(filter(None, (unread, *texts))))
