"""Rolls a Deployment's pods from one ReplicaSet to the next."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.sim.clock import parse_time, rfc3339
from reactive_desched.sim.conditions import find_condition, with_conditions
from reactive_desched.sim.controllers.adoption import claim, selecting
from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.controllers.pod_control import template_hash
from reactive_desched.sim.controllers.replica_sets import REPLICA_FAILURE
from reactive_desched.sim.controllers.rollout import (
    Limits,
    Share,
    Size,
    limits_of,
    next_new_size,
    next_old_sizes,
    proportional_sizes,
)
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.objects import Obj, clone, labels_of, name_of, namespace_of
from reactive_desched.sim.pods import (
    Key,
    controller_of,
    controller_uid,
    is_terminal,
    is_terminating,
    key_of,
    reference_to,
)
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.store import Event, Store

__all__ = ["Deployments", "replica_set"]

_HASH: Final = "pod-template-hash"
_REVISION: Final = "deployment.kubernetes.io/revision"
_UPDATED: Final = "ReplicaSetUpdated"
_COMPLETE: Final = "NewReplicaSetAvailable"
_LATE: Final = "ProgressDeadlineExceeded"
_NO_DEADLINE: Final = 2**31 - 1
_HISTORY: Final = "deployment.kubernetes.io/revision-history"
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
_LARGEST: Final = "deployment.kubernetes.io/max-replicas"
_TAKEN_S: Final = 1.0


class _Fleet(Struct, frozen=True):
    """A Deployment's ReplicaSets: the one of its present template, and the rest, oldest first."""

    new: Obj | None
    old: Sequence[Obj]

    @property
    def all(self) -> Sequence[Obj]:
        return (*self.old, self.new) if self.new is not None else self.old


class Deployments(Reconciler):
    """One ReplicaSet per template; a rollout that stands still for too long is said to."""

    watches = frozenset({"deployments", "replicasets", "pods"})

    def __init__(self, store: Store, index: PodIndex) -> None:
        super().__init__(store)
        self._index = index
        self._recorder = Recorder(store, "deployment-controller")

    def observe(self, event: Event) -> None:
        """Look again at the deployment that changed, or whose ReplicaSet did, or lost a pod."""
        if event.resource == "deployments":
            self.soon(key_of(event.object))
            return
        if event.resource == "pods":
            if event.type == "DELETED":
                self._observe_gone(event.object)
            return
        owner = controller_of(event.object)
        if owner is not None and owner["kind"] == "Deployment":
            self.soon((namespace_of(event.object), owner["name"]))
        for key in selecting(self.store, "deployments", event):
            self.soon(key)

    def _observe_gone(self, pod: Obj) -> None:
        """Recreate waits for the very last pod, which no ReplicaSet's status shows."""
        owner = controller_of(pod)
        if owner is None or owner["kind"] != "ReplicaSet":
            return
        rs = self.store.get("replicasets", namespace_of(pod), owner["name"])
        above = None if rs is None else controller_of(rs)
        if above is not None and above["kind"] == "Deployment":
            self.soon((namespace_of(pod), above["name"]))

    def reconcile(self, key: Key, now: float) -> None:
        """Move one step towards the wanted template and size, and report."""
        deployment = self.store.get("deployments", *key)
        if deployment is None:
            return
        if not is_terminating(deployment):
            self._progress(deployment, now)
            deployment = self.store.get("deployments", *key) or deployment
        self._report(deployment, self._fleet(deployment), now)

    def _fleet(self, deployment: Obj) -> _Fleet:
        sets = self.store.list("replicasets", namespace_of(deployment))
        claimable = (rs for rs in sets if controller_uid(rs) in ("", deployment["metadata"]["uid"]))
        owned = sorted(claim(self.store, "replicasets", deployment, claimable), key=_revision)
        present = template_hash(deployment["spec"]["template"])
        new = next((rs for rs in owned if labels_of(rs).get(_HASH) == present), None)
        return _Fleet(new, [rs for rs in owned if rs is not new])

    def _progress(self, deployment: Obj, now: float) -> None:
        fleet, limits = self._fleet(deployment), limits_of(deployment)
        if fleet.new is None and self._name_is_taken(deployment):
            self.soon(key_of(deployment), now + _TAKEN_S)
            return
        if deployment["spec"].get("paused") or _is_scaled(deployment, fleet):
            self._resize(deployment, fleet, limits)
            return
        if deployment["spec"].get("strategy", {}).get("type") == "Recreate":
            self._recreate(deployment, fleet, limits)
        else:
            self._roll(deployment, fleet, limits)
        if _is_complete(deployment):
            self._forget_old(deployment, fleet)

    def _resize(self, deployment: Obj, fleet: _Fleet, limits: Limits) -> None:
        """Follow another size: with the one set that has pods, or with each by its share."""
        replicas = int(deployment["spec"]["replicas"])
        active = [rs for rs in fleet.all if _wanted(rs)] or list(fleet.all[-1:])
        if len(active) <= 1:
            targets = [replicas] * len(active)
        elif fleet.new is not None and _is_saturated(fleet.new, replicas):
            targets = [_wanted(rs) if rs is fleet.new else 0 for rs in active]
        elif deployment["spec"].get("strategy", {}).get("type") == "Recreate":
            return
        else:
            before = (deployment.get("status") or {}).get("replicas", 0)
            shares = [Share(_wanted(rs), _marked(rs, _LARGEST) or before) for rs in active]
            targets = proportional_sizes(replicas, limits, shares)
        for rs, target in zip(active, targets, strict=True):
            self._scale(rs, deployment, limits, target)

    def _name_is_taken(self, deployment: Obj) -> bool:
        """Say whether another owner's set has the name, as that of a Deployment that is gone."""
        name = name_of(replica_set(deployment, 0, 0))
        return self.store.get("replicasets", namespace_of(deployment), name) is not None

    def _roll(self, deployment: Obj, fleet: _Fleet, limits: Limits) -> None:
        replicas = int(deployment["spec"]["replicas"])
        new = fleet.new
        old_total = sum(map(_wanted, fleet.old))
        size = next_new_size(replicas, limits, _wanted(new) if new else 0, old_total)
        new = self._current(deployment, fleet, limits, size)
        targets = next_old_sizes(replicas, limits, _size(new), [_size(rs) for rs in fleet.old])
        for rs, target in zip(fleet.old, targets, strict=True):
            if target != _wanted(rs):
                self._scale(rs, deployment, limits, target)

    def _recreate(self, deployment: Obj, fleet: _Fleet, limits: Limits) -> None:
        for rs in fleet.old:
            self._scale(rs, deployment, limits, 0)
        if any(self._has_pods(rs) for rs in fleet.old):
            return
        self._current(deployment, fleet, limits, int(deployment["spec"]["replicas"]))

    def _has_pods(self, rs: Obj) -> bool:
        return any(not is_terminal(pod) for pod in self._index.owned_by(rs["metadata"]["uid"]))

    def _current(self, deployment: Obj, fleet: _Fleet, limits: Limits, size: int) -> Obj:
        """Return the set of the present template at the given size, made if it is new."""
        revision = max(map(_revision, fleet.old), default=0) + 1
        if fleet.new is None:
            new = self.store.create("replicasets", replica_set(deployment, size, revision))
            self._record_scaling(deployment, new, 0, size)
        else:
            new = self._scale(fleet.new, deployment, limits, size, revision)
        self._mark(deployment, _revision(new))
        return new

    def _scale(self, rs: Obj, deployment: Obj, limits: Limits, size: int, revision: int = 0) -> Obj:
        marks = _annotations(deployment, limits, max(revision, _revision(rs)))

        def change(current: Obj) -> Obj:
            current["spec"]["replicas"] = size
            known = current["metadata"].setdefault("annotations", {})
            known.update(_history(known, marks[_REVISION]) | marks)
            return current

        self._record_scaling(deployment, rs, _wanted(rs), size)
        return self.store.modify("replicasets", *key_of(rs), change)

    def _record_scaling(self, deployment: Obj, rs: Obj, before: int, after: int) -> None:
        if before != after:
            way = "up" if after > before else "down"
            note = f"Scaled {way} replica set {rs['metadata']['name']} from {before} to {after}"
            self._recorder.normal(deployment, "ScalingReplicaSet", "ScalingReplicaSet", note)

    def _mark(self, deployment: Obj, revision: int) -> None:
        def change(current: Obj) -> Obj:
            current["metadata"].setdefault("annotations", {})[_REVISION] = str(revision)
            return current

        self.store.modify("deployments", *key_of(deployment), change, subresource="status")

    def _forget_old(self, deployment: Obj, fleet: _Fleet) -> None:
        keep = int(deployment["spec"].get("revisionHistoryLimit", 10))
        idle = [rs for rs in fleet.old if not _wanted(rs) and not rs["status"].get("replicas")]
        for rs in idle[: max(0, len(idle) - keep)]:
            self.store.delete("replicasets", *key_of(rs))

    def _report(self, deployment: Obj, fleet: _Fleet, now: float) -> None:
        replicas = int(deployment["spec"]["replicas"])
        total, available = _sum(fleet.all, "replicas"), _sum(fleet.all, "availableReplicas")
        updated = _sum([fleet.new] if fleet.new else [], "replicas")
        wanted = sum(map(_wanted, fleet.all))
        complete = updated == total == available == replicas or (
            total == updated and _was_complete(deployment, fleet.new)
        )
        before = deployment.get("status", {})
        counts = {
            "updatedReplicas": updated,
            "readyReplicas": _sum(fleet.all, "readyReplicas"),
            "availableReplicas": available,
        }
        left = before.get("replicas", 0) - before.get("updatedReplicas", 0)
        moved = total - updated < left or any(n > before.get(f, 0) for f, n in counts.items())
        progress = _progressing(fleet.new, deployment, now, complete=complete, moved=moved)
        failure = _failure(fleet)
        status = {
            "observedGeneration": deployment["metadata"].get("generation"),
            "replicas": total or None,
            **{field: number or None for field, number in counts.items()},
            "unavailableReplicas": max(0, wanted - available) or None,
            "terminatingReplicas": _sum(fleet.all, "terminatingReplicas"),
            "conditions": _conditions(
                deployment.get("status", {}).get("conditions", []),
                (
                    _available(enough=available >= replicas - limits_of(deployment).unavailable),
                    *([progress] if progress else ()),
                    *([failure] if failure else ()),
                ),
                rfc3339(now),
            ),
        }
        write_status(self.store, "deployments", deployment, status)
        if (late := _late_at(status["conditions"], deployment)) is not None:
            self.soon(key_of(deployment), late)


def replica_set(deployment: Obj, size: int, revision: int) -> Obj:
    """Return the ReplicaSet of a Deployment's present template."""
    spec, meta = deployment["spec"], deployment["metadata"]
    digest = template_hash(spec["template"])
    template = clone(spec["template"])
    template["metadata"].setdefault("labels", {})[_HASH] = digest
    selector = clone(spec["selector"])
    selector.setdefault("matchLabels", {})[_HASH] = digest
    return {
        "metadata": {
            "name": f"{meta['name']}-{digest}",
            "namespace": meta["namespace"],
            "labels": dict(template["metadata"]["labels"]),
            "annotations": _annotations(deployment, limits_of(deployment), revision),
            "ownerReferences": [reference_to(deployment)],
        },
        "spec": {
            "replicas": size,
            "selector": selector,
            "template": template,
            **({"minReadySeconds": m} if (m := spec.get("minReadySeconds")) else {}),
        },
    }


def _annotations(deployment: Obj, limits: Limits, revision: int) -> dict[str, str]:
    replicas = int(deployment["spec"]["replicas"])
    return {
        _REVISION: str(revision),
        _DESIRED: str(replicas),
        _LARGEST: str(replicas + limits.surge),
    }


def _history(annotations: Mapping[str, str], revision: str) -> dict[str, str]:
    """Return the revisions that a ReplicaSet had before, once it gets another one."""
    before = annotations.get(_REVISION)
    if before is None or before == revision:
        return {}
    return {_HISTORY: ",".join(filter(None, (annotations.get(_HISTORY), before)))}


def _revision(rs: Obj) -> int:
    return int((rs["metadata"].get("annotations") or {}).get(_REVISION, "0"))


def _marked(rs: Obj, annotation: str) -> int:
    """Return the number that a ReplicaSet has from its Deployment; 0 for none."""
    text = (rs["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isdecimal() else 0


def _is_scaled(deployment: Obj, fleet: _Fleet) -> bool:
    """Say whether the size has changed since it was written into a set that has pods."""
    wanted = int(deployment["spec"]["replicas"])
    is_rolling = deployment["spec"].get("strategy", {}).get("type") != "Recreate"
    return is_rolling and any(
        _DESIRED in (rs["metadata"].get("annotations") or {}) and _marked(rs, _DESIRED) != wanted
        for rs in fleet.all
        if _wanted(rs)
    )


def _is_saturated(rs: Obj, replicas: int) -> bool:
    size = _size(rs)
    return size.wanted == size.available == _marked(rs, _DESIRED) == replicas


def _wanted(rs: Obj) -> int:
    return int(rs["spec"].get("replicas", 0))


def _size(rs: Obj) -> Size:
    return Size(_wanted(rs), int(rs.get("status", {}).get("availableReplicas", 0)))


def _sum(sets: Sequence[Obj], field: str) -> int:
    return sum(int(rs.get("status", {}).get(field, 0)) for rs in sets)


def _conditions(old: Sequence[Obj], new: Sequence[Obj], at: str) -> list[Obj]:
    """Replace conditions; one of the same status and reason stays, unless it is of progress."""
    known = {each["type"]: each for each in old}
    changed = []
    for each in new:
        before = known.get(each["type"], {})
        is_same = all(before.get(field) == each[field] for field in ("status", "reason"))
        if not is_same or each["reason"] == _UPDATED:
            changed.append({"lastUpdateTime": at, **each})
    said = {each["type"] for each in new}
    kept = [each for each in old if each["type"] != REPLICA_FAILURE or REPLICA_FAILURE in said]
    return with_conditions(kept, changed, at)


def _failure(fleet: _Fleet) -> Obj | None:
    """Return that pods of a set are refused, of the present one first; None where none are."""
    for rs in (*([fleet.new] if fleet.new else ()), *fleet.all):
        if (found := find_condition(rs, REPLICA_FAILURE)) is not None:
            return {**found, "lastUpdateTime": found["lastTransitionTime"]}
    return None


def _is_complete(deployment: Obj) -> bool:
    """Say whether all pods are of the present template and available, by the status."""
    status, wanted = deployment.get("status", {}), int(deployment["spec"]["replicas"])
    counts = (status.get(f, 0) for f in ("updatedReplicas", "replicas", "availableReplicas"))
    return all(count == wanted for count in counts)


def _was_complete(deployment: Obj, new: Obj | None) -> bool:
    """Say whether the rollout of the present ReplicaSet had ended: scaling is no progress."""
    condition = find_condition(deployment, "Progressing") or {}
    return (
        new is not None
        and condition.get("reason") == _COMPLETE
        and new["metadata"]["name"] in condition.get("message", "")
    )


def _available(*, enough: bool) -> Obj:
    return {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    }


def _late_at(conditions: Sequence[Obj], deployment: Obj) -> float | None:
    """Return when a rollout that does not go on has stood still for too long."""
    seconds = int(deployment["spec"].get("progressDeadlineSeconds", _NO_DEADLINE))
    found = next((each for each in conditions if each["type"] == "Progressing"), None)
    if found is None or found["reason"] != _UPDATED or seconds >= _NO_DEADLINE:
        return None
    return parse_time(found["lastUpdateTime"]) + seconds


def _progressing(
    new: Obj | None, deployment: Obj, now: float, *, complete: bool, moved: bool
) -> Obj | None:
    """Return what is to be said of the rollout; None to leave what was said."""
    if deployment["spec"].get("paused"):
        return {
            "type": "Progressing",
            "status": "Unknown",
            "reason": "DeploymentPaused",
            "message": "Deployment is paused",
        }
    name = new["metadata"]["name"] if new else deployment["metadata"]["name"]
    known = find_condition(deployment, "Progressing") or {}
    late = _late_at((known,) if known else (), deployment)
    if complete:
        status, reason, said = "True", _COMPLETE, "has successfully progressed"
    elif moved or known.get("reason") not in (_UPDATED, _LATE):
        status, reason, said = "True", _UPDATED, "is progressing"
    elif late is not None and now >= late:
        status, reason, said = "False", _LATE, "has timed out progressing"
    else:
        return None
    message = f'ReplicaSet "{name}" {said}.'
    return {"type": "Progressing", "status": status, "reason": reason, "message": message}
