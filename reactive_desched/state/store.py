"""The objects of one kind by key: namespaces, budgets, claims, ReplicaSets and the like."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from reactive_desched.api.index import ObjectT
from reactive_desched.model.changes import Change, WorkloadChanged
from reactive_desched.model.objects import IntermediateOwner, OwnerReference
from reactive_desched.state.index_registry import IndexHooks

OwnerT = TypeVar("OwnerT", bound=IntermediateOwner)


class Store(Generic[ObjectT]):
    """Objects of `kind` by key; `make_change` names the change, None where indexes do.

    A later version in which nothing differs that is read of the kind, such as a Deployment's new
    status, announces no change, unless `announces_every_version`.
    """

    def __init__(
        self,
        kind: type[ObjectT],
        hooks: IndexHooks,
        make_change: Callable[[ObjectT], Change] | None,
        *,
        announces_every_version: bool = False,
    ) -> None:
        self._kind = kind
        self._hooks = hooks
        self._make_change = make_change
        self._announces_every_version = announces_every_version
        self._objects: dict[str, ObjectT] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[ObjectT]:
        return iter(self._objects.values())

    def get(self, key: str, /) -> ObjectT | None:
        """Return the object of this key."""
        return self._objects.get(key)

    def keys(self) -> list[str]:
        """Return a snapshot of all keys."""
        return list(self._objects)

    def upsert(self, obj: ObjectT) -> list[Change]:
        """Store an object unless a later version of the same uid is known; return the changes."""
        old = self._objects.get(obj.key)
        if (
            old is not None
            and old.uid == obj.uid
            and 0 < obj.resource_version <= old.resource_version
        ):
            return []
        self._objects[obj.key] = obj
        return self._changes(old, obj, obj)

    def remove(self, obj: ObjectT) -> list[Change]:
        """Remove an object, unless its name belongs to another uid by now; return the changes."""
        old = self._objects.get(obj.key)
        if old is None or (obj.uid and old.uid != obj.uid):
            return []
        del self._objects[obj.key]
        return self._changes(old, None, old)

    def _changes(self, old: ObjectT | None, new: ObjectT | None, subject: ObjectT) -> list[Change]:
        make_change, changes = self._make_change, list[Change]()
        if make_change is not None and (self._announces_every_version or _differs(old, new)):
            changes.append(make_change(subject))
        return changes + self._hooks.call(self._hooks.objects.get(self._kind, ()), old, new)


def _differs(old: Any, new: Any) -> bool:  # Any: that objects are Structs, their protocol hides
    """Say whether two versions of an object differ in more than their version."""
    if old is None or new is None:
        return True
    is_equal: bool = replace(old, resource_version=new.resource_version) == new
    return not is_equal


class ControllerStore(Generic[OwnerT]):
    """ReplicaSets, of which only the controller, the size and an opt-out matter.

    Objects with the same controller share it, so that the thousands of old ReplicaSets of a cluster
    take little memory; their size is that of their controller, and is not kept.
    """

    def __init__(self, kind: type[OwnerT], hooks: IndexHooks) -> None:
        self._kind = kind
        self._hooks = hooks
        self._controllers: dict[str, OwnerReference] = {}
        self._sizes: dict[str, int | None] = {}  # of those without a controller
        self._opt_outs: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._controllers) + len(self._sizes)

    def __iter__(self) -> Iterator[OwnerT]:
        return (owner for uid in self.keys() if (owner := self.get(uid)) is not None)

    def get(self, key: str, /) -> OwnerT | None:
        """Return the object of this uid, without its version."""
        controller = self._controllers.get(key)
        if controller is None and key not in self._sizes:
            return None
        opt_out, size = self._opt_outs.get(key), self._sizes.get(key)
        return self._kind(key, controller=controller, do_not_evict=opt_out, replicas=size)

    def keys(self) -> list[str]:
        """Return a snapshot of the uids."""
        return [*self._controllers, *self._sizes]

    def upsert(self, obj: OwnerT) -> list[Change]:
        """Store what matters of an object; a difference is announced."""
        before = self._take_out(obj.uid)
        if obj.controller is None:
            self._sizes[obj.uid] = obj.replicas
        else:
            self._controllers[obj.uid] = obj.controller
        if obj.do_not_evict is not None:
            self._opt_outs[obj.uid] = obj.do_not_evict
        return self._changes(obj.uid, before)

    def remove(self, obj: OwnerT) -> list[Change]:
        """Remove an object."""
        return self._changes(obj.uid, self._take_out(obj.uid))

    def _take_out(self, uid: str) -> OwnerT | None:
        before = self.get(uid)
        self._controllers.pop(uid, None)
        self._sizes.pop(uid, None)
        self._opt_outs.pop(uid, None)
        return before

    def _changes(self, uid: str, before: OwnerT | None) -> list[Change]:
        after = self.get(uid)
        if before == after:
            return []
        changes: list[Change] = [WorkloadChanged(uid)]
        return changes + self._hooks.call(self._hooks.objects.get(self._kind, ()), before, after)
