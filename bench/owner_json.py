"""ReplicaSets and Jobs as an API server shows them: about 8 KB, and 9."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from bench.pod_json import applied_spec, pod_labels
from bench.render import Obj, managed_fields
from bench.workloads import Workload, uid_text

REVISIONS = 11
"""A Deployment keeps ten old ReplicaSets at most; ours keep any number up to that."""
FINISHED_JOBS = 3
"""How many finished Jobs a CronJob keeps."""


@dataclass(frozen=True)
class OwnerKind:
    """One kind of owner that something controls in turn."""

    resource: str
    kind: str
    api: str
    above: str

    def items(self, owners: Sequence[Workload]) -> Iterable[bytes]:
        """Yield all of them as JSON, in the order of their keys."""
        named = [
            (owner.namespace, name, uid, owner)
            for owner in owners
            if owner.kind == self.kind
            for name, uid in _incarnations(owner)
        ]
        named.sort(key=lambda row: row[:2])
        return (self._render(name, uid, owner) for _, name, uid, owner in named)

    def _render(self, name: str, uid: str, owner: Workload) -> bytes:
        metadata = {
            "name": name,
            "namespace": owner.namespace,
            "uid": uid,
            "resourceVersion": "900000000",
            "generation": 2,
            "creationTimestamp": "2025-10-09T08:53:20Z",
            "labels": pod_labels(owner),
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": str(owner.size),
                "deployment.kubernetes.io/max-replicas": str(owner.size + 1),
                "deployment.kubernetes.io/revision": "7",
            },
            "ownerReferences": [
                {
                    "apiVersion": self.api,
                    "kind": self.above,
                    "name": owner.app,
                    "uid": _uid(f"{self.above}/{owner.app}"),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }
        metadata["managedFields"] = self._managed_fields(metadata, owner)
        make = _replica_set if self.kind == "ReplicaSet" else _job
        whole = make(owner, is_over=uid != owner.uid)
        return msgspec.json.encode({"metadata": metadata, **whole})

    def _managed_fields(self, metadata: Obj, owner: Workload) -> list[Obj]:
        named = ("labels", "annotations", "ownerReferences")
        created = {
            "metadata": {member: metadata[member] for member in named},
            "spec": {"replicas": 0, "selector": 0, "template": _template(owner)},
        }
        reported = {"availableReplicas": 0, "observedGeneration": 0, "readyReplicas": 0}
        common: Obj = {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": self.api,
            "time": "2025-10-09T08:53:20Z",
            "fieldsType": "FieldsV1",
        }
        status = common | {"subresource": "status"}
        return [
            common | {"fieldsV1": managed_fields(created)},
            status | {"fieldsV1": managed_fields({"status": reported})},
        ]


def _template(owner: Workload) -> Obj:
    return {"metadata": {"labels": pod_labels(owner)}, "spec": applied_spec(owner)}


def _replica_set(owner: Workload, *, is_over: bool) -> Obj:
    """Return spec and status of a ReplicaSet, which has its pods or gave them up."""
    size = 0 if is_over else owner.size
    spec = {"selector": {"matchLabels": pod_labels(owner)}, "template": _template(owner)}
    counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), size)
    return {"spec": {"replicas": size, **spec}, "status": {"observedGeneration": 2, **counts}}


def _job(owner: Workload, *, is_over: bool) -> Obj:
    """Return spec and status of a Job, which runs or is over."""
    template = _template(owner)
    size = {"completions": owner.size, "parallelism": owner.size}
    over = {"succeeded": owner.size, "conditions": [{"type": "Complete", "status": "True"}]}
    status = over if is_over else {"active": owner.size}
    return {"spec": {"backoffLimit": 6, **size, "template": template}, "status": status}


def _incarnations(owner: Workload) -> Iterator[tuple[str, str]]:
    """Yield name and uid of the one that has pods, and of those from before that were kept."""
    yield owner.name, owner.uid
    before = owner.number % REVISIONS if owner.kind == "ReplicaSet" else FINISHED_JOBS
    for number in range(before):
        yield f"{owner.app}-{number:09x}", _uid(f"{owner.app}/{number}")


def _uid(text: str) -> str:
    return uid_text(hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


OWNER_KINDS = (
    OwnerKind("replicasets", "ReplicaSet", "apps/v1", "Deployment"),
    OwnerKind("jobs", "Job", "batch/v1", "CronJob"),
)
