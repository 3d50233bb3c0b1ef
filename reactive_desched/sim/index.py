"""Keeps the pods of each node and of each owner, so that no caller searches the store."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from reactive_desched.sim.objects import Obj, namespace_of
from reactive_desched.sim.pods import Key, controller_uid, key_of, node_of
from reactive_desched.sim.store import Event

__all__ = ["PodIndex"]

_NONE: Final[Mapping[Key, Obj]] = {}


class PodIndex:
    """Pods by node, by controlling owner, or by namespace without one; bounded by the pods."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[Key, Obj]] = {}
        self._by_owner: dict[str, dict[Key, Obj]] = {}
        self._unowned: dict[str, dict[Key, Obj]] = {}

    def observe(self, event: Event) -> None:
        """Follow a pod event; must be called before anyone asks about the same pod."""
        key = key_of(event.object)
        before = event.previous
        after = None if event.type == "DELETED" else event.object
        _move(self._by_node, key, before, after, node_of)
        _move(self._by_owner, key, before, after, controller_uid)
        _move(self._unowned, key, before, after, _namespace_if_unowned)

    def on_node(self, node: str) -> Iterable[Obj]:
        """Return the pods bound to a node, ended and terminating ones included."""
        return tuple(self._by_node.get(node, _NONE).values())

    def owned_by(self, uid: str) -> list[Obj]:
        """Return the pods whose controlling owner has this uid."""
        return list(self._by_owner.get(uid, _NONE).values())

    def claimable_by(self, owner: Obj) -> list[Obj]:
        """Return the pods of an owner, and those of its namespace that have no controller."""
        unowned = self._unowned.get(namespace_of(owner), _NONE)
        return [*self.owned_by(owner["metadata"]["uid"]), *unowned.values()]

    def nodes(self) -> Iterable[str]:
        """Return the names of the nodes that pods are bound to, existing or not."""
        return tuple(self._by_node)


def _namespace_if_unowned(pod: Obj) -> str:
    return "" if controller_uid(pod) else namespace_of(pod)


def _move(
    shelves: dict[str, dict[Key, Obj]],
    key: Key,
    before: Obj | None,
    after: Obj | None,
    shelf_of: Callable[[Obj], str],
) -> None:
    old = "" if before is None else shelf_of(before)
    new = "" if after is None else shelf_of(after)
    if old and old != new:
        shelf = shelves[old]
        shelf.pop(key, None)
        if not shelf:
            del shelves[old]
    if new and after is not None:
        shelves.setdefault(new, {})[key] = after
