"""Deletes objects: at once, gracefully, or only when their finalizers let them."""

from msgspec import Struct

from reactive_desched.sim.clock import parse_time, rfc3339
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import conflict, forbidden

__all__ = [
    "DeleteOptions",
    "Deletion",
    "check_preconditions",
    "check_protection",
    "default_policy",
    "plan",
]

_IMMORTAL = ("default", "kube-system", "kube-public")
_TERMINAL = ("Succeeded", "Failed")
_ORPHANING = ("jobs", "replicationcontrollers")
_DEPENDENT_FINALIZER = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


class DeleteOptions(Struct, frozen=True):
    """The options of a client for a deletion."""

    grace_period_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation_policy: str = "Background"
    dry_run: bool = False


class Deletion(Struct, frozen=True):
    """The result of a delete request: the object's next form, and whether it is removed at once."""

    obj: Obj
    gone: bool


def default_policy(kind: Resource) -> str:
    """Return what becomes of an object's dependents where its deletion does not say so."""
    return "Orphan" if kind.plural in _ORPHANING and not kind.is_custom else "Background"


def check_protection(kind: Resource, current: Obj) -> None:
    """Refuse to delete the namespaces that every cluster needs."""
    name = current["metadata"]["name"]
    if kind.plural == "namespaces" and name in _IMMORTAL:
        raise forbidden(kind, name, "this namespace may not be deleted")


def check_preconditions(kind: Resource, current: Obj, options: DeleteOptions) -> None:
    """Refuse to delete another object, or another version of it, than the client meant."""
    meta = current["metadata"]
    for what, wanted, found, hint in (
        ("UID", options.uid, meta["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.resource_version, meta["resourceVersion"], "modified"),
    ):
        if wanted is not None and wanted != found:
            text = (
                f"the {what} in the precondition ({wanted}) does not match the {what} in record"
                f" ({found}). The object might have been {hint}"
            )
            raise conflict(kind, meta["name"], text, named=kind.kind)


def plan(kind: Resource, current: Obj, options: DeleteOptions, now: float) -> Deletion:
    """Work out what this request does to the object as it is now."""
    if kind.plural == "pods":
        return _pod(current, options, now)
    if kind.plural == "namespaces":
        return _namespace(current, now)
    finalizers = list(current["metadata"].get("finalizers", ()))
    asked = _DEPENDENT_FINALIZER.get(options.propagation_policy)
    if asked and asked not in finalizers:
        finalizers.append(asked)
    if not finalizers:
        return Deletion(current, gone=True)
    return Deletion(_marked(current, now, 0, finalizers), gone=False)


def _namespace(current: Obj, now: float) -> Deletion:
    if not current["spec"].get("finalizers") and not current["metadata"].get("finalizers"):
        return Deletion(current, gone=True)
    marked = _marked(current, now, None, current["metadata"].get("finalizers"))
    return Deletion({**marked, "status": {**current["status"], "phase": "Terminating"}}, gone=False)


def _pod(current: Obj, options: DeleteOptions, now: float) -> Deletion:
    meta = current["metadata"]
    period = _grace(current, options)
    if "deletionTimestamp" in meta:
        marked = _shortened(current, period, now)
    else:
        marked = _marked(current, now, period, meta.get("finalizers"))
    final = marked["metadata"]["deletionGracePeriodSeconds"] == 0
    return Deletion(marked, gone=final and not meta.get("finalizers"))


def _grace(pod: Obj, options: DeleteOptions) -> int:
    spec = pod["spec"]
    period = options.grace_period_seconds
    if period is None:
        period = spec.get("terminationGracePeriodSeconds") or 0
    if not spec.get("nodeName") or pod.get("status", {}).get("phase") in _TERMINAL:
        return 0
    return 1 if period < 0 else int(period)


def _marked(current: Obj, now: float, period: int | None, finalizers: list[str] | None) -> Obj:
    """Set the deletion marks; the timestamp is when the grace ends, not when it began."""
    meta = dict(current["metadata"])
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = rfc3339(now + (period or 0))
        if "generation" in meta:
            meta["generation"] += 1
        if period is not None:
            meta["deletionGracePeriodSeconds"] = period
    if finalizers:
        meta["finalizers"] = finalizers
    return {**current, "metadata": meta}


def _shortened(current: Obj, period: int, now: float) -> Obj:
    """Only a shorter grace changes a deletion that is under way."""
    meta = current["metadata"]
    granted = meta.get("deletionGracePeriodSeconds", 0)
    if period >= granted:
        return current
    end = parse_time(meta["deletionTimestamp"]) - granted + period
    if end < now and period:
        end, period = now, 1
    marks = {"deletionTimestamp": rfc3339(max(end, now)), "deletionGracePeriodSeconds": period}
    return {**current, "metadata": {**meta, **marks}}
