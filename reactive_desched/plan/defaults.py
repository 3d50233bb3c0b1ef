"""What people leave out of objects they write by hand, and what stands in for it.

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
from reactive_desched.primitives.decode_errors import UNDECODABLE

__all__ = ["completed", "in_a_namespace", "is_stand_in", "with_own_uid"]

_DEFAULT_NAMESPACE: Final = "default"
_NAMESPACED: Final = (Pod, PodDisruptionBudget, PersistentVolumeClaim)


def is_stand_in(uid: str) -> bool:
    """Say whether a uid is one of ours."""
    return "/" in uid


def with_own_uid(pod: Pod) -> Pod:
    """Give a pod the stand-in for its uid."""
    return msgspec.structs.replace(pod, uid=f"{pod.namespace}/{pod.name}")


def in_a_namespace(thing: ClusterObject) -> ClusterObject:
    """Put what names no namespace into the one kubectl would put it into."""
    if isinstance(thing, _NAMESPACED) and not thing.namespace:
        return msgspec.structs.replace(thing, namespace=_DEFAULT_NAMESPACE)
    return thing


def completed(raw: Raw) -> bytes | None:
    """Return the JSON of a pod with the uids it lacks, or None if it lacks none."""
    try:
        pod = msgspec.json.decode(raw)
        lacking = _complete(pod["metadata"])
    except (*UNDECODABLE, TypeError, KeyError, AttributeError):
        return None  # something else is wrong with it
    return msgspec.json.encode(pod) if lacking else None


def _complete(metadata: dict[str, Any]) -> bool:  # any JSON
    """Add the uids that are missing; say whether there were any."""
    namespace = metadata.get("namespace") or _DEFAULT_NAMESPACE
    lacking = not metadata.get("uid")
    if lacking:
        metadata["uid"] = f"{namespace}/{metadata['name']}"
    for owner in metadata.get("ownerReferences") or ():
        if not owner.get("uid"):
            owner["uid"] = f"{namespace}/{owner['kind']}/{owner['name']}"
            lacking = True
    return lacking
