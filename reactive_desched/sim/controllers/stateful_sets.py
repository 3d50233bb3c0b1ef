"""Keeps pods that have names: in order, and never two of the same name."""

from collections.abc import Callable, Sequence
from typing import Final

from reactive_desched.sim.controllers.adoption import claim, selecting
from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.controllers.pod_control import CREATED, DELETED, RETRY_S, PodControl
from reactive_desched.sim.controllers.revisions import REVISION, Revisions, as_of, revision_name
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.objects import Obj, clone, labels_of, merged, name_of, namespace_of
from reactive_desched.sim.pods import (
    Key,
    controller_of,
    from_template,
    is_active,
    is_available,
    is_ready,
    is_terminal,
    is_terminating,
    key_of,
    ready_since,
    reference_to,
)
from reactive_desched.sim.store import Event, Store

__all__ = ["StatefulSets", "stateful_pod"]

_DELETE: Final = "Delete"


class StatefulSets(Reconciler):
    """Waits for the old pod to be gone before its name is used again."""

    watches = frozenset({"statefulsets", "pods"})

    def __init__(self, store: Store, index: PodIndex, pods: PodControl) -> None:
        super().__init__(store)
        self._index = index
        self._pods = pods
        self._revisions = Revisions(store)

    def observe(self, event: Event) -> None:
        """Look again at the set that changed, or whose pod did."""
        if event.resource == "statefulsets":
            self.soon(key_of(event.object))
            return
        owner = controller_of(event.object)
        if owner is not None and owner["kind"] == "StatefulSet":
            self.soon((namespace_of(event.object), owner["name"]))
        for key in selecting(self.store, "statefulsets", event):
            self.soon(key)

    def reconcile(self, key: Key, now: float) -> None:
        """Take the next step in order, and report."""
        found = self.store.get("statefulsets", *key)
        if found is None:
            return
        if not is_terminating(found):
            used = {str(labels_of(pod).get(REVISION)) for pod in self._owned(found)}
            current = str(found.get("status", {}).get("currentRevision"))
            self._revisions.keep(found, {*used, current})
            self._advance(_View(found, self._owned(found), now))
        self._report(_View(found, self._owned(found), now))

    def _owned(self, owner: Obj) -> Sequence[Obj]:
        candidates = self._index.claimable_by(owner)
        fits: Callable[[Obj], bool] = lambda pod: _ordinal(owner, pod) is not None  # noqa: E731 -- a short question
        return claim(self.store, "pods", owner, candidates, fits=fits)

    def _advance(self, view: "_View") -> None:
        """Fill the places in order, then shrink from the end, then update from the end."""
        self._wake_when_available(view)
        self._retain_claims(view)
        if self._fill(view) and self._shrink(view):
            self._update(view)

    def _retain_claims(self, view: "_View") -> None:
        """Give claims the owner with which they go: the set, or a pod that is too many."""
        policy = view.owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        if _DELETE not in policy.values():
            return
        namespace, own_uid = namespace_of(view.owner), view.owner["metadata"]["uid"]
        for ordinal, pod in view.pods.items():
            owner = view.owner if policy.get("whenDeleted") == _DELETE else None
            if ordinal not in view.places and policy.get("whenScaled") == _DELETE:
                owner = pod
            for template in view.owner["spec"].get("volumeClaimTemplates") or ():
                name = f"{template['metadata']['name']}-{name_of(pod)}"
                claim = self.store.get("persistentvolumeclaims", namespace, name)
                if claim is not None:
                    self._own_claim(claim, owner, own_uid, pod)

    def _own_claim(self, claim: Obj, owner: Obj | None, set_uid: str, pod: Obj) -> None:
        """Give a claim this owner of the two, or neither."""
        before = claim["metadata"].get("ownerReferences") or []
        ours = (set_uid, pod["metadata"]["uid"])
        after = [each for each in before if each["uid"] not in ours]
        after += [] if owner is None else [reference_to(owner)]
        if after != before:
            meta = merged(claim["metadata"], ownerReferences=after or None)
            self.store.modify(
                "persistentvolumeclaims", *key_of(claim), lambda now: {**now, "metadata": meta}
            )

    def _fill(self, view: "_View") -> bool:
        """Make what is missing; False when an earlier pod must become ready first."""
        for ordinal in view.places:
            pod = view.pods.get(ordinal)
            if pod is not None and is_terminal(pod) and not is_terminating(pod):
                self._delete(view.owner, pod)
                pod = None
            if pod is None:
                if not self._create(view, ordinal):
                    self.soon(key_of(view.owner), view.now + RETRY_S)
                    return False
                pod = {}
            if view.in_order and not view.is_healthy(pod):
                return False
        return True

    def _shrink(self, view: "_View") -> bool:
        """Delete the highest pods beyond the wanted size; False while any is left."""
        for pod in view.surplus:
            if not is_terminating(pod):
                self._delete(view.owner, pod)
            if view.in_order:
                return False
        return not view.surplus

    def _update(self, view: "_View") -> None:
        """Replace the highest pod of an older template, one at a time."""
        strategy = view.owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        first = view.places.start + view.partition
        for ordinal in reversed([place for place in view.places if place >= first]):
            pod = view.pods.get(ordinal, {})
            if pod and labels_of(pod).get(REVISION) != view.revision:
                if not is_terminating(pod):
                    self._delete(view.owner, pod)
                return
            if not view.is_healthy(pod):
                return

    def _create(self, view: "_View", ordinal: int) -> bool:
        pod = stateful_pod(self._at(view, ordinal), ordinal)
        for template in view.owner["spec"].get("volumeClaimTemplates") or ():
            self._claim(view.owner, template, pod["metadata"]["name"])
        if self._pods.put(view.owner, pod):
            return False
        self._say(view.owner, CREATED, f"Create Pod {name_of(pod)} in StatefulSet {{}} successful")
        return True

    def _delete(self, owner: Obj, pod: Obj) -> None:
        self._pods.delete(pod)
        self._say(owner, DELETED, f"Delete Pod {name_of(pod)} in StatefulSet {{}} successful")

    def _say(self, owner: Obj, reason: str, note: str) -> None:
        """Record what was done for a set, which `{}` stands for; nothing is drawn for the Event."""
        note = note.format(name_of(owner))
        self._pods.recorder.normal(owner, reason, reason, note, draws_uid=False)

    def _at(self, view: "_View", ordinal: int) -> Obj:
        """Return the set as a new pod of it is made: below the partition as it was."""
        current = str(view.owner.get("status", {}).get("currentRevision") or "")
        if ordinal < view.places.start + view.partition and current != view.revision:
            revision = self._revisions.find(view.owner, current)
            return view.owner if revision is None else as_of(view.owner, revision)
        return view.owner

    def _claim(self, owner: Obj, template: Obj, pod: str) -> None:
        """Make sure that the pod's claim exists; claims outlive their pods."""
        name, namespace = f"{template['metadata']['name']}-{pod}", namespace_of(owner)
        if self.store.get("persistentvolumeclaims", namespace, name) is None:
            labels = owner["spec"]["selector"].get("matchLabels", {})
            meta = {"name": name, "namespace": namespace, "labels": dict(labels)}
            spec = clone(template["spec"])
            self.store.create("persistentvolumeclaims", {"metadata": meta, "spec": spec})
            note = f"Create Claim {name} Pod {pod} in StatefulSet {{}} success"
            self._say(owner, CREATED, note)

    def _wake_when_available(self, view: "_View") -> None:
        if not view.min_ready_s:
            return
        waiting = [
            ready_since(pod) + view.min_ready_s
            for pod in view.pods.values()
            if is_ready(pod) and not view.is_healthy(pod) and is_active(pod)
        ]
        if waiting:
            self.soon(key_of(view.owner), min(waiting))

    def _report(self, view: "_View") -> None:
        owner, status = view.owner, view.owner.get("status", {})
        active = [pod for pod in view.pods.values() if is_active(pod)]
        updated = [pod for pod in active if labels_of(pod).get(REVISION) == view.revision]
        name = view.revision
        done = len(updated) == len(active) == len(view.places) == sum(map(is_ready, active))
        before = name if done else status.get("currentRevision", name)
        current = len(active) if before == name else len(active) - len(updated)
        fresh = {
            "observedGeneration": owner["metadata"].get("generation"),
            "replicas": len(active),
            "readyReplicas": sum(map(is_ready, active)) or None,
            "availableReplicas": sum(map(view.is_healthy, active)),
            "currentReplicas": current or None,
            "updatedReplicas": len(updated) or None,
            "currentRevision": before,
            "updateRevision": name,
            "collisionCount": 0,
        }
        write_status(self.store, "statefulsets", owner, fresh)


class _View:
    """A StatefulSet and its pods by ordinal, as one reconciliation sees them."""

    def __init__(self, owner: Obj, pods: Sequence[Obj], now: float) -> None:
        spec = owner["spec"]
        self.owner = owner
        self.now = now
        self.min_ready_s = int(spec.get("minReadySeconds") or 0)
        self.in_order = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        self.revision = revision_name(owner)
        rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        self.partition = int(rolling.get("partition") or 0)
        start = int((spec.get("ordinals") or {}).get("start") or 0)
        self.places = range(start, start + int(spec.get("replicas", 1)))
        self.pods = {place: pod for pod in pods if (place := _ordinal(owner, pod)) is not None}

    @property
    def surplus(self) -> list[Obj]:
        """Pods beyond the wanted places, highest first."""
        beyond = sorted((o for o in self.pods if o not in self.places), reverse=True)
        return [self.pods[ordinal] for ordinal in beyond]

    def is_healthy(self, pod: Obj) -> bool:
        """Say whether the next pod in order may be touched; {} stands for one just made."""
        return bool(pod) and is_active(pod) and is_available(pod, self.min_ready_s, self.now)


def stateful_pod(owner: Obj, ordinal: int) -> Obj:
    """Return the pod of a StatefulSet's place, its claims named after it."""
    name = f"{name_of(owner)}-{ordinal}"
    labels = {
        "apps.kubernetes.io/pod-index": str(ordinal),
        "statefulset.kubernetes.io/pod-name": name,
        REVISION: revision_name(owner),
    }
    pod = from_template(owner, name, labels)
    pod["metadata"]["generateName"] = f"{name_of(owner)}-"
    spec = pod["spec"]
    spec["hostname"] = name
    if service := owner["spec"].get("serviceName"):
        spec["subdomain"] = service
    for template in owner["spec"].get("volumeClaimTemplates") or ():
        volume = template["metadata"]["name"]
        source = {"claimName": f"{volume}-{name}"}
        spec.setdefault("volumes", []).append({"name": volume, "persistentVolumeClaim": source})
    return pod


def _ordinal(owner: Obj, pod: Obj) -> int | None:
    """Return the place in a pod's name; None for a stray that only claims to be ours."""
    name, _, number = pod["metadata"]["name"].rpartition("-")
    ours = name == owner["metadata"]["name"] and number.isdecimal()
    return int(number) if ours else None
