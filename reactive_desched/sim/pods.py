"""Answers the questions of simulated controllers about a pod's JSON, each under one name."""

from collections.abc import Mapping
from typing import Any, Final

from reactive_desched.model.objects import FAILED, SUCCEEDED
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.conditions import condition_status, find_condition
from reactive_desched.sim.objects import Obj, clone

__all__ = [
    "Key",
    "controller_of",
    "controller_uid",
    "from_template",
    "is_active",
    "is_available",
    "is_critical",
    "is_ready",
    "is_terminal",
    "is_terminating",
    "key_of",
    "node_of",
    "phase_of",
    "priority_of",
    "ready_since",
    "reference_to",
    "without_nomination",
]

Key = tuple[str, str]
"""A namespace and a name; the namespace is empty for cluster-scoped objects."""

_TERMINAL: Final = (SUCCEEDED, FAILED)
_SYSTEM_CRITICAL: Final = 2_000_000_000


def key_of(obj: Mapping[str, Any]) -> Key:
    """Return the namespace and name of an object."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def phase_of(pod: Mapping[str, Any]) -> str:
    """Return the phase; an absent one is Pending."""
    return str(pod.get("status", {}).get("phase") or "Pending")


def priority_of(pod: Mapping[str, Any]) -> int:
    """Return the priority; an absent one is 0."""
    return int(pod["spec"].get("priority") or 0)


def is_critical(pod: Mapping[str, Any]) -> bool:
    """Say whether the kubelet keeps the pod under pressure: its priority is a system's."""
    return priority_of(pod) >= _SYSTEM_CRITICAL


def without_nomination(status: Obj) -> Obj:
    """Return a pod's status without the node that it is nominated for."""
    return {field: value for field, value in status.items() if field != "nominatedNodeName"}


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the node's name, or "" while the pod is unscheduled."""
    return str(pod["spec"].get("nodeName") or "")


def is_terminal(pod: Mapping[str, Any]) -> bool:
    """Say whether the pod has ended."""
    return phase_of(pod) in _TERMINAL


def is_terminating(obj: Mapping[str, Any]) -> bool:
    """Say whether deletion has begun."""
    return "deletionTimestamp" in obj["metadata"]


def is_active(pod: Mapping[str, Any]) -> bool:
    """Say whether the pod counts as one of its owner's: not ended, not being deleted."""
    return not is_terminating(pod) and not is_terminal(pod)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Say whether the Ready condition is True."""
    return condition_status(pod, "Ready") == "True"


def ready_since(pod: Mapping[str, Any]) -> float:
    """Return when the Ready condition last changed, 0 when there is none."""
    condition = find_condition(pod, "Ready")
    since = condition and condition.get("lastTransitionTime")
    return parse_time(since) if since else 0.0


def is_available(pod: Mapping[str, Any], min_ready_s: int, now: float) -> bool:
    """Say whether the pod has been Ready for long enough."""
    return is_ready(pod) and (not min_ready_s or ready_since(pod) + min_ready_s <= now)


def controller_of(obj: Mapping[str, Any]) -> Obj | None:
    """Return the owner reference that would make the object again, or None."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Obj = owner
            return found
    return None


def controller_uid(obj: Mapping[str, Any]) -> str:
    """Return the uid of the controlling owner, or ""."""
    owner = controller_of(obj)
    return "" if owner is None else str(owner["uid"])


def from_template(owner: Obj, name: str, labels: Mapping[str, str] | None = None) -> Obj:
    """Return a pod as the owner's template describes it, with extra labels."""
    template = owner["spec"]["template"]
    wished = template.get("metadata") or {}
    meta: Obj = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(wished.get("labels") or {}), **(labels or {})},
        "ownerReferences": [reference_to(owner)],
    }
    if wished.get("annotations"):
        meta["annotations"] = dict(wished["annotations"])
    if wished.get("finalizers"):
        meta["finalizers"] = list(wished["finalizers"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": clone(template["spec"])}


def reference_to(owner: Obj) -> Obj:
    """Return the controlling owner reference to an object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
