"""Reads the needs of a pod from its JSON, once per template."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from reactive_desched.model.labels import Labels, LabelSelector, Requirement
from reactive_desched.model.node_affinity import NodeAffinity
from reactive_desched.model.node_scores import DEFAULT_CONTAINER_REQUESTS, normalized_image
from reactive_desched.model.objects import PodAffinityTerm as PodTerm
from reactive_desched.model.resources import CPU, MEMORY
from reactive_desched.model.taints import Toleration, Tolerations
from reactive_desched.sim.amounts import sum_of
from reactive_desched.sim.objects import Obj, labels_of

__all__ = ["HostPort", "NeedsReader", "PodNeeds", "SpreadConstraint", "WeightedTerm"]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_TEMPLATES_KEPT: Final = 20_000

T = TypeVar("T")


class HostPort(Struct, frozen=True):
    """A port wanted on the node itself; the address 0.0.0.0 means every address."""

    address: str
    protocol: str
    port: int

    def clashes(self, other: "HostPort") -> bool:
        """Say whether both cannot be held on one node."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or "0.0.0.0" in (self.address, other.address)  # noqa: S104 -- the wildcard is what is compared


class WeightedTerm(Struct, frozen=True):
    """A preferred term about other pods; a negative weight is one of anti-affinity."""

    weight: int
    term: PodTerm


class SpreadConstraint(Struct, frozen=True):
    """One topology spread constraint, its matchLabelKeys already part of the selector."""

    max_skew: int
    topology_key: str
    is_hard: bool
    selector: LabelSelector | None
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    @property
    def counts_no_pod(self) -> bool:
        """Say whether the selector is absent or empty: then no existing pod counts."""
        return self.selector is None or self.selector.is_empty

    def selects(self, labels: Labels) -> bool:
        """Say whether a pod of these labels counts; an empty selector accepts the pod itself."""
        return self.selector is not None and self.selector.matches(labels)


class PodNeeds(Struct, frozen=True):
    """Everything the filters and scores read of a pod, apart from its name and namespace."""

    labels: Labels = {}
    requests: Mapping[str, int] = {}
    scored_cpu_m: int = 0
    scored_memory: int = 0
    tolerations: Tolerations = ()
    node_selector: Labels = {}
    node_affinity: NodeAffinity | None = None
    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    wishes: tuple[WeightedTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    claims: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    """Those of all containers and of image volumes, each with its tag."""
    containers: int = 1


class NeedsReader:
    """Reads pods into needs and shares one record among the pods of a template.

    Remembers 20,000 templates; when full it forgets all of them and starts again, which costs
    time and sharing but no correctness.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, PodNeeds] = {}

    def read(self, pod: Obj) -> PodNeeds:
        """Return the pod's needs; raises msgspec.ValidationError for a malformed spec."""
        key = _template_key(pod)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _TEMPLATES_KEPT:
                self._known.clear()
            known = self._known[key] = _read(pod)
        return known


def _template_key(pod: Obj) -> bytes:
    spec = pod["spec"]
    volumes = spec.get("volumes") or ()
    # An ephemeral volume's claim is named after the pod, so such pods share nothing.
    name = pod["metadata"]["name"] if any("ephemeral" in v for v in volumes) else ""
    parts = [
        spec.get(field)
        for field in (
            "containers",
            "initContainers",
            "resources",
            "overhead",
            "tolerations",
            "nodeSelector",
            "affinity",
            "topologySpreadConstraints",
            "volumes",
        )
    ]
    return msgspec.json.encode((name, labels_of(pod), parts))


def _read(pod: Obj) -> PodNeeds:
    spec, labels = pod["spec"], labels_of(pod)
    affinity = spec.get("affinity") or {}
    together = affinity.get("podAffinity") or {}
    apart = affinity.get("podAntiAffinity") or {}
    scored = sum_of(spec, unasked=DEFAULT_CONTAINER_REQUESTS)
    return PodNeeds(
        labels=labels,
        requests=sum_of(spec),
        scored_cpu_m=scored.get(CPU, 0),
        scored_memory=scored.get(MEMORY, 0),
        tolerations=tuple(_convert(t, Toleration) for t in spec.get("tolerations") or ()),
        node_selector=spec.get("nodeSelector") or {},
        node_affinity=_optional(affinity.get("nodeAffinity"), NodeAffinity),
        host_ports=tuple(_host_ports(spec)),
        affinity=_terms(together, labels),
        anti_affinity=_terms(apart, labels),
        wishes=(*_wishes(together, 1, labels), *_wishes(apart, -1, labels)),
        spread=tuple(_spread(c, labels) for c in spec.get("topologySpreadConstraints") or ()),
        claims=_claims(pod),
        images=tuple(_images(spec)),
        containers=len([*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]),
    )


def _convert(raw: object, kind: type[T]) -> T:
    return msgspec.convert(raw, kind)


def _optional(raw: object, kind: type[T]) -> T | None:
    return None if raw is None else msgspec.convert(raw, kind)


def _host_ports(spec: Obj) -> list[HostPort]:
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    return [
        HostPort(
            str(port.get("hostIP") or "0.0.0.0"),  # noqa: S104 -- the wildcard of the API, nothing is bound
            str(port.get("protocol") or "TCP"),
            int(port["hostPort"]),
        )
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if int(port.get("hostPort") or 0) > 0
    ]


def _terms(side: Obj, labels: Labels) -> tuple[PodTerm, ...]:
    return tuple(_term(raw, labels) for raw in side.get(_REQUIRED) or ())


def _wishes(side: Obj, sign: int, labels: Labels) -> list[WeightedTerm]:
    return [
        WeightedTerm(sign * int(wish["weight"]), _term(wish["podAffinityTerm"], labels))
        for wish in side.get(_PREFERRED) or ()
    ]


def _term(raw: Obj, labels: Labels) -> PodTerm:
    """Read a term; a real API server merges the label keys into the selector at creation."""
    term = _convert(raw, PodTerm)
    own = (
        *_own_values("In", raw.get("matchLabelKeys"), labels),
        *_own_values("NotIn", raw.get("mismatchLabelKeys"), labels),
    )
    return msgspec.structs.replace(term, label_selector=_narrowed(term.label_selector, own))


def _own_values(operator: str, keys: list[str] | None, labels: Labels) -> tuple[Requirement, ...]:
    return tuple(Requirement(key, operator, (labels[key],)) for key in keys or () if key in labels)


def _narrowed(
    selector: LabelSelector | None, more: tuple[Requirement, ...]
) -> LabelSelector | None:
    if selector is None or not more:
        return selector
    expressions = (*selector.match_expressions, *more)
    return msgspec.structs.replace(selector, match_expressions=expressions)


def _spread(raw: Obj, labels: Labels) -> SpreadConstraint:
    selector = _optional(raw.get("labelSelector"), LabelSelector)
    own = _own_values("In", raw.get("matchLabelKeys"), labels)
    return SpreadConstraint(
        max_skew=int(raw["maxSkew"]),
        topology_key=raw["topologyKey"],
        is_hard=raw.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
        selector=_narrowed(selector, own),
        min_domains=int(raw.get("minDomains") or 1),
        honors_affinity=raw.get("nodeAffinityPolicy", "Honor") == "Honor",
        honors_taints=raw.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _images(spec: Obj) -> Iterator[str]:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if image := container.get("image"):
            yield normalized_image(str(image))
    for volume in spec.get("volumes") or ():
        if reference := (volume.get("image") or {}).get("reference"):
            yield normalized_image(str(reference))


def _claims(pod: Obj) -> tuple[str, ...]:
    """Name the pod's claims; an ephemeral volume's claim is named after pod and volume."""
    names: list[str] = []
    for volume in pod["spec"].get("volumes") or ():
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            names.append(str(claim["claimName"]))
        elif "ephemeral" in volume:
            names.append(f"{pod['metadata']['name']}-{volume['name']}")
    return tuple(names)
