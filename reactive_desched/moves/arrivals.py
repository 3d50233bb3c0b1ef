"""Remembers which pods a plugin moved to which node: a node goes on taking pods until it is full.

A plan that is carried out pod by pod would otherwise forget, with the first pod that lands, that
the node was to be filled: by its use it hardly has room any more. What is remembered is stored in
the cluster state as `MovedPods`, where the indexes of the plugins read it.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.model.moves import MovedPods
from reactive_desched.model.objects import PodKey
from reactive_desched.moves.node_memory import MAX_NODES, MEMORY_S, NodeAndPlugin

MAX_PODS_OF_NODE: Final = 256
"""So many pods that came last are remembered of one node and plugin."""


class _Arrived(Struct):
    """The pods that came to a node, with the times of day, and until when they are remembered."""

    pods: dict[PodKey, float]
    until: float


class Arrivals:
    """The pods that each plugin moved to each node, for a day after the last of them came.

    They are forgotten with the first change after that: that alone wakes nothing. Beyond
    `MAX_NODES` nodes those to which none came for longest are forgotten.
    """

    def __init__(self) -> None:
        self._by_node: OrderedDict[NodeAndPlugin, _Arrived] = OrderedDict()  # last arrival last
        self._changed: dict[NodeAndPlugin, MovedPods] = {}

    def add(self, pod: PodKey, node: str, plugin: str, now: float, came_s: float) -> None:
        """Remember a pod that a plugin moved to a node.

        `now` is monotonic seconds, `came_s` the same moment in seconds since the epoch.
        """
        place = node, plugin
        before = self._by_node.pop(place, None)
        pods = {} if before is None else before.pods
        pods[pod] = came_s
        if len(pods) > MAX_PODS_OF_NODE:
            del pods[next(iter(pods))]
        self._by_node[place] = _Arrived(pods, now + MEMORY_S)
        self._changed[place] = MovedPods(plugin, node, dict(pods))
        if len(self._by_node) > MAX_NODES:
            self._forget_first()

    def expire(self, now: float) -> None:
        """Forget the pods of the nodes to which none came for a day."""
        while self._by_node and next(iter(self._by_node.values())).until <= now:
            self._forget_first()

    def clear(self) -> None:
        """Forget all pods: no node is being filled any more."""
        while self._by_node:
            self._forget_first()

    @property
    def has_changed(self) -> bool:
        """Say whether `take_changed` has something to return."""
        return bool(self._changed)

    def take_changed(self) -> Sequence[MovedPods]:
        """Return, once, what is to be stored of each node that has other pods than before."""
        changed, self._changed = list(self._changed.values()), {}
        return changed

    def _forget_first(self) -> None:
        (node, plugin), _ = self._by_node.popitem(last=False)
        self._changed[node, plugin] = MovedPods(plugin, node, {})
