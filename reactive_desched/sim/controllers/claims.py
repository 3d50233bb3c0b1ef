"""Provisions a volume for every claim, at once and from anywhere."""

from typing import Final

from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.defaults import IN_USE
from reactive_desched.sim.objects import Obj, namespace_of
from reactive_desched.sim.pods import Key, is_terminal, is_terminating, key_of
from reactive_desched.sim.store import Event, Store

__all__ = ["Claims"]

_CLAIMS: Final = "persistentvolumeclaims"


class Claims(Reconciler):
    """Binds claims that name no volume to a new one that every node can reach.

    Storage classes and waiting for a first consumer are not simulated; a claim that names its
    volume is bound to that one, with whatever node affinity it has.
    """

    watches = frozenset({_CLAIMS, "pods"})

    def __init__(self, store: Store) -> None:
        super().__init__(store)

    def observe(self, event: Event) -> None:
        """Look at claims that are not bound or on their way out, also when a pod is."""
        if event.resource == "pods":
            if event.type == "DELETED" or is_terminal(event.object):
                for name in _claims_of(event.object):
                    self.soon((namespace_of(event.object), name))
            return
        claim = event.object
        is_settled = claim.get("status", {}).get("phase") == "Bound" and not is_terminating(claim)
        if event.type != "DELETED" and not is_settled:
            self.soon(key_of(claim))

    def reconcile(self, key: Key, now: float) -> None:
        """Bind one claim, or let it go once no pod uses it."""
        del now
        claim = self.store.get(_CLAIMS, *key)
        if claim is not None and is_terminating(claim):
            self._let_go(claim)
        elif claim is not None and claim["status"].get("phase") != "Bound":
            self._bind(claim)

    def _let_go(self, claim: Obj) -> None:
        namespace, name = key_of(claim)
        pods = self.store.list("pods", namespace)
        if any(name in _claims_of(pod) and not is_terminal(pod) for pod in pods):
            return
        finalizers = claim["metadata"].get("finalizers", ())
        if IN_USE in finalizers:
            meta = {**claim["metadata"], "finalizers": [f for f in finalizers if f != IN_USE]}
            self.store.modify(_CLAIMS, namespace, name, lambda now_: {**now_, "metadata": meta})

    def _bind(self, claim: Obj) -> None:
        key = key_of(claim)
        volume = claim["spec"].get("volumeName") or f"pvc-{claim['metadata']['uid']}"
        if self.store.get("persistentvolumes", "", volume) is None:
            self.store.create("persistentvolumes", _volume(claim, volume))
        claim = self.store.modify(_CLAIMS, *key, lambda current: _named(current, volume))
        spec = claim["spec"]
        capacity = spec.get("resources", {}).get("requests", {})
        status = {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": capacity}
        write_status(self.store, _CLAIMS, claim, status)


def _claims_of(pod: Obj) -> set[str]:
    volumes = pod["spec"].get("volumes") or ()
    return {
        v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v
    }


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
