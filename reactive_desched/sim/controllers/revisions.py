"""Keeps what the templates of a workload were as ControllerRevisions, to which it can return."""

from collections.abc import Collection
from typing import Any, Final

from reactive_desched.sim.controllers.adoption import claim
from reactive_desched.sim.controllers.pod_control import template_hash
from reactive_desched.sim.objects import Obj, clone, name_of, namespace_of
from reactive_desched.sim.pods import controller_uid, is_terminating, key_of, reference_to
from reactive_desched.sim.store import Store

__all__ = ["REVISION", "Revisions", "as_of", "revision_name"]

REVISION: Final = "controller-revision-hash"
"""The label by which a pod says of which revision it is."""
_HASH: Final = "controller.kubernetes.io/hash"
_KEPT: Final = 10
_KIND: Final = "controllerrevisions"


def revision_name(owner: Obj) -> str:
    """Return the name of the revision that a workload's template is."""
    return f"{name_of(owner)}-{template_hash(owner['spec']['template'])}"


def as_of(owner: Obj, revision: Obj) -> Obj:
    """Return a workload with the template that a revision kept."""
    template = {
        name: part for name, part in revision["data"]["spec"]["template"].items() if name[0] != "$"
    }
    return {**owner, "spec": {**owner["spec"], "template": clone(template)}}


class Revisions:
    """Writes the revisions of the StatefulSets or DaemonSets; bounded by their history limits."""

    def __init__(self, store: Store, *, hash_label: str = _HASH) -> None:
        self._store = store
        self._hash_label = hash_label

    def keep(self, owner: Obj, used: Collection[str]) -> None:
        """Make sure that the present template is the latest revision, and drop the oldest.

        `used` are the names of revisions that pods have; these stay.
        """
        found = self._owned(owner)
        name = revision_name(owner)
        last = max((each["revision"] for each in found), default=0)
        present = self._store.get(_KIND, namespace_of(owner), name)
        if present is None:
            self._store.create(_KIND, self._new(owner, name, last + 1), draws_uid=False)
        elif present["revision"] < last:
            self._store.modify(_KIND, *key_of(present), lambda it: {**it, "revision": last + 1})
        self._trim(owner, [each for each in found if name_of(each) not in {name, *used}])

    def find(self, owner: Obj, name: str) -> Obj | None:
        """Return a revision of a workload by its name."""
        found = self._store.get(_KIND, namespace_of(owner), name)
        is_own = found is not None and controller_uid(found) == owner["metadata"]["uid"]
        return found if is_own else None

    def _owned(self, owner: Obj) -> list[Obj]:
        uid = owner["metadata"]["uid"]
        candidates = (
            each
            for each in self._store.list(_KIND, namespace_of(owner))
            if controller_uid(each) in (uid, "")
        )
        return claim(self._store, _KIND, owner, candidates)

    def _new(self, owner: Obj, name: str, number: int) -> Obj:
        # In the order of Go's maps: clients compare the bytes with those that they write.
        template = _in_order({**owner["spec"]["template"], "$patch": "replace"})
        labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
        meta = {
            "name": name,
            "namespace": namespace_of(owner),
            "labels": {**labels, self._hash_label: name.rpartition("-")[2]},
            "annotations": dict(owner["metadata"].get("annotations") or {}),
            "ownerReferences": [reference_to(owner)],
        }
        return {"metadata": meta, "data": {"spec": {"template": template}}, "revision": number}

    def _trim(self, owner: Obj, unused: list[Obj]) -> None:
        limit = int(owner["spec"].get("revisionHistoryLimit", _KEPT))
        oldest = sorted(unused, key=lambda each: int(each["revision"]))
        for each in oldest[: max(0, len(oldest) - limit)]:
            if not is_terminating(each):
                self._store.delete(_KIND, *key_of(each))


def _in_order(value: Any) -> Any:
    """Return a copy of a value whose keys are in order, at every depth."""
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return list(map(_in_order, value)) if isinstance(value, list) else value
