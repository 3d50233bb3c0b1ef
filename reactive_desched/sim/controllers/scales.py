"""The size a pod's owner asks for, where the owner has one: what budgets count against."""

from collections.abc import Iterable

from reactive_desched.errors import ReactiveDeschedError
from reactive_desched.sim.objects import Obj, namespace_of
from reactive_desched.sim.pods import controller_of
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.store import Store
from reactive_desched.sim.structural.json_paths import values_at

__all__ = ["ScaleError", "total_scale"]


class ScaleError(ReactiveDeschedError):
    """A pod's owner has no size to count against."""


def total_scale(store: Store, pods: Iterable[Obj]) -> int:
    """Sum the sizes of the distinct owners; pods without a controller are left out.

    Raises ScaleError for an owner that is gone or of a kind without a size.
    """
    sizes: dict[str, int] = {}
    for pod in pods:
        reference = controller_of(pod)
        if reference is None or reference["uid"] in sizes:
            continue
        uid, size = _scale_of(store, pod, reference)
        sizes[reference["uid"]] = 0
        sizes[uid] = size
    return sum(sizes.values())


def _scale_of(store: Store, pod: Obj, reference: Obj) -> tuple[str, int]:
    """Return the uid and size of the owner that decides: a ReplicaSet defers to its Deployment."""
    owner = _find(store, namespace_of(pod), reference)
    if owner is None:
        raise ScaleError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
    above = controller_of(owner) if owner["kind"] == "ReplicaSet" else None
    if above is not None and above["kind"] == "Deployment":
        deployment = _find(store, namespace_of(pod), above)
        if deployment is None:
            raise ScaleError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
        owner = deployment
    kind = _kind_of(store, owner)
    wanted = [] if kind is None else values_at(owner, kind.scale.wanted)
    return str(owner["metadata"]["uid"]), int(next(iter(wanted), 1))


def _kind_of(store: Store, named: Obj) -> Resource | None:
    group = str(named.get("apiVersion", "")).rpartition("/")[0]
    return store.kinds.of_kind(group, named["kind"])


def _find(store: Store, namespace: str, reference: Obj) -> Obj | None:
    """Return the very object a reference means, None when it is gone."""
    kind = _kind_of(store, reference)
    if kind is None or "scale" not in kind.subresources:
        name = kind.qualified if kind else reference["kind"].lower()
        raise ScaleError(f"{name} does not implement the scale subresource")
    found = store.get(kind.plural, namespace, reference["name"])
    return found if found is not None and found["metadata"]["uid"] == reference["uid"] else None
