"""Who fitted nowhere, and which news could help them.

As the kube-scheduler's queueing hints: pods that ask for the same are one group. A group is
woken when a node opens to it that was closed, and by as many pods as the node has places. What
other pods or volumes forbid is not looked into here: those groups are woken whole when anybody
they look at comes, goes or differs.
"""

from collections.abc import Callable, Iterable
from typing import Final

from reactive_desched.fit.affinity_wakes import Heeding
from reactive_desched.fit.filters import Search
from reactive_desched.fit.free_amounts import demands
from reactive_desched.fit.node_sets import Nodes, Refreshed
from reactive_desched.fit.pod_affinity import NO_COMPANY, REPELLED, UNWELCOME_COMPANY
from reactive_desched.model.changes import (
    Change,
    NamespaceChanged,
    PodBound,
    PodGone,
    PodLabelsChanged,
    PodTerminating,
)
from reactive_desched.model.decisions import Room, WakeKey
from reactive_desched.model.objects import Pod, PodSpec
from reactive_desched.model.scheduling import closed
from reactive_desched.model.spread import UNEVEN, UNLABELLED
from reactive_desched.model.volumes import NO_ZONE, NOT_REACHABLE, TOO_MANY_VOLUMES

MOST_GROUPS: Final = 4_000
"""Groups remembered; at the bound the one refused longest ago is forgotten, and its pods look
again when their time is over."""

LOOK_AGAIN_S: Final = 300.0
"""Whoever fits nowhere looks again after this, whatever happens, as the kube-scheduler does."""

FORGOTTEN_AFTER_S: Final = LOOK_AGAIN_S + 60.0
"""By then everybody in a group has looked again, or has gone."""

_BY_NEIGHBOURS: Final = frozenset({NO_COMPANY, UNWELCOME_COMPANY, REPELLED, UNEVEN, UNLABELLED})
_BY_PLACE: Final = frozenset({NOT_REACHABLE, NO_ZONE})

Key = tuple[str, int, int, str, tuple[str, ...]]
Base = Callable[[], int]
"""The slots that come into question, as they are now."""


class Offer:
    """What the nodes offer to pods of one spec, and the groups of such pods.

    `standing` are the slots open to them whatever sits there, `open` those with room as well.
    """

    __slots__ = ("base", "groups", "open", "spec", "standing", "wanted")

    def __init__(self, spec: PodSpec, base: Base) -> None:
        self.spec = spec
        self.base = base
        self.wanted = demands(spec.requests)
        self.standing = self.open = 0
        self.groups: dict[Key, Group] = {}


class Group:
    """Pods that ask for the same and fitted nowhere; `lacks` is why, the last time."""

    __slots__ = ("lacks", "offer", "pod", "refused_at", "wake")

    def __init__(self, pod: Pod, offer: Offer, wake: WakeKey) -> None:
        self.pod = pod
        self.offer = offer
        self.wake = wake
        self.lacks: frozenset[str] = frozenset()
        self.refused_at = 0.0

    @property
    def heeds_neighbours(self) -> bool:
        """Say whether other pods kept some node from them."""
        return not self.lacks.isdisjoint(_BY_NEIGHBOURS)

    @property
    def heeds_nodes(self) -> bool:
        """Say whether any change of a node's labels or taints could help them."""
        return self.heeds_neighbours or not self.lacks.isdisjoint(_BY_PLACE)


class Stuck:
    """The groups, in the order in which they were last refused; tells the news when asked."""

    def __init__(self, nodes: Nodes, search: Search) -> None:
        self._nodes = nodes
        self._search = search
        self._offers: dict[tuple[str, int], Offer] = {}
        self._groups: dict[Key, Group] = {}
        self._heeding: Heeding[Key] = Heeding(search.neighbours)
        self._news: dict[tuple[WakeKey, str], Room] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._groups)

    def clear(self) -> None:
        """Forget everybody."""
        self._offers.clear()
        self._groups.clear()
        self._heeding = Heeding(self._search.neighbours)
        self._news.clear()

    def news(self) -> list[Room]:
        """Return, once, who may fit somewhere now."""
        told = list(self._news.values())
        self._news.clear()
        return told

    def refused(
        self, scope: str, pod: Pod, base: Base, lacks: Iterable[str], now: float
    ) -> WakeKey:
        """Take in that a pod fits nowhere in a scope; returns what to wait for."""
        key = key_of(scope, pod)
        group = self._groups.pop(key, None) or self._begin(key, pod, base)
        self._groups[key] = group
        group.lacks, group.refused_at = frozenset(lacks), now
        if group.heeds_neighbours:
            self._heeding.add(key, group.pod)
        else:
            self._heeding.discard(key)
        self._forget_old(now)
        return group.wake

    def found(self, scope: str, pod: Pod) -> None:
        """A pod fits somewhere: perhaps another one of its group does too."""
        if (group := self._groups.get(key_of(scope, pod))) is not None:
            self._tell(Room(group.wake, 1))

    def look(self, refreshed: Iterable[Refreshed]) -> None:
        """Find out to whom these slots have opened."""
        for changed in refreshed:
            bit = 1 << changed.slot
            for offer in self._offers.values():
                if changed.stands_otherwise:
                    self._stand(offer, changed.slot)
                was = offer.open & bit
                if was or changed.grew or changed.stands_otherwise:
                    self._reopen(offer, changed.slot, was)

    def observe(self, changes: Iterable[Change]) -> None:
        """Wake the groups to which a change of pods or namespaces matters."""
        if not len(self._heeding):
            return
        for change in changes:
            match change:
                case PodBound(pod=pod) | PodGone(pod=pod) | PodTerminating(pod=pod):
                    self._wake(self._heeding.concerned(pod))
                case PodLabelsChanged() | NamespaceChanged():
                    self._wake(self._heeding)
                case _:
                    pass

    def _wake(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._tell(Room(self._groups[key].wake))

    def _begin(self, key: Key, pod: Pod, base: Base) -> Group:
        offer = self._offers.get(key[:2])
        if offer is None:
            offer = self._offers[key[:2]] = Offer(pod.spec, base)
            offer.standing = self._search.standing(pod, base())
            offer.open = self._search.roomy(pod, offer.standing)
        self._count += 1
        group = offer.groups[key] = Group(pod, offer, ("room", str(self._count)))
        return group

    def _stand(self, offer: Offer, slot: int) -> None:
        """Find out anew whether a slot is open to a spec whatever sits there."""
        node, bit = self._nodes.node(slot), 1 << slot
        is_open = node is not None and offer.base() & bit != 0 and closed(offer.spec, node) is None
        offer.standing = offer.standing | bit if is_open else offer.standing & ~bit
        for group in offer.groups.values():
            if group.heeds_nodes:
                self._tell(Room(group.wake))

    def _reopen(self, offer: Offer, slot: int, was: int) -> None:
        bit = 1 << slot
        has_room = offer.standing & bit != 0 and self._search.has_room(
            offer.spec, offer.wanted, slot
        )
        offer.open = offer.open | bit if has_room else offer.open & ~bit
        for group in offer.groups.values() if has_room else ():
            if not was or TOO_MANY_VOLUMES in group.lacks:
                self._tell(self._room_in(group, slot))

    def _room_in(self, group: Group, slot: int) -> Room:
        """Return the news of a slot; those who heed others must all look for themselves."""
        if group.heeds_neighbours or group.pod.claims:
            return Room(group.wake)
        amounts = self._nodes.amounts
        places = min(amounts.of(what, slot) // wanted for what, wanted in group.offer.wanted)
        return Room(group.wake, places, self._nodes.name(slot))

    def _tell(self, room: Room) -> None:
        """Keep the news until it is asked for; of one node the latest counts."""
        known = self._news.get((room.wake, room.beside))
        if known is None or known.places is not None:
            self._news[room.wake, room.beside] = room

    def _forget_old(self, now: float) -> None:
        while self._groups:
            key, group = next(iter(self._groups.items()))
            if len(self._groups) <= MOST_GROUPS and now - group.refused_at < FORGOTTEN_AFTER_S:
                return
            del self._groups[key], group.offer.groups[key]
            self._heeding.discard(key)
            if not group.offer.groups:
                del self._offers[key[:2]]


def key_of(scope: str, pod: Pod) -> Key:
    """Tell groups apart: by scope and spec, and by what else other pods or volumes look at."""
    return scope, id(pod.spec), id(pod.labels), pod.namespace, pod.claims
