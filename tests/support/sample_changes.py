"""An index that announces every sample of use, as a plugin outside this repository may have one."""

from collections.abc import Iterable

from reactive_desched.api.index import Index
from reactive_desched.model.changes import Change, NodeChange
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.usage import NodeMetric, NodeUsage


class NodeUsageChanged(NodeChange, frozen=True, gc=False):
    """A source of metrics has a new sample of the node, or none any more."""

    source: str = ""


class SampleChanges(Index):
    """Announces the node of each sample that comes or goes."""

    announces = (NodeUsageChanged,)
    kinds = (NodeUsage, NodeMetric)

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> Iterable[Change]:
        """Announce it."""
        sample = new or old
        assert isinstance(sample, NodeUsage), "of `kinds`"
        return (NodeUsageChanged(sample.node, sample.source),)

    def answers(self) -> object:
        """It keeps nothing."""
        return None
