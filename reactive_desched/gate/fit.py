"""Is there really somewhere else? Upstream's node fit over the live picture.

Where no node fits, the answer is remembered per pod template until any node has more room, so
that a thousand stuck siblings cost one search.
"""

from collections.abc import Iterable

from reactive_desched.model.fits import why_not
from reactive_desched.model.labels import Selector
from reactive_desched.model.objects import Pod, PodSpec
from reactive_desched.state.nodes import NodeEntry
from reactive_desched.state.view import ClusterView

REMEMBERED_TEMPLATES = 10_000
"""How many hopeless templates are remembered; at the bound all are forgotten."""


class Fit:
    """Searches for a node that a pod fits."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._hopeless: dict[tuple[int, str, str], PodSpec] = {}

    def room_grew(self) -> None:
        """Forget who fitted nowhere: some node offers more now."""
        self._hopeless.clear()

    def elsewhere(self, pod: Pod, selector: Selector) -> bool:
        """Say whether a ready, selected node other than the pod's own fits it."""
        others = (r for r in self._view.ready_rooms(selector) if r.name != pod.node)
        return self._search(pod, str(selector), others)

    def anywhere(self, pod: Pod) -> bool:
        """Say whether any node that counts fits it, its own included."""
        return self._search(pod, "*", self._view.rooms())

    def fits(self, pod: Pod, room: NodeEntry) -> bool:
        """Say whether the pod fits one node."""
        return room.node is not None and (
            why_not(pod, room.node, room.requested, room.active.values()) is None
        )

    def _search(self, pod: Pod, scope: str, rooms: Iterable[NodeEntry]) -> bool:
        key = (id(pod.spec), scope, pod.node)
        # Anti-affinity depends on more than the template, so only other pods share an answer.
        shareable = not pod.spec.anti_affinity
        if shareable and self._hopeless.get(key) is pod.spec:
            return False
        if any(self.fits(pod, room) for room in rooms):
            return True
        if shareable:
            if len(self._hopeless) >= REMEMBERED_TEMPLATES:
                self._hopeless.clear()
            self._hopeless[key] = pod.spec
        return False
