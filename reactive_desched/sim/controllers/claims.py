"""Binds claims to volumes, makes volumes by the claims' classes, and lets go what is not used."""

from functools import partial
from typing import Final

from reactive_desched.model.resources import parse_amount
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.controllers.adoption import without_finalizer
from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.defaults import BOUND, IN_USE
from reactive_desched.sim.objects import Obj, labels_of, merged, name_of, namespace_of
from reactive_desched.sim.pods import Key, is_terminal, is_terminating, key_of
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.storage_classes import is_waiting_for_pod, makes_volumes
from reactive_desched.sim.store import DeleteOptions, Event, Store

__all__ = ["Claims"]

_CLAIMS: Final = "persistentvolumeclaims"
_VOLUMES: Final = "persistentvolumes"
_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_WITHOUT_NAMESPACE: Final = ""


class Claims(Reconciler):
    """Binds a claim to the volume that it names, to the smallest that suits it, or to a new one.

    A new one is made by any class with a provisioner, at once or when a pod of the claim has a
    node, and every node can reach it. Bounded by the claims and the volumes.
    """

    watches = frozenset({_CLAIMS, _VOLUMES, "storageclasses", "pods"})

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._recorder = Recorder(store, "persistentvolume-controller")
        self._pending: set[Key] = set()

    def observe(self, event: Event) -> None:
        """Look at claims that are not bound or on their way out, also when a pod is."""
        match event.resource:
            case "pods":
                if event.type == "DELETED" or is_terminal(event.object):
                    for name in _claims_of(event.object):
                        self.soon((namespace_of(event.object), name))
            case "storageclasses":
                self._look_at_pending()
            case "persistentvolumes":
                self.soon(key_of(event.object))
                self._look_at_pending()
            case _:
                self._observe_claim(event)

    def _observe_claim(self, event: Event) -> None:
        claim = event.object
        if event.type == "DELETED":
            self._pending.discard(key_of(claim))
            if volume := claim["spec"].get("volumeName"):
                self.soon((_WITHOUT_NAMESPACE, volume))
        elif claim.get("status", {}).get("phase") != "Bound" or is_terminating(claim):
            self.soon(key_of(claim))

    def _look_at_pending(self) -> None:
        for key in self._pending:
            self.soon(key)

    def reconcile(self, key: Key, now: float) -> None:
        """Bind one claim, or let it go once no pod uses it; or look after one volume."""
        del now
        if key[0] == _WITHOUT_NAMESPACE:
            self._look_after(key[1])
            return
        claim = self.store.get(_CLAIMS, *key)
        self._pending.discard(key)
        if claim is not None and is_terminating(claim):
            self._let_go(claim)
        elif claim is not None and claim["status"].get("phase") != "Bound":
            if (volume := self._volume_for(claim)) is None:
                self._pending.add(key)
            else:
                self._bind(claim, volume)

    def _look_after(self, name: str) -> None:
        """Say whether a volume is free; one whose claim is gone is deleted, or kept as released."""
        volume = self.store.get(_VOLUMES, _WITHOUT_NAMESPACE, name)
        if volume is None or self._has_claim(volume):
            return
        if is_terminating(volume):
            self.store.modify(
                _VOLUMES, *key_of(volume), partial(without_finalizer, finalizer=BOUND)
            )
        elif not (volume["spec"].get("claimRef") or {}).get("uid"):
            self._set_phase(volume, "Available")
        elif volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self.store.delete(_VOLUMES, _WITHOUT_NAMESPACE, name, DeleteOptions())
        else:
            self._set_phase(volume, "Released")

    def _has_claim(self, volume: Obj) -> bool:
        reference = volume["spec"].get("claimRef") or {}
        claim = self.store.get(_CLAIMS, reference.get("namespace", ""), reference.get("name", ""))
        return claim is not None and claim["metadata"]["uid"] == reference.get("uid")

    def _set_phase(self, volume: Obj, phase: str) -> None:
        if volume.get("status", {}).get("phase") != phase:
            status = {"phase": phase, "lastPhaseTransitionTime": rfc3339(self.store.clock.now())}
            write_status(self.store, _VOLUMES, volume, status)

    def _let_go(self, claim: Obj) -> None:
        namespace, name = key_of(claim)
        pods = self.store.list("pods", namespace)
        if any(name in _claims_of(pod) and not is_terminal(pod) for pod in pods):
            return
        self.store.modify(_CLAIMS, namespace, name, partial(without_finalizer, finalizer=IN_USE))

    def _volume_for(self, claim: Obj) -> Obj | None:
        """Return the volume of a claim; None while there is none for it, which an Event says."""
        spec = claim["spec"]
        if name := spec.get("volumeName"):
            found = self.store.get(_VOLUMES, _WITHOUT_NAMESPACE, name)
            return found if found is not None and _is_free_for(found, claim) else None
        name = spec.get("storageClassName", "")
        storage_class = self.store.get("storageclasses", _WITHOUT_NAMESPACE, name) if name else None
        if storage_class is not None and is_waiting_for_pod(storage_class, claim):
            note = "waiting for first consumer to be created before binding"
            self._recorder.normal(claim, "WaitForFirstConsumer", "Binding", note)
            return None
        suiting = [each for each in self.store.list(_VOLUMES) if _suits(each, claim)]
        if suiting:
            return min(suiting, key=lambda each: (_size(each["spec"]["capacity"]), name_of(each)))
        if storage_class is not None and makes_volumes(storage_class):
            return self.store.create(_VOLUMES, _new_volume(claim, storage_class))
        if storage_class is None and name:
            note = f'storageclass.storage.k8s.io "{name}" not found'
            self._recorder.warning(claim, "ProvisioningFailed", "Provisioning", note)
        else:
            note = "no persistent volumes available for this claim and no storage class is set"
            self._recorder.normal(claim, "FailedBinding", "Binding", note)
        return None

    def _bind(self, claim: Obj, volume: Obj) -> None:
        is_ours = not claim["spec"].get("volumeName")
        reference = _reference_to(claim)
        named = volume["spec"].get("claimRef") is not None
        marks = {} if named else {_BY_CONTROLLER: "yes"}

        def taken(current: Obj) -> Obj:
            spec = {**current["spec"], "claimRef": reference}
            return {**_annotated(current, marks), "spec": spec}

        name = name_of(volume)
        volume = self.store.modify(_VOLUMES, _WITHOUT_NAMESPACE, name, taken)
        self._set_phase(volume, "Bound")
        marks = {_COMPLETED: "yes", **({_BY_CONTROLLER: "yes"} if is_ours else {})}

        def bound(current: Obj) -> Obj:
            spec = {**current["spec"], "volumeName": name}
            return {**_annotated(current, marks), "spec": spec}

        claim = self.store.modify(_CLAIMS, *key_of(claim), bound)
        has = volume["spec"]
        status = {
            "phase": "Bound",
            "accessModes": has.get("accessModes"),
            "capacity": has.get("capacity"),
        }
        write_status(self.store, _CLAIMS, claim, status)


def _claims_of(pod: Obj) -> set[str]:
    volumes = pod["spec"].get("volumes") or ()
    return {
        v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v
    }


def _annotated(obj: Obj, marks: Obj) -> Obj:
    meta = obj["metadata"]
    annotations = {**(meta.get("annotations") or {}), **marks}
    return {**obj, "metadata": merged(meta, annotations=annotations or None)}


def _is_free_for(volume: Obj, claim: Obj) -> bool:
    """Say whether no other claim has the volume."""
    reference, meta = volume["spec"].get("claimRef"), claim["metadata"]
    if is_terminating(volume) or reference is None:
        return reference is None
    same = (reference.get("namespace"), reference.get("name")) == key_of(claim)
    return same and reference.get("uid") in (None, "", meta["uid"])


def _suits(volume: Obj, claim: Obj) -> bool:
    has, wants = volume["spec"], claim["spec"]
    if not _is_free_for(volume, claim) or is_terminating(volume):
        return False
    selector = (wants.get("selector") or {}).get("matchLabels") or {}
    return (
        has.get("storageClassName", "") == wants.get("storageClassName", "")
        and has.get("volumeMode", "Filesystem") == wants.get("volumeMode", "Filesystem")
        and set(wants.get("accessModes") or ()) <= set(has.get("accessModes") or ())
        and _size(has.get("capacity")) >= _size(wants.get("resources", {}).get("requests"))
        and bool(selector.items() <= labels_of(volume).items())
    )


def _size(amounts: Obj | None) -> int:
    return parse_amount("storage", str((amounts or {}).get("storage", "0")))


def _reference_to(claim: Obj) -> Obj:
    meta = claim["metadata"]
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    fields = ("namespace", "name", "uid", "resourceVersion")
    return reference | {field: meta[field] for field in fields}


def _new_volume(claim: Obj, storage_class: Obj) -> Obj:
    spec = claim["spec"]
    provisioner = storage_class.get("provisioner", "")
    annotations = {"pv.kubernetes.io/provisioned-by": provisioner}
    return {
        "metadata": {"name": f"pvc-{claim['metadata']['uid']}", "annotations": annotations},
        "spec": {
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "capacity": spec.get("resources", {}).get("requests", {}),
            "claimRef": _reference_to(claim),
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": name_of(storage_class),
            "volumeMode": spec.get("volumeMode", "Filesystem"),
        },
    }
