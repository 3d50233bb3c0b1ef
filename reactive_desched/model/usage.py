"""Samples of a source of metrics: the real use of a node and of its pods."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import NoApiObject, Pod
from reactive_desched.model.resources import ResourceList


class MetricsSourceKind(StrEnum):
    """The built-in sources of measured use, as policies name them."""

    KUBERNETES = "KubernetesMetrics"
    PROMETHEUS = "Prometheus"


NODE_METRIC: Final = "NodeMetric"
"""The source of what koordinator's agent on a node reports."""


def source_kind(source: str) -> str:
    """Return what policies call the provider of a source, such as Prometheus of "Prometheus/up"."""
    return source.partition("/")[0]


class NodeUsage(NoApiObject, frozen=True, gc=False):
    """The last sample of one source for one node.

    `source` names the source as policies distinguish it, for example "KubernetesMetrics". `usage`
    is what the node uses, cpu in milli-cores and everything else in whole units; a source that
    measures one figure alone gives it as a resource of its own. `pods` is what each pod uses, by
    "namespace/name"; a pod that is not there was not measured. `sampled_s` is when the source
    measured it, in seconds since the epoch: at the end of the `window_s` that it averages over.
    """

    source: str
    node: str
    usage: ResourceList
    sampled_s: float
    pods: Mapping[str, ResourceList] = {}
    window_s: float = 0.0

    def is_older(self, max_age_s: float, now_s: float) -> bool:
        """Say whether the sample is too old: its node's use is unknown then.

        `now_s` is in seconds since the epoch.
        """
        return self.sampled_s < now_s - max_age_s

    @property
    def key(self) -> str:
        """The source and the node."""
        return f"{self.source}/{self.node}"


class NodeMetric(NodeUsage, frozen=True, gc=False):
    """A report of koordinator's agent on a node: a sample that is an API object of its own.

    `sampled_s` is minus infinity where nothing was measured yet. `pods_usage` is the sum of what
    the pods in `pods` use; None where it was not summed.
    """

    uid: str = ""
    resource_version: int = 0
    pods_usage: ResourceList | None = None

    @property
    def key(self) -> str:
        """The node's name, which is the object's."""
        return self.node


LEFT_PODS_KEPT_S: Final = 300.0
"""For so long it is known of a pod that it was on its node."""


class UseChange(Struct, frozen=True, gc=False):
    """A pod that came to its node, or has left it, so recently that this may pass.

    `wait_s` is for how long it must still last to count. Of a pod that left, `was_brief` says that
    it had not been there for so long either.
    """

    wait_s: float
    pod: Pod
    has_left: bool = False
    was_brief: bool = False
