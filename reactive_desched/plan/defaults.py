"""Fills in what hand-written objects leave out, as the API server and the scheduler would.

`kubectl get` leaves out none of it. A stand-in is made of the object's own names, so that it is
the same every time; it holds a slash, which no real uid does.
"""

from typing import Any, Final

import msgspec
from msgspec import Raw

from reactive_desched.model.objects import (
    ClusterObject,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
)
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

__all__ = ["is_default_uid", "with_default_namespace", "with_default_uid", "with_default_uids"]

_DEFAULT_NAMESPACE: Final = "default"
_NAMESPACED: Final = (Pod, PodDisruptionBudget, PersistentVolumeClaim)


def is_default_uid(uid: str) -> bool:
    """Say whether a uid is one of ours."""
    return "/" in uid


def with_default_uid(pod: Pod) -> Pod:
    """Give a pod without a uid one made of its name."""
    return msgspec.structs.replace(pod, uid=f"{pod.namespace}/{pod.name}")


def with_default_namespace(obj: ClusterObject) -> ClusterObject:
    """Put what names no namespace into the one kubectl would put it into."""
    if isinstance(obj, _NAMESPACED) and not obj.namespace:
        return msgspec.structs.replace(obj, namespace=_DEFAULT_NAMESPACE)
    return obj


def with_default_uids(raw: Raw) -> bytes | None:
    """Return the JSON of a pod with the uids it lacks, or None if it lacks none."""
    try:
        pod = msgspec.json.decode(raw)
        was_incomplete = _fill_uids(pod["metadata"])
    except (*DECODE_ERRORS, TypeError, KeyError, AttributeError):
        return None  # something else is wrong with it
    return msgspec.json.encode(pod) if was_incomplete else None


def _fill_uids(metadata: dict[str, Any]) -> bool:  # any JSON
    """Add the uids that are missing; say whether there were any."""
    namespace = metadata.get("namespace") or _DEFAULT_NAMESPACE
    was_incomplete = not metadata.get("uid")
    if was_incomplete:
        metadata["uid"] = f"{namespace}/{metadata['name']}"
    for owner in metadata.get("ownerReferences") or ():
        if not owner.get("uid"):
            owner["uid"] = f"{namespace}/{owner['kind']}/{owner['name']}"
            was_incomplete = True
    return was_incomplete
