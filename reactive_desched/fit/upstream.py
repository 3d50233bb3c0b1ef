"""Is there really somewhere else? What both strengths of node fit answer, and the weaker one.

`upstream` judges as the SIG descheduler, `scheduler` (in `scheduler_fit`) as the kube-scheduler.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

from msgspec import Struct

from reactive_desched.fit.filters import WhyNot
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Room, WakeKey
from reactive_desched.model.fits import why_not
from reactive_desched.model.labels import Selector
from reactive_desched.model.objects import Pod, PodSpec
from reactive_desched.state.nodes import NodeEntry
from reactive_desched.state.view import ClusterView

SCHEDULER: Final = "scheduler"
UPSTREAM: Final = "upstream"
"""The two strengths, as settings name them."""

NO_OTHER_NODE: Final = (
    "pod does not fit on any other node because of nodeSelector(s), Taint(s), "
    "or nodes marked as unschedulable"
)
"""Upstream's words, whatever the reason is."""

REMEMBERED_TEMPLATES: Final = 10_000
"""How many hopeless templates are remembered; at the bound all are forgotten."""

ROOM: Final[WakeKey] = ("room",)
"""What those wait for who may be helped by any node with more room."""


class Nowhere(Struct, frozen=True):
    """The pod fits no node: why not, in words and in numbers, and what could help.

    `until` says when to look again regardless, in monotonic seconds.
    """

    reason: str
    why: WhyNot
    wakes: tuple[WakeKey, ...]
    until: float | None = None


class NodeSearch(Protocol):
    """One strength of node fit.

    A search is followed by `begin` when its pod is let go; `end` tells what came of it.
    """

    def prepare(self) -> bool:
        """Take in what happened since, for a moment at most; say whether that was all."""
        ...

    def elsewhere(self, pod: Pod, selector: Selector) -> str | None:
        """Name a ready node of the selection, other than the pod's own, that fits it."""
        ...

    def anywhere(self, pod: Pod) -> str | None:
        """Name any node that counts and fits the pod, its own perhaps."""
        ...

    def nowhere_else(self, pod: Pod, selector: Selector) -> Nowhere:
        """Say why `elsewhere` found nothing; only to be asked right after it."""
        ...

    def nowhere(self, pod: Pod) -> Nowhere:
        """Say why `anywhere` found nothing; only to be asked right after it."""
        ...

    def begin(self, pod: Pod) -> None:
        """The pod is let go: the node last found for it will be needed."""
        ...

    def end(self, pod: Pod, *, evicted: bool) -> None:
        """The pod's eviction has its outcome."""
        ...

    def observe(self, changes: Iterable[Change]) -> None:
        """Take in what changed."""
        ...

    def news(self) -> Iterable[Room]:
        """Return, once, who of those that fitted nowhere may fit now."""
        ...

    def room_grew(self) -> None:
        """Any node may offer more now."""
        ...

    def restart(self) -> None:
        """Forget who fitted nowhere: nobody is waiting any more."""
        ...


class Fit:
    """Upstream's node fit over the live picture, node by node until one fits.

    Where none does, that is remembered per pod template until any node has more room, so that a
    thousand stuck siblings cost one search. Nothing is booked.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._hopeless: dict[tuple[int, str, str], tuple[PodSpec, WhyNot]] = {}
        self._last = WhyNot(0, Counter())

    def prepare(self) -> bool:
        """There is nothing to prepare: every search looks at the picture itself."""
        return True

    def room_grew(self) -> None:
        """Forget who fitted nowhere: some node offers more now."""
        self._hopeless.clear()

    def restart(self) -> None:
        """Forget who fitted nowhere."""
        self._hopeless.clear()

    def elsewhere(self, pod: Pod, selector: Selector) -> str | None:
        """Name a ready, selected node other than the pod's own that fits it."""
        others = (r for r in self._view.ready_rooms(selector) if r.name != pod.node)
        return self._search(pod, str(selector), others)

    def anywhere(self, pod: Pod) -> str | None:
        """Name any node that counts and fits the pod, its own included."""
        return self._search(pod, "*", self._view.rooms())

    def nowhere_else(self, pod: Pod, _: Selector) -> Nowhere:
        """Say so in upstream's words; any room could help."""
        return Nowhere(NO_OTHER_NODE, self._last, (ROOM, ("pod", pod.uid)))

    def nowhere(self, pod: Pod) -> Nowhere:
        """Say so; any room could help."""
        return Nowhere("no node fits the pod", self._last, (ROOM, ("pod", pod.uid)))

    def begin(self, _: Pod) -> None:
        """Upstream promises nothing to anybody."""

    def end(self, _: Pod, *, evicted: bool) -> None:
        """As for `begin`."""

    def observe(self, _: Iterable[Change]) -> None:
        """Who drives this tells of room by `room_grew`."""

    def news(self) -> Iterable[Room]:
        """Return nothing: those that fitted nowhere wait for any room."""
        return ()

    def fits(self, pod: Pod, room: NodeEntry) -> bool:
        """Say whether the pod fits one node."""
        return self._objection(pod, room) is None

    def _objection(self, pod: Pod, room: NodeEntry) -> str | None:
        if room.node is None:
            return "node is not known"
        return why_not(pod, room.node, room.requested, room.active.values())

    def _search(self, pod: Pod, scope: str, rooms: Iterable[NodeEntry]) -> str | None:
        key = (id(pod.spec), scope, pod.node)
        # Anti-affinity depends on more than the template, so only other pods share an answer.
        shareable = not pod.spec.anti_affinity
        if shareable and (known := self._hopeless.get(key)) is not None and known[0] is pod.spec:
            self._last = known[1]
            return None
        reasons: Counter[str] = Counter()
        for room in rooms:
            if (objection := self._objection(pod, room)) is None:
                return room.name
            reasons[objection] += 1
        self._last = WhyNot(reasons.total(), reasons)
        if shareable:
            if len(self._hopeless) >= REMEMBERED_TEMPLATES:
                self._hopeless.clear()
            self._hopeless[key] = pod.spec, self._last
        return None
