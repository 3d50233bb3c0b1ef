"""The resource metrics API (metrics.k8s.io/v1beta1): its objects, and the samples made of them.

metrics-server serves a NodeMetrics object for each node and a PodMetrics object for each pod.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Raw, Struct

from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import CPU, MEMORY, ResourceList, parse_resource_list
from reactive_desched.model.usage import MetricsSourceKind, NodeUsage
from reactive_desched.primitives.durations import DurationError, parse_duration
from reactive_desched.state.kinds.interning import epoch_seconds, quantity_texts
from reactive_desched.state.kinds.kind import (
    Metadata,
    Purpose,
    Timestamp,
    WatchedKind,
    WireStruct,
)

__all__ = [
    "KUBERNETES_METRICS",
    "NODE_METRICS",
    "POD_METRICS",
    "NodeMetrics",
    "PodMetrics",
    "make_sample",
    "make_samples",
]

KUBERNETES_METRICS: Final = MetricsSourceKind.KUBERNETES.value
"""The name by which policies call this source."""

_API_VERSION: Final = "metrics.k8s.io/v1beta1"
_DEFAULT_NAMESPACE: Final = "default"


class MetricsObject(Struct, frozen=True, gc=False):
    """The use of cpu, in milli-cores, and of memory, in bytes.

    `sampled_s` is the end of the time in which it was measured, in seconds since the epoch.
    """

    key: str
    usage: ResourceList
    sampled_s: float = 0.0

    @property
    def uid(self) -> str:
        """Empty: the API makes the object when it is asked."""
        return ""

    @property
    def resource_version(self) -> int:
        """Zero, for the same reason."""
        return 0


class NodeMetrics(MetricsObject, frozen=True, gc=False):
    """The use of a node, on average over `window_s`; `key` is its name."""

    window_s: float = 0.0


class PodMetrics(MetricsObject, frozen=True, gc=False):
    """The use of a pod's containers together; `key` is "namespace/name".

    A resource that was not measured of every container is left out.
    """


class WireContainerMetrics(WireStruct, frozen=True, gc=False):
    """The use of one container."""

    usage: dict[str, Raw] | None = None


class WireNodeMetrics(WireStruct, frozen=True, gc=False):
    """The JSON of NodeMetrics."""

    metadata: Metadata
    timestamp: Timestamp
    window: str = ""
    usage: dict[str, Raw] | None = None


class WirePodMetrics(WireStruct, frozen=True, gc=False):
    """The JSON of PodMetrics."""

    metadata: Metadata
    timestamp: Timestamp | None = None
    containers: tuple[WireContainerMetrics, ...] = ()


def _read_node(wire: WireNodeMetrics) -> NodeMetrics:
    sampled_s = float(epoch_seconds(wire.timestamp) or 0)
    return NodeMetrics(wire.metadata.name, _measured(wire.usage), sampled_s, _window_s(wire))


def _window_s(wire: WireNodeMetrics) -> float:
    """Return the window; 0 where there is none."""
    text = wire.window
    try:
        if text[:-1].replace(".", "", 1).isdecimal() and text[-1] == "s":
            return float(text[:-1])  # seconds, as nearly always; the other way is slow
        return parse_duration(text)
    except DurationError:
        return 0.0


def _read_pod(wire: WirePodMetrics) -> PodMetrics:
    metadata = wire.metadata
    usage = _sum_of_shared([_measured(container.usage) for container in wire.containers])
    key = f"{metadata.namespace or _DEFAULT_NAMESPACE}/{metadata.name}"
    return PodMetrics(key, usage, float(epoch_seconds(wire.timestamp) or 0))


def _measured(usage: Mapping[str, Raw] | None) -> dict[str, int]:
    """Return cpu and memory, all that the API is defined for."""
    texts = {r: amount for r, amount in (usage or {}).items() if r in (CPU, MEMORY)}
    return parse_resource_list(quantity_texts(texts))


def _sum_of_shared(containers: list[dict[str, int]]) -> dict[str, int]:
    if len(containers) == 1:
        return containers[0]
    shared = set.intersection(*map(set, containers)) if containers else set[str]()
    return {r: sum(usage[r] for usage in containers) for r in (CPU, MEMORY) if r in shared}


NODE_METRICS: Final = WatchedKind(
    kind="NodeMetrics",
    resource="nodes",
    api_version=_API_VERSION,
    namespaced=False,
    record=NodeMetrics,
    wire=WireNodeMetrics,
    make_reader=lambda _: _read_node,
    purpose=Purpose.MEASURED_USE,
    read_for="what nodes use, for plugins that go by KubernetesMetrics",
)
POD_METRICS: Final = WatchedKind(
    kind="PodMetrics",
    resource="pods",
    api_version=_API_VERSION,
    namespaced=True,
    record=PodMetrics,
    wire=WirePodMetrics,
    make_reader=lambda _: _read_pod,
    purpose=Purpose.MEASURED_USE,
    read_for="what pods use, for plugins that go by KubernetesMetrics",
)


def make_samples(
    nodes: Iterable[NodeMetrics],
    pods: Mapping[str, ResourceList],
    pods_on: Callable[[str], Iterable[Pod]],
) -> Iterator[NodeUsage]:
    """Make a sample of each NodeMetrics object, with the use of the pods that are on the node.

    `pods` is what each pod uses, by "namespace/name"; `pods_on` returns the pods of a node.
    """
    for node in nodes:
        names = map(str, pods_on(node.key))
        used = {name: amounts for name in names if (amounts := pods.get(name)) is not None}
        yield make_sample(node, used)


def make_sample(node: NodeMetrics, pods: Mapping[str, ResourceList]) -> NodeUsage:
    """Make a sample of a NodeMetrics object and of what the node's pods use."""
    return NodeUsage(KUBERNETES_METRICS, node.key, node.usage, node.sampled_s, pods, node.window_s)
