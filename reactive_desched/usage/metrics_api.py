"""The resource metrics API (metrics.k8s.io/v1beta1): its objects, and the samples made of them.

metrics-server serves a NodeMetrics object for each node and a PodMetrics object for each pod.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder

from reactive_desched.errors import Malformed, QuantityError
from reactive_desched.model.resources import CPU, MEMORY, ResourceList, parse_resource_list
from reactive_desched.model.usage import NodeUsage
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.state.kinds.interning import epoch_seconds, quantity_texts

__all__ = [
    "GROUP",
    "KUBERNETES_METRICS",
    "NODE_METRICS",
    "POD_METRICS",
    "NodeMetrics",
    "PodMetrics",
    "make_samples",
    "read_node_metrics",
    "read_pod_metrics",
]

KUBERNETES_METRICS: Final = "KubernetesMetrics"
"""The name by which policies call this source."""

GROUP: Final = "metrics.k8s.io"
NODE_METRICS: Final = "NodeMetrics"
POD_METRICS: Final = "PodMetrics"

_DEFAULT_NAMESPACE: Final = "default"
_ERRORS: Final = (*DECODE_ERRORS, QuantityError)


class NodeMetrics(Struct, frozen=True, gc=False):
    """What a node used until `sampled_s`, since the epoch: cpu in milli-cores, memory in bytes."""

    name: str
    usage: ResourceList
    sampled_s: float


class PodMetrics(Struct, frozen=True, gc=False):
    """What the containers of a pod used together.

    A resource that was not measured of every container is left out.
    """

    key: str
    """The pod's namespace and name, with a slash between them."""
    usage: ResourceList


class _Metadata(Struct, frozen=True, gc=False):
    name: Annotated[str, Meta(min_length=1)]
    namespace: str = _DEFAULT_NAMESPACE


class _WireNodeMetrics(Struct, frozen=True, gc=False):
    metadata: _Metadata
    timestamp: Annotated[datetime, Meta(tz=True)]
    usage: dict[str, Raw] = {}


class _WireContainer(Struct, frozen=True, gc=False):
    usage: dict[str, Raw] = {}


class _WirePodMetrics(Struct, frozen=True, gc=False):
    metadata: _Metadata
    containers: tuple[_WireContainer, ...] = ()


class _Named(Struct, frozen=True, gc=False):
    metadata: _Metadata


_decode_node: Final = Decoder(_WireNodeMetrics).decode
_decode_pod: Final = Decoder(_WirePodMetrics).decode
_decode_name: Final = Decoder(_Named).decode


def read_node_metrics(raw: Raw | bytes | memoryview) -> NodeMetrics:
    """Read a NodeMetrics object; raises Malformed."""
    try:
        wire = _decode_node(raw)
        return NodeMetrics(
            wire.metadata.name, _measured(wire.usage), float(epoch_seconds(wire.timestamp) or 0)
        )
    except _ERRORS as error:
        raise Malformed(NODE_METRICS, _name_of(raw), str(error)) from error


def read_pod_metrics(raw: Raw | bytes | memoryview) -> PodMetrics:
    """Read a PodMetrics object; raises Malformed."""
    try:
        wire = _decode_pod(raw)
        namespace = wire.metadata.namespace or _DEFAULT_NAMESPACE
        containers = [_measured(container.usage) for container in wire.containers]
    except _ERRORS as error:
        raise Malformed(POD_METRICS, _name_of(raw), str(error)) from error
    return PodMetrics(f"{namespace}/{wire.metadata.name}", _sum_of_shared(containers))


def make_samples(
    nodes: Iterable[NodeMetrics],
    pods: Iterable[PodMetrics],
    node_of: Callable[[str], str | None],
) -> Iterator[NodeUsage]:
    """Make a sample of each NodeMetrics object, with the use of the pods on that node.

    `node_of` returns the node of a pod by its namespace and name; a pod that it does not know, or
    whose node was not measured, is left out.
    """
    by_node: dict[str, dict[str, ResourceList]] = {}
    for pod in pods:
        if (node := node_of(pod.key)) is not None:
            by_node.setdefault(node, {})[pod.key] = pod.usage
    for each in nodes:
        yield NodeUsage(
            KUBERNETES_METRICS,
            each.name,
            each.usage,
            sampled_s=each.sampled_s,
            pods=by_node.get(each.name, {}),
        )


def _measured(usage: Mapping[str, Raw]) -> dict[str, int]:
    """Return cpu and memory, all that the API is defined for."""
    return parse_resource_list(
        quantity_texts({r: amount for r, amount in usage.items() if r in (CPU, MEMORY)})
    )


def _sum_of_shared(containers: list[dict[str, int]]) -> dict[str, int]:
    if not containers:
        return {}
    shared = set.intersection(*(set(usage) for usage in containers))
    return {r: sum(usage[r] for usage in containers) for r in sorted(shared)}


def _name_of(raw: Raw | bytes | memoryview) -> str:
    try:
        return _decode_name(raw).metadata.name
    except DECODE_ERRORS:
        return ""
