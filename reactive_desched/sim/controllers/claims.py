"""Provisions a volume for every claim, at once and from anywhere."""

from typing import Final

from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.pods import Key, is_terminating, key_of
from reactive_desched.sim.store import Event, Store

__all__ = ["Claims"]

_CLAIMS: Final = "persistentvolumeclaims"


class Claims(Reconciler):
    """Binds claims that name no volume to a new one that every node can reach.

    Storage classes and waiting for a first consumer are not simulated; a claim that names its
    volume is bound to that one, with whatever node affinity it has.
    """

    watches = frozenset({_CLAIMS})

    def __init__(self, store: Store) -> None:
        super().__init__(store)

    def observe(self, event: Event) -> None:
        """Look at claims that are not bound."""
        if event.type != "DELETED" and event.object.get("status", {}).get("phase") != "Bound":
            self.soon(key_of(event.object))

    def reconcile(self, key: Key, now: float) -> None:
        """Bind one claim."""
        del now
        claim = self.store.get(_CLAIMS, *key)
        if claim is None or is_terminating(claim) or claim["status"].get("phase") == "Bound":
            return
        volume = claim["spec"].get("volumeName") or f"pvc-{claim['metadata']['uid']}"
        if self.store.get("persistentvolumes", "", volume) is None:
            self.store.create("persistentvolumes", _volume(claim, volume))
        claim = self.store.modify(_CLAIMS, *key, lambda current: _named(current, volume))
        spec = claim["spec"]
        capacity = spec.get("resources", {}).get("requests", {})
        status = {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": capacity}
        write_status(self.store, _CLAIMS, claim, status)


def _named(claim: Obj, volume: str) -> Obj:
    return {**claim, "spec": {**claim["spec"], "volumeName": volume}}


def _volume(claim: Obj, name: str) -> Obj:
    spec, meta = claim["spec"], claim["metadata"]
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    reference |= {field: meta[field] for field in ("name", "namespace", "uid")}
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "capacity": spec.get("resources", {}).get("requests", {}),
            "claimRef": reference,
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.get("storageClassName", ""),
        },
    }
