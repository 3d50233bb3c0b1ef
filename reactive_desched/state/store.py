"""Objects that need nothing but being looked up: namespaces, budgets, claims, classes."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from reactive_desched.model.changes import Change
from reactive_desched.model.objects import ClusterObject

T = TypeVar("T", bound=ClusterObject)


def _no_group(_: ClusterObject) -> str:
    return ""


class Store(Generic[T]):
    """Objects by key, and by group where asked; one change when an object differs."""

    def __init__(
        self, make_change: Callable[[T], Change], group: Callable[[T], str] = _no_group
    ) -> None:
        self._make_change = make_change
        self._group = group
        self._objects: dict[str, T] = {}
        self._groups: dict[str, dict[str, T]] = {}

    def get(self, key: str) -> T | None:
        """Return the object of this key."""
        return self._objects.get(key)

    def keys(self) -> list[str]:
        """Return a snapshot of all keys."""
        return list(self._objects)

    def by_group(self, group: str) -> Iterable[T]:
        """Return the objects of a group, for example the budgets of a namespace."""
        return self._groups.get(group, {}).values()

    def upsert(self, obj: T) -> list[Change]:
        """Take in an object; older news of the same uid is ignored."""
        old = self._objects.get(obj.key)
        same = old is not None and old.uid == obj.uid
        if old is not None and same and 0 < obj.resource_version <= old.resource_version:
            return []
        self._objects[obj.key] = obj
        self._groups.setdefault(self._group(obj), {})[obj.key] = obj
        return [self._make_change(obj)]

    def remove(self, obj: T) -> list[Change]:
        """Forget an object; an older incarnation of its name does no harm."""
        old = self._objects.get(obj.key)
        if old is None or (obj.uid and old.uid != obj.uid):
            return []
        del self._objects[obj.key]
        group = self._groups[self._group(old)]
        del group[obj.key]
        if not group:
            del self._groups[self._group(old)]
        return [self._make_change(old)]
