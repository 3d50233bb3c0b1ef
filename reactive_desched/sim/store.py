"""The one place where the simulated cluster's objects live and change."""

import bisect
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from reactive_desched.sim import admission, deletion, metadata, validation
from reactive_desched.sim.addresses import admit_addresses
from reactive_desched.sim.clock import Clock
from reactive_desched.sim.custom_kinds import Kinds
from reactive_desched.sim.defaults import apply_create_defaults, apply_defaults
from reactive_desched.sim.deletion import DeleteOptions
from reactive_desched.sim.history import Event, History
from reactive_desched.sim.limit_ranges import apply_limit_ranges, check_claim
from reactive_desched.sim.objects import Obj, clone, merged, name_of, namespace_of, storage_key
from reactive_desched.sim.pod_defaults import qos_class
from reactive_desched.sim.quotas import GROWING, check_quotas
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import already_exists, not_found
from reactive_desched.sim.writes import next_form

__all__ = ["Check", "DeleteOptions", "Event", "Owners", "OwnersOfWrite", "Store"]

_NAME_ATTEMPTS = 8
_NO_OPTIONS = DeleteOptions()
_OWNED = "managedFields"
# Named here because inside the class `list` is the method.
Events: TypeAlias = list[Event]
Objects: TypeAlias = list[Obj]
Owners: TypeAlias = Callable[[Obj | None, Obj], list[Obj]]
"""From an object as it was and as it will be to its managedFields."""
OwnersOfWrite: TypeAlias = Callable[[Resource, Obj, str], Owners]
"""From a kind, an object as it will be, and the subresource to what a controller then owns."""
Check: TypeAlias = Callable[[Obj | None, Obj], None]
"""Raises StatusError where an object as it was may not become what it will be."""


class _Table:
    """The objects of one kind, kept in the order of their storage keys."""

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}
        self.order: list[str] = []

    def put(self, key: str, obj: Obj) -> None:
        if key not in self.objects:
            bisect.insort(self.order, key)
        self.objects[key] = obj

    def drop(self, key: str) -> None:
        del self.objects[key]
        del self.order[bisect.bisect_left(self.order, key)]

    def within(self, namespace: str | None) -> list[Obj]:
        if namespace is None:
            return [self.objects[key] for key in self.order]
        first = bisect.bisect_left(self.order, storage_key(namespace, ""))
        # "0" is the character after "/": every key of the namespace lies before it.
        last = bisect.bisect_left(self.order, f"{namespace}0")
        return [self.objects[key] for key in self.order[first:last]]


class Store:
    """Objects, versions and events of a cluster; single-threaded, every write is atomic.

    Stored objects are never changed in place: a write replaces them. Callers must treat what
    they are given as read-only, and may keep it. Writes copy what they are given. Two stores whose
    `rng` draws the same have the same uids unless their salts differ.
    """

    def __init__(
        self, clock: Clock, rng: random.Random, *, history: int = 10_000, uid_salt: int = 0
    ) -> None:
        self.clock = clock
        self._rng = rng
        self._uid_salt = uid_salt
        # Microseconds since the epoch, so that a restart never takes versions backwards.
        self.rv = int(clock.now() * 1_000_000)
        self._owners_of_own_writes: OwnersOfWrite | None = None
        self.compactions = 0
        """How often history was forgotten on purpose; caches of old states check it."""
        self.kinds = Kinds()
        self._tables = {kind.plural: _Table() for kind in self.kinds}
        self._history = History(history, self.rv)
        self._listeners: dict[object, Callable[[Event], None]] = {}
        self._undelivered: deque[Event] = deque()
        self._delivering = False

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        """Return the object, or None; `namespace` is "" for cluster-scoped kinds."""
        return self._tables[resource].objects.get(storage_key(namespace, name))

    def list(self, resource: str, namespace: str | None = None) -> list[Obj]:
        """Return the objects in storage order; None means all namespaces."""
        return self._tables[resource].within(namespace)

    def create(
        self,
        resource: str,
        obj: Obj,
        *,
        dry_run: bool = False,
        owners: Owners | None = None,
        check: Check | None = None,
        draws_uid: bool = True,
    ) -> Obj:
        """Store a new object and return it as stored; raise StatusError when refused."""
        kind = self.kinds[resource]
        new = clone(obj)
        new["metadata"] = metadata.for_create(
            kind, new, self.clock.now(), self._rng, self._uid_salt, draws=draws_uid
        )
        self._name(kind, new)
        admission.admit_namespace(kind, new, lambda name: self.get("namespaces", "", name))
        apply_create_defaults(kind, new)
        apply_defaults(kind, new)
        new = _owned(None, new, owners)
        if resource == "pods":
            admission.admit_service_account(new, partial(self.get, "serviceaccounts"))
            admission.admit_priority(new, self.list("priorityclasses"))
            apply_limit_ranges(new, self.list("limitranges", namespace_of(new)))
            new["status"]["qosClass"] = qos_class(new["spec"])
        if resource == "persistentvolumeclaims":
            admission.admit_storage_class(new, self.list("storageclasses"))
            check_claim(new, self.list("limitranges", namespace_of(new)))
        validation.check_create(kind, new)
        if check is not None:
            check(None, new)
        if resource == "services":
            admit_addresses(new, None, self.list("services"))
        if (there := self.get(resource, namespace_of(new), name_of(new))) is not None:
            is_leaving = "deletionTimestamp" in there["metadata"]
            raise already_exists(kind, name_of(new), is_leaving=is_leaving)
        self._check_quotas(kind, new)
        return new if dry_run else self._commit("ADDED", resource, new, None)

    def update(
        self,
        resource: str,
        obj: Obj,
        *,
        subresource: str = "",
        dry_run: bool = False,
        owners: Owners | None = None,
        check: Check | None = None,
    ) -> Obj:
        """Replace an object, or the part of it a subresource owns; return it as stored.

        "" writes everything but the status, "status" only the status, "finalize" the spec of a
        namespace, "resize" the resources of a pod's containers, and "binding" is for this
        process alone: it writes spec and status together.
        """
        namespace = namespace_of(obj) if self.kinds[resource].namespaced else ""
        current = self._existing(resource, namespace, name_of(obj))
        metadata.check_preconditions(self.kinds[resource], current, obj)
        return self._write(
            resource,
            current,
            clone(obj),
            subresource,
            dry_run=dry_run,
            owners=owners,
            check=check,
        )

    def modify(
        self,
        resource: str,
        namespace: str,
        name: str,
        change: Callable[[Obj], Obj],
        *,
        subresource: str = "",
    ) -> Obj:
        """Read, change and write back in one step; `change` is given a copy it may alter."""
        current = self._existing(resource, namespace, name)
        return self._write(resource, current, change(clone(current)), subresource, dry_run=False)

    def replace_status(self, resource: str, namespace: str, name: str, status: Obj) -> Obj:
        """Write a status in place of the one that there is; it must not be altered afterwards.

        Nothing is copied, as `modify` does: an object of thousands of parts takes a while.
        """
        current = self._existing(resource, namespace, name)
        return self._write(
            resource, current, {**current, "status": status}, "status", dry_run=False
        )

    def delete(
        self, resource: str, namespace: str, name: str, options: DeleteOptions = _NO_OPTIONS
    ) -> Obj:
        """Delete, or mark for deletion; return the object as it was left or as it last was."""
        kind = self.kinds[resource]
        current = self._existing(resource, namespace, name)
        deletion.check_protection(kind, current)
        deletion.check_preconditions(kind, current, options)
        planned = deletion.plan(kind, current, options, self.clock.now())
        if options.dry_run:
            return planned.obj
        if planned.gone:
            return self._commit("DELETED", resource, planned.obj, current)
        if planned.obj == current:
            return current
        return self._commit("MODIFIED", resource, planned.obj, current)

    def define(self, definition: Obj) -> None:
        """Store and serve the kind of a CustomResourceDefinition."""
        self.kinds.define(definition)
        self._tables.setdefault(definition["spec"]["names"]["plural"], _Table())

    def has(self, resource: str) -> bool:
        """Say whether there is a kind of this plural, or was one."""
        return resource in self._tables

    def name_owners_by(self, rule: OwnersOfWrite | None) -> None:
        """Say who owns what parts of this process write into objects that name their owners."""
        self._owners_of_own_writes = rule

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` after each write, in order of version; return the way to stop it.

        A listener may write: what it causes is delivered after every listener has seen the present
        event. What it raises reaches the writer.
        """
        handle = object()
        self._listeners[handle] = listener
        return lambda: self._listeners.pop(handle, None) and None

    def since(self, resource: str, rv: int) -> Events:
        """Return the events of a kind after `rv`; raise Expired (410) if some are forgotten."""
        return self._history.since(resource, rv)

    def list_at(self, resource: str, rv: int) -> Objects:
        """Return every object of a kind as it was at `rv`, in storage order; raise Expired."""
        if rv == self.rv:
            return self.list(resource)
        objects = dict(self._tables[resource].objects)
        for event in reversed(self._history.since(resource, rv)):
            if event.previous is None:
                objects.pop(event.key, None)
            else:
                objects[event.key] = event.previous
        return [objects[key] for key in sorted(objects)]

    def compact(self) -> None:
        """Forget all history, so that resuming from any older version answers 410."""
        self._history.forget(self.rv)
        self.compactions += 1

    def _existing(self, resource: str, namespace: str, name: str) -> Obj:
        found = self.get(resource, namespace, name)
        if found is None:
            raise not_found(self.kinds[resource], name)
        return found

    def _name(self, kind: Resource, obj: Obj) -> None:
        meta = obj["metadata"]
        if meta.get("name") or not meta.get("generateName"):
            return
        for _ in range(_NAME_ATTEMPTS):
            meta["name"] = metadata.generated_name(meta["generateName"], self._rng)
            if self.get(kind.plural, namespace_of(obj), meta["name"]) is None:
                return

    def _write(
        self,
        resource: str,
        current: Obj,
        incoming: Obj,
        subresource: str,
        *,
        dry_run: bool,
        owners: Owners | None = None,
        check: Check | None = None,
    ) -> Obj:
        kind = self.kinds[resource]
        new = next_form(kind, current, incoming, subresource)
        if owners is None and self._owners_of_own_writes and current["metadata"].get(_OWNED):
            owners = self._owners_of_own_writes(kind, new, subresource)
        new = _owned(current, new, owners)
        if check is not None:
            check(current, new)
        if resource == "services" and not subresource:
            admit_addresses(new, current, self.list("services"))
        if new == current:
            return current
        if resource in GROWING and not subresource:
            self._check_quotas(kind, new, current)
        if dry_run:
            return new
        if _is_released(new):
            return self._commit("DELETED", resource, new, current)
        return self._commit("MODIFIED", resource, new, current)

    def _check_quotas(self, kind: Resource, new: Obj, current: Obj | None = None) -> None:
        if kind.namespaced and (quotas := self.list("resourcequotas", namespace_of(new))):
            others = partial(self.list, kind.plural, namespace_of(new))
            check_quotas(kind, new, quotas, others, self.clock.now(), current)

    def _commit(self, what: str, resource: str, obj: Obj, previous: Obj | None) -> Obj:
        self.rv += 1
        new = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.rv)}}
        event = Event(what, resource, new, previous, self.rv)
        if what == "DELETED":
            self._tables[resource].drop(event.key)
        else:
            self._tables[resource].put(event.key, new)
        self._history.append(event)
        self._undelivered.append(event)
        self._deliver()
        return new

    def _deliver(self) -> None:
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._undelivered:
                event = self._undelivered.popleft()
                for listener in tuple(self._listeners.values()):
                    listener(event)
        finally:
            self._delivering = False


def _owned(current: Obj | None, new: Obj, owners: Owners | None) -> Obj:
    """Return an object with the managedFields after a client's write."""
    if owners is None:
        return new
    return {**new, "metadata": merged(new["metadata"], managedFields=owners(current, new) or None)}


def _is_released(obj: Obj) -> bool:
    """Return whether the last obstacle to a deletion under way has just been removed."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if obj["kind"] == "Namespace" and obj["spec"].get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")
