"""NodeMetrics of koordinator: what its agent on each node measured."""

from math import inf
from typing import Final

from msgspec import Raw

from reactive_desched.model.resources import ResourceList, add_resources, parse_resource_list
from reactive_desched.model.usage import NODE_METRIC as SOURCE
from reactive_desched.model.usage import NodeMetric
from reactive_desched.state.kinds.interning import (
    epoch_seconds,
    parse_resource_version,
    quantity_texts,
)
from reactive_desched.state.kinds.kind import (
    LargeParts,
    Metadata,
    Purpose,
    Timestamp,
    WatchedKind,
    WireStruct,
)

__all__ = ["NODE_METRIC"]


class ResourceMap(WireStruct, frozen=True, gc=False):
    """Amounts of resources in use."""

    resources: dict[str, Raw] | None = None


class NodeMetricInfo(WireStruct, frozen=True, gc=False):
    """The use of a node beside its pods."""

    system_usage: ResourceMap = ResourceMap()


class PodMetricInfo(WireStruct, frozen=True, gc=False):
    """The use of one pod of the node."""

    namespace: str = ""
    name: str = ""
    pod_usage: ResourceMap = ResourceMap()


class NodeMetricStatus(WireStruct, frozen=True, gc=False):
    """The time of an agent's measurement, and its results."""

    update_time: Timestamp | None = None
    node_metric: NodeMetricInfo | None = None
    pods_metric: tuple[PodMetricInfo, ...] = ()


class WireNodeMetric(WireStruct, frozen=True, gc=False):
    """A NodeMetric's JSON."""

    metadata: Metadata
    status: NodeMetricStatus = NodeMetricStatus()


def _read(wire: WireNodeMetric) -> NodeMetric:
    """Add up what system and pods use: the agent measures its sum for the node at another time."""
    metadata, status = wire.metadata, wire.status
    total: dict[str, int] = {}
    pods: dict[str, ResourceList] = {}
    pods_usage: ResourceList | None = None
    if status.node_metric is not None:
        for pod in status.pods_metric:
            used = pods[f"{pod.namespace}/{pod.name}"] = _amounts(pod.pod_usage)
            add_resources(total, used)
        if len(pods) == len(status.pods_metric):  # none is there twice
            pods_usage = dict(total)
        add_resources(total, _amounts(status.node_metric.system_usage))
    sampled_s = None if status.node_metric is None else epoch_seconds(status.update_time)
    return NodeMetric(
        SOURCE,
        metadata.name,
        total,
        sampled_s=-inf if sampled_s is None else float(sampled_s),
        pods=pods,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        pods_usage=pods_usage,
    )


def _amounts(used: ResourceMap) -> dict[str, int]:
    return parse_resource_list(quantity_texts(used.resources or {}))


NODE_METRIC: Final = WatchedKind(
    kind="NodeMetric",
    resource="nodemetrics",
    api_version="slo.koordinator.sh/v1alpha1",
    namespaced=False,
    record=NodeMetric,
    wire=WireNodeMetric,
    large_parts=LargeParts(limits={"status.podsMetric": 1024 * 1024}),
    make_reader=lambda _: _read,
    purpose=Purpose.MEASURED_USE,
    read_for="what nodes and pods really use, where koordinator's agent measures it; watched only "
    "while a plugin goes by it",
    if_forbidden="LowNodeLoad has no measurements and evicts nothing",
)
