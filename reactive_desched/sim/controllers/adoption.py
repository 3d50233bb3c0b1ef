"""Has workloads adopt what their selector matches and release what it matches no more."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import convert

from reactive_desched.model.labels import LabelSelector
from reactive_desched.sim.objects import Obj, labels_of, merged, namespace_of
from reactive_desched.sim.pods import (
    Key,
    controller_of,
    controller_uid,
    is_terminating,
    key_of,
    reference_to,
)
from reactive_desched.sim.store import Event, Store

__all__ = ["claim", "selecting", "without_finalizer"]

Fits = Callable[[Obj], bool]
_ANY: Final[Fits] = lambda _: True  # noqa: E731 -- the default of an argument


def claim(
    store: Store,
    resource: str,
    owner: Obj,
    candidates: Iterable[Obj],
    *,
    fits: Fits = _ANY,
    finalizer: str = "",
) -> list[Obj]:
    """Return those of the candidates that are the owner's now.

    Candidates are its own objects, and those of its namespace without a controller. `fits` asks
    for more than the selector does; an adopted object gets the finalizer, a released one loses it.
    An owner that is being deleted keeps what it has; what is being deleted is not adopted.
    """
    uid, found = owner["metadata"]["uid"], []
    for obj in candidates:
        is_owned = controller_uid(obj) == uid
        if _selects(owner, obj) and fits(obj):
            if is_owned:
                found.append(obj)
            elif not is_terminating(owner) and not is_terminating(obj):
                found.append(_adopt(store, resource, owner, obj, finalizer))
        elif is_owned and not is_terminating(owner):
            _release(store, resource, obj, uid, finalizer)
    return found


def selecting(store: Store, resource: str, event: Event) -> Iterator[Key]:
    """Yield the workloads of a resource that would adopt what has no controller after an event."""
    obj = event.object
    if event.type == "DELETED" or controller_of(obj) is not None:
        return
    for owner in store.list(resource, namespace_of(obj)):
        if _selects(owner, obj):
            yield key_of(owner)


def without_finalizer(obj: Obj, finalizer: str) -> Obj:
    """Return an object without one of its finalizers."""
    kept = [each for each in obj["metadata"].get("finalizers", ()) if each != finalizer]
    return {**obj, "metadata": merged(obj["metadata"], finalizers=kept or None)}


def _selects(owner: Obj, obj: Obj) -> bool:
    selector, labels = owner["spec"].get("selector"), labels_of(obj)
    if not selector:
        return False
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return bool(selector.items() <= labels.items())  # a ReplicationController's
    if selector.get("matchExpressions"):
        return convert(selector, LabelSelector).matches(labels)
    return bool((selector.get("matchLabels") or {}).items() <= labels.items())


def _adopt(store: Store, resource: str, owner: Obj, obj: Obj, finalizer: str) -> Obj:
    def change(current: Obj) -> Obj:
        meta = current["metadata"]
        references = [*(meta.get("ownerReferences") or ()), reference_to(owner)]
        finalizers = [*(meta.get("finalizers") or ()), *([finalizer] if finalizer else [])]
        fields = {"ownerReferences": references, "finalizers": finalizers or None}
        return {**current, "metadata": merged(meta, **fields)}

    return store.modify(resource, *key_of(obj), change)


def _release(store: Store, resource: str, obj: Obj, uid: str, finalizer: str) -> None:
    def change(current: Obj) -> Obj:
        meta = current["metadata"]
        kept = [each for each in meta["ownerReferences"] if each["uid"] != uid]
        released = {**current, "metadata": merged(meta, ownerReferences=kept or None)}
        return without_finalizer(released, finalizer)

    store.modify(resource, *key_of(obj), change)
