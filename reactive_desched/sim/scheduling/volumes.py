"""Keeps what a scheduler asks of storage: where volumes are reached, which claims wait for it."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.model.node_affinity import NodeSelector
from reactive_desched.sim.objects import Obj, labels_of, name_of
from reactive_desched.sim.pods import Key, key_of
from reactive_desched.sim.scheduling.filters import Candidate, Check, Unresolvable
from reactive_desched.sim.scheduling.scheduler_cache import NodeRoom
from reactive_desched.sim.storage_classes import is_waiting_for_pod

__all__ = ["VolumeBook"]

_PLACES: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_NO_AFFINITY: Final = (Unresolvable("node(s) didn't match PersistentVolume's node affinity"),)
_NO_ZONE: Final = (Unresolvable("node(s) had no available volume zone"),)
_UNBOUND: Final = (Unresolvable("pod has unbound immediate PersistentVolumeClaims"),)


class _Volume(Struct, frozen=True):
    selector: NodeSelector | None
    places: Mapping[str, frozenset[str]]

    def objections(self, room: NodeRoom) -> Iterable[str]:
        """Return why the volume cannot be reached from a node."""
        if self.selector is not None and not self.selector.matches(room.name, room.labels):
            return _NO_AFFINITY
        # A node that names no place at all is not asked for one.
        if not any(key in room.labels for key in _PLACES):
            return ()
        for key, values in self.places.items():
            if room.labels.get(key) not in values:
                return _NO_ZONE
        return ()


class VolumeBook:
    """Claims and volumes as they are now; bounded by what exists."""

    def __init__(self) -> None:
        self._claims: dict[Key, Obj] = {}
        self._classes: dict[str, Obj] = {}
        self._volumes: dict[str, _Volume] = {}

    def see_claim(self, claim: Obj, *, gone: bool = False) -> None:
        """Take note of a claim."""
        if gone:
            self._claims.pop(key_of(claim), None)
        else:
            self._claims[key_of(claim)] = claim

    def see_class(self, storage_class: Obj, *, gone: bool = False) -> None:
        """Take note of a storage class."""
        if gone:
            self._classes.pop(name_of(storage_class), None)
        else:
            self._classes[name_of(storage_class)] = storage_class

    def waiting(self, pod: Candidate) -> list[Obj]:
        """Return the claims of a pod that get their volume when it has a node."""
        found = (self._claims.get((pod.namespace, name)) for name in pod.needs.claims)
        return [claim for claim in found if claim is not None and self._waits(claim)]

    def _waits(self, claim: Obj) -> bool:
        spec = claim["spec"]
        storage_class = self._classes.get(spec.get("storageClassName", ""))
        is_bound = bool(spec.get("volumeName"))
        return (
            not is_bound and storage_class is not None and is_waiting_for_pod(storage_class, claim)
        )

    def see_volume(self, volume: Obj, *, gone: bool = False) -> None:
        """Take note of a volume."""
        if gone:
            self._volumes.pop(name_of(volume), None)
        else:
            self._volumes[name_of(volume)] = _read(volume)

    def filter(self, pod: Candidate) -> Check | None:
        """Keep the pod where its bound volumes can be reached; unbound or lost claims hold it."""
        if not pod.needs.claims:
            return None
        volumes: list[_Volume] = []
        for claim in pod.needs.claims:
            found = self._claims.get((pod.namespace, claim))
            if found is None:
                return _always((Unresolvable(f'persistentvolumeclaim "{claim}" not found'),))
            if self._waits(found):
                continue
            volume = self._volumes.get(found.get("spec", {}).get("volumeName") or "")
            if volume is None:
                return _always(_UNBOUND)
            volumes.append(volume)
        return lambda room: [why for volume in volumes for why in volume.objections(room)]


def _always(reasons: tuple[str, ...]) -> Check:
    return lambda _: reasons


def _read(volume: Obj) -> _Volume:
    required = (volume.get("spec", {}).get("nodeAffinity") or {}).get("required")
    labels = labels_of(volume)
    return _Volume(
        selector=None if required is None else msgspec.convert(required, NodeSelector),
        places={key: frozenset(labels[key].split("__")) for key in _PLACES if key in labels},
    )
