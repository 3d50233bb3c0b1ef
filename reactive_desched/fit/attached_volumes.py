"""Keeps which volumes each node has attached, and finds the nodes that can attach more of them."""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, TypeAlias

from reactive_desched.fit.free_amounts import FreeResources
from reactive_desched.fit.node_sets import NodeSets
from reactive_desched.model.objects import CSINode, PersistentVolume, Pod
from reactive_desched.primitives.bits import with_bit
from reactive_desched.primitives.uid_parts import UidParts
from reactive_desched.state.cluster import ClusterView

Attached: TypeAlias = dict[str, set[str]]
"""Volumes by driver, as the drivers call them."""

_NONE: Final[Attached] = {}
_NO_HANDLES: Final[AbstractSet[str]] = frozenset()
_UNLIMITED: Final = 2**31
_AT_ONCE: Final = 10
"""The volumes of so many nodes, a dozen each, are read in half a millisecond."""


class AttachedVolumes:
    """The volumes attached in each slot, by the drivers that limit their number there.

    What a slot has is read again when it is asked for after `invalidate`; `volumes_of` returns the
    volumes that a pod's claims are bound to.
    """

    def __init__(
        self,
        nodes: NodeSets,
        view: ClusterView,
        volumes_of: Callable[[Pod], Iterable[PersistentVolume | None]],
    ) -> None:
        self._nodes = nodes
        self._view = view
        self._volumes_of = volumes_of
        self._unread: dict[int, None] = {}
        self._attached: dict[int, Attached] = {}
        self._slots_by_handle: UidParts[tuple[int, ...]] = UidParts()
        """Where each is attached: a slot for each driver that calls a volume so."""
        self._room = FreeResources()
        self._slots = 0

    def invalidate(self, slot: int) -> None:
        """Note that other volumes may be attached in a slot, or more of them may be."""
        while self._slots <= slot:
            self._room.add_slot()
            self._slots += 1
        self._unread[slot] = None

    def follow(self) -> Iterator[None]:
        """Read what the slots have that were invalidated, one in each step."""
        while self._unread:
            self._read(self._unread.popitem()[0])
            yield

    def by_driver(self, pods: Iterable[Pod]) -> Attached:
        """Return the volumes of pods."""
        found: Attached = {}
        for pod in pods:
            for volume in self._volumes_of(pod):
                if volume is not None and volume.driver:
                    found.setdefault(volume.driver, set()).add(volume.volume_handle)
        return found

    def over_limit(self, wanted: Attached, among: int) -> int:
        """Return in which of the slots these volumes are too many for a driver.

        Those that are attached there already are none more.
        """
        self._read_changed()
        found = 0
        for driver, handles in wanted.items():
            if not self._room.tracks(driver):
                continue
            short = among & ~self._room.with_at_least(driver, len(handles))
            for slot in self._slots_with_any(handles) if short else ():
                if short >> slot & 1 and not self._lacks_room(slot, driver, handles):
                    short = with_bit(short, slot, present=False)
            found |= short
        return found

    def exceeds(self, wanted: Attached, slot: int, coming: Attached) -> bool:
        """Say the same of one slot, where other volumes are attached first."""
        self._read_changed()
        return any(
            self._lacks_room(slot, driver, handles, coming.get(driver, _NO_HANDLES))
            for driver, handles in wanted.items()
        )

    def _slots_with_any(self, handles: Iterable[str]) -> Iterator[int]:
        return chain.from_iterable(self._slots_by_handle.get(each) or () for each in handles)

    def _lacks_room(
        self,
        slot: int,
        driver: str,
        handles: AbstractSet[str],
        coming: AbstractSet[str] = _NO_HANDLES,
    ) -> bool:
        if not self._room.tracks(driver):
            return False
        there = self._attached.get(slot, _NONE).get(driver, _NO_HANDLES)
        first = coming - there
        more = len(handles - there - first)
        return bool(more) and self._room.free_in(driver, slot) < len(first) + more

    def _read_changed(self) -> None:
        if len(self._unread) > _AT_ONCE:
            self._nodes.labels.await_steps(self.follow())
        for _ in self.follow():
            pass

    def _read(self, slot: int) -> None:
        csi_node = self._view.store(CSINode).get(self._nodes.name(slot))
        limits = {} if csi_node is None else csi_node.attach_limits
        for driver in limits:
            if not self._room.tracks(driver):
                self._room.track(driver, [_UNLIMITED] * self._slots)
        there = self.by_driver(self._pods_with_claims(slot)) if limits else _NONE
        self._replace(slot, {driver: there.get(driver, set()) for driver in limits})
        self._room.update(
            slot,
            {driver: limits.get(driver, _UNLIMITED) for driver in self._room.resources},
            [{driver: len(handles) for driver, handles in there.items()}],
        )

    def _replace(self, slot: int, now: Attached) -> None:
        before = self._attached.pop(slot, _NONE)
        if now:
            self._attached[slot] = now
        for driver in {*before, *now}:
            old, new = before.get(driver, _NO_HANDLES), now.get(driver, _NO_HANDLES)
            for handle in old - new:
                part = self._slots_by_handle.part(handle)
                slots = list(part.pop(handle))
                slots.remove(slot)
                if slots:
                    part[handle] = tuple(slots)
            for handle in new - old:
                part = self._slots_by_handle.part(handle)
                part[handle] = (*part.get(handle, ()), slot)

    def _pods_with_claims(self, slot: int) -> Iterator[Pod]:
        """Return the pods with claims in a slot, and those with a reservation there."""
        entry = self._nodes.node_info(slot)
        if entry is not None:
            vacated = self._nodes.vacated
            there = (pod for pod in entry.active.values() if pod.pvc_names)
            yield from (pod for pod in there if pod.uid not in vacated)
            yield from (
                reservation.pod for reservation in self._nodes.reservations.on_node(entry.name)
            )
