"""The nodes that took pods of emptied nodes lately: they are not the next ones to be emptied."""

from collections.abc import Hashable, Iterable
from typing import Final

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import Change, NodeChange
from reactive_desched.model.consolidation import EMPTYING_PLUGINS
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.objects import ClusterObject

SETTLES_S: Final = 90.0
"""A node is not emptied for so long after it took a pod of another node that was emptied.

A pod that is found again within a minute of its move makes that move futile: this is longer.
"""


class ConsolidationTargetChanged(NodeChange, frozen=True, gc=False):
    """A pod of an emptied node came to the node, or it is forgotten when the last one did."""


class ConsolidationTargets(Index):
    """The times of the last pods that each plugin which empties nodes moved to a node.

    They are in seconds since the epoch.
    """

    announces = (ConsolidationTargetChanged,)
    kinds = (MovedPods,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._came_s: dict[str, dict[str, float]] = {}
        for moved in cluster.store(MovedPods):
            self.on_object(None, moved)

    def settles_for_s(self, node: str, now_s: float) -> float:
        """Return for how long the node is still left alone; `now_s` is as `View.now_s`."""
        came_s = max(self._came_s.get(node, {}).values(), default=None)
        return 0.0 if came_s is None else max(0.0, came_s + SETTLES_S - now_s)

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> Iterable[Change]:
        """Follow the pods that the plugin moved."""
        moved = old if new is None else new
        assert isinstance(moved, MovedPods), "of `kinds`"
        if moved.plugin not in EMPTYING_PLUGINS:
            return ()
        came = self._came_s.setdefault(moved.node, {})
        before = came.pop(moved.plugin, None)
        if new is not None and moved.pods:
            came[moved.plugin] = max(moved.pods.values())
        after = came.get(moved.plugin)
        if not came:
            del self._came_s[moved.node]
        return () if after == before else (ConsolidationTargetChanged(moved.node),)

    def answers(self) -> object:
        """Return the times by node and plugin."""
        return self._came_s
