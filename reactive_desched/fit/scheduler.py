"""Is there really somewhere else? The kube-scheduler's answer, with promised room counted in."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from reactive_desched.fit.bits import slots_in
from reactive_desched.fit.filters import Search, WhyNot
from reactive_desched.fit.node_sets import Nodes
from reactive_desched.fit.unschedulable import LOOK_AGAIN_S, Base, Stuck
from reactive_desched.fit.upstream import Nowhere
from reactive_desched.model.changes import Change, PodBound
from reactive_desched.model.decisions import Room, WakeKey
from reactive_desched.model.labels import Selector
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.state.view import ClusterView

NODES_AT_A_TIME: Final = 200
"""How many nodes are looked at again before others get their turn: well under a millisecond."""


ANYWHERE: Final = "*"
"""The scope of `anywhere`; that of `elsewhere` is the text of its selector."""


class SchedulerFit:
    """The kube-scheduler's filters over the live picture; see `NodeSearch`.

    Readiness is as upstream's: `elsewhere` looks at ready nodes, `anywhere` at those that count.
    Nodes are followed from the first question on. `clock` gives monotonic seconds.
    """

    def __init__(self, view: ClusterView, clock: Callable[[], float]) -> None:
        self._view = view
        self._clock = clock
        self._nodes = Nodes(view)
        self._search = Search(self._nodes, view)
        self._stuck = Stuck(self._nodes, self._search)
        self._found: tuple[PodKey, str] | None = None

    # --- questions ---

    def prepare(self) -> bool:
        """Look again at some of the nodes that were touched; say whether none is left."""
        self._nodes.bookings.expire(self._clock())
        self._catch_up(NODES_AT_A_TIME)
        return not self._nodes.behind

    def elsewhere(self, pod: Pod, selector: Selector) -> str | None:
        """Name a ready, selected node other than the pod's own that fits it."""
        self._catch_up()
        among = self._others(pod, self._ready(selector))
        return self._told(pod, str(selector), self._search.find(pod, among))

    def anywhere(self, pod: Pod) -> str | None:
        """Name a node that counts and fits the pod, its own if no other does."""
        self._catch_up()
        counting = self._nodes.counting
        found = self._search.find(pod, self._others(pod, counting))
        if found is None:
            found = self._search.find(pod, counting)
        return self._told(pod, ANYWHERE, found)

    def nowhere_else(self, pod: Pod, selector: Selector) -> Nowhere:
        """Say what the other nodes lack, and what could help."""
        among = self._others(pod, self._ready(selector))
        found = self._refuse(pod, str(selector), among, lambda: self._ready(selector))
        return replace(found, reason=f"no other node fits the pod: {found.reason}")

    def nowhere(self, pod: Pod) -> Nowhere:
        """Say what the nodes lack, and what could help, the pod's own node in particular."""
        among = self._nodes.counting
        own = ("node", pod.node)
        found = self._refuse(pod, ANYWHERE, among, lambda: self._nodes.counting, own)
        return replace(found, reason=f"no node fits the pod: {found.reason}")

    def fitting(self, pod: Pod) -> set[str]:
        """Name every node that fits the pod, ready or not, its own included."""
        self._catch_up()
        fitting = self._search.fitting(pod, self._nodes.existing)
        return {self._nodes.name(slot) for slot in slots_in(fitting)}

    def why_not_all(self, pod: Pod) -> WhyNot:
        """Count why nodes, ready or not, do not fit the pod."""
        self._catch_up()
        return self._search.why_not(pod, self._nodes.existing)

    # --- bookings and news ---

    def begin(self, pod: Pod) -> None:
        """Book room for the pod's replacement on the node that was just found for it."""
        if self._found is not None and self._found[0] == pod.uid:
            self._nodes.bookings.book(pod, self._found[1], self._clock())

    def end(self, pod: Pod, *, evicted: bool) -> None:
        """Give the room up again if the pod stays where it is."""
        if not evicted:
            self._nodes.bookings.drop(pod.uid)

    def observe(self, changes: Iterable[Change]) -> None:
        """Let replacements take up what is booked for them; find out whom the changes help."""
        bookings = self._nodes.bookings
        if len(bookings):
            bookings.expire(self._clock())
            for change in changes:
                if isinstance(change, PodBound):
                    bookings.landed(change.pod)
        self._stuck.observe(changes)

    def news(self) -> Iterable[Room]:
        """Return, once, who of those that fitted nowhere may fit now."""
        if not len(self._stuck):
            return ()
        self._catch_up()
        return self._stuck.news()

    def room_grew(self) -> None:
        """Take no notice: nodes are followed one by one."""

    def restart(self) -> None:
        """Forget who fitted nowhere; what is booked stays booked."""
        self._stuck.clear()

    # --- inside ---

    def _catch_up(self, most: int | None = None) -> None:
        if not self._nodes.behind:
            return
        refreshed = self._nodes.catch_up(most)
        for changed in refreshed:
            self._search.storage.forget(changed.slot)
        if len(self._stuck):
            self._stuck.look(refreshed)

    def _ready(self, selector: Selector) -> int:
        return self._nodes.labels.selected(selector, self._nodes.ready)

    def _others(self, pod: Pod, among: int) -> int:
        own = self._nodes.number(pod.node)
        return among if own is None else among & ~(1 << own)

    def _told(self, pod: Pod, scope: str, slot: int | None) -> str | None:
        if slot is None:
            self._found = None
            return None
        self._stuck.found(scope, pod)
        name = self._nodes.name(slot)
        self._found = pod.uid, name
        return name

    def _refuse(self, pod: Pod, scope: str, among: int, base: Base, *wakes: WakeKey) -> Nowhere:
        why, now = self._search.why_not(pod, among), self._clock()
        wake = self._stuck.refused(scope, pod, base, why.reasons, now)
        until, booked_until = now + LOOK_AGAIN_S, self._nodes.bookings.next_end()
        if booked_until is not None:
            until = min(until, booked_until)
        lacks = ", ".join(sorted(why.reasons)) or "there are none"
        wakes = (wake, ("pod", pod.uid), *wakes, *self._about_volumes(pod))
        return Nowhere(lacks, why, wakes, until)

    def _about_volumes(self, pod: Pod) -> Iterator[WakeKey]:
        """Name what stands behind the pod's claims, and who else holds one that serves one pod."""
        for name in pod.claims:
            yield "claim", f"{pod.namespace}/{name}"
            claim = self._view.claim(pod.namespace, name)
            if claim is not None and claim.volume:
                yield "volume", claim.volume
            if claim is not None and claim.exclusive:
                others = self._search.storage.other_users(pod, name)
                yield from (("pod", other.uid) for other in others)
