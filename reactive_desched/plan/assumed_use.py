"""Goes on measuring a simulated cluster as koordinator's agents do, while a preview moves pods."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import ResourceList, add_resources
from reactive_desched.model.usage import NodeMetric
from reactive_desched.state.cluster import ClusterState

__all__ = ["REPORT_EVERY_S", "AssumedUse"]

REPORT_EVERY_S: Final = 60.0
"""An agent reports so often."""

REPORTED_FOR_S: Final = 3600.0
"""So long after a pod moved last the agents go on: then a preview has nothing new to measure."""


class AssumedUse:
    """The use of pods in a preview: a replacement uses what the pod before it used.

    Each report is as old when it comes as the first one was at the beginning: what was too old
    then remains so. `began_s` is the beginning, in seconds since the epoch.
    """

    def __init__(self, state: ClusterState, began_s: float) -> None:
        self._state = state
        self._ages = {each.node: began_s - each.sampled_s for each in state.store(NodeMetric)}
        self._of_pods: dict[str, ResourceList] = {}
        self._until_s = 0.0

    def follow(self, evicted: Pod, replacement: Pod, now_s: float) -> bool:
        """Record that a pod is replaced; say whether reports begin with that."""
        if not self._ages:
            return False
        metric = self._state.store(NodeMetric).get(evicted.node)
        known = {} if metric is None else metric.pods
        used = self._of_pods.get(str(evicted)) or known.get(str(evicted))
        if used is not None:
            self._of_pods[str(replacement)] = used
        begins, self._until_s = now_s > self._until_s, now_s + REPORTED_FOR_S
        return begins

    def goes_on(self, now_s: float) -> bool:
        """Say whether there are more reports."""
        return now_s <= self._until_s

    def reports(self, now_s: float) -> Iterator[NodeMetric]:
        """Yield what each agent reports now."""
        for metric in list(self._state.store(NodeMetric)):
            if (age_s := self._ages.get(metric.node)) is not None:
                yield self._again(metric, now_s - age_s)

    def _again(self, metric: NodeMetric, sampled_s: float) -> NodeMetric:
        info = self._state.node_info(metric.node)
        present = set() if info is None else {str(pod) for pod in info.active.values()}
        usage, pods = dict(metric.usage), dict(metric.pods)
        for name in pods.keys() - present:
            _add(usage, pods.pop(name), -1)
        for name in present - pods.keys():
            if (used := self._of_pods.get(name)) is not None:
                pods[name] = used
                _add(usage, used, 1)
        return replace(
            metric,
            usage=usage,
            pods=pods,
            pods_usage=None,
            sampled_s=sampled_s,
            resource_version=0,
        )


def _add(usage: dict[str, int], used: Mapping[str, int], step: int) -> None:
    add_resources(usage, {resource: step * amount for resource, amount in used.items()})
