"""Reads and writes managedFields, and changes them as an update or an apply does."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.sim.clock import Clock, rfc3339
from reactive_desched.sim.http.ownership.field_paths import (
    Path,
    as_text,
    closed,
    from_tree,
    to_tree,
)
from reactive_desched.sim.http.ownership.typed_values import (
    Comparison,
    Type,
    check_keys,
    compare,
    empty,
    fields_of,
    merge,
    type_of,
    without,
)
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import StatusError, bad_request, cause
from reactive_desched.sim.store import Owners, OwnersOfWrite

__all__ = ["Applied", "Manager", "applied", "owned_after", "owners_of_controllers"]

_APPLY: Final = "Apply"
_UPDATE: Final = "Update"
_CONTROLLERS: Final = "kube-controller-manager"
_KUBELET: Final = "kubelet"
_SCHEDULER: Final = "kube-scheduler"
_UNOWNED: Final = ("binding", "finalize")
_BEFORE: Final = "before-first-apply"
_KUBECTL: Final = "kubectl"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_FORGET: Final[list[Obj]] = [{}]
_STATUS: Final = ("f:status",)
_NOT_OWNED: Final = frozenset(
    {
        *((f"f:{name}",) for name in ("apiVersion", "kind", "metadata")),
        *(
            ("f:metadata", f"f:{name}")
            for name in ("name", "namespace", "creationTimestamp", "selfLink", "uid")
        ),
        *(("f:metadata", f"f:{name}") for name in ("generation", "managedFields")),
        ("f:metadata", "f:resourceVersion"),
    }
)


class Manager(Struct, frozen=True):
    """A client as managedFields name it."""

    name: str
    api_version: str
    operation: str = _UPDATE
    subresource: str = ""

    @property
    def applies(self) -> bool:
        """Return whether its fields are those that it applied."""
        return self.operation == _APPLY


class _Owned(Struct, frozen=True):
    """The fields of a manager; `tree` are the same as they are stored, where that is so."""

    paths: frozenset[Path]
    since: str
    tree: Obj | None = None


_NOTHING: Final = _Owned(frozenset(), "")


class Applied(Struct, frozen=True):
    """The object after an apply, and the owners of its fields."""

    obj: Obj
    managed_fields: list[Obj]


def owned_after(
    resource: Resource, current: Obj | None, new: Obj, asked: Any, writer: Manager, now: float
) -> list[Obj]:
    """Return the managedFields after a create, an update or a patch.

    `asked` are those in the body: an empty entry alone says that all are forgotten. Objects that
    the simulation made have none, and get none by an update.
    """
    stored = None if current is None else current["metadata"].get("managedFields")
    if current is not None and not stored:
        return []
    kind = type_of(resource)
    if asked == stored:
        owners = _read(stored, are_ours=True)
    else:
        owners = _read(asked) if asked == _FORGET else _read(asked) or _read(stored, are_ours=True)
    change = compare(kind, empty(kind) if current is None else current, new)
    return _written(_updated(owners, change, writer, _not_owned(resource, writer), now))


def owners_of_controllers(clock: Clock) -> OwnersOfWrite:
    """Return who owns what the simulated controllers, kubelets and scheduler write.

    The API server's own writes, a binding and the end of a namespace, have no owner.
    """

    def owners(resource: Resource, obj: Obj, subresource: str) -> Owners:
        name = _component(resource, obj) if subresource == "status" else _CONTROLLERS
        writer = Manager(name, resource.api_version, _UPDATE, subresource)

        def after(old: Obj | None, new: Obj) -> list[Obj]:
            if subresource in _UNOWNED:
                return list((old or {}).get("metadata", {}).get("managedFields") or ())
            return owned_after(resource, old, new, None, writer, clock.now())

        return after

    return owners


def _component(resource: Resource, obj: Obj) -> str:
    """Return which part of a cluster writes a status."""
    if resource.plural == "nodes":
        return _KUBELET
    if resource.plural == "pods":
        return _KUBELET if obj["spec"].get("nodeName") else _SCHEDULER
    return _CONTROLLERS


def applied(
    resource: Resource,
    current: Obj | None,
    config: Obj,
    writer: Manager,
    now: float,
    *,
    force: bool,
) -> Applied:
    """Merge an applied object into the current one; raise 409 where another owns what changes."""
    if (config.get("metadata") or {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    kind, ignored = type_of(resource), _not_owned(resource, writer)
    check_keys(kind, config)
    live = empty(kind) if current is None else current
    owners = _read(live.get("metadata", {}).get("managedFields"), are_ours=True)
    if current is not None and not owners:
        before = Manager(_BEFORE, writer.api_version)
        owners = _updated({}, compare(kind, empty(kind), current), before, ignored, now)
    last = owners.get(writer, _NOTHING)
    wanted = frozenset(_less(fields_of(kind, config), ignored))
    others = {each: owned for each, owned in owners.items() if each != writer}
    all_owned = wanted.union(*(owned.paths for owned in others.values()))
    doomed = closed(last.paths) - closed(all_owned)
    new = without(kind, merge(kind, live, config), doomed)
    change = compare(kind, live, new)
    if not force:
        allowed = _last_applied(kind, live) if writer.name == _KUBECTL else frozenset()
        _refuse_conflicts(others, change.written, allowed)
    left = _after(others, change)
    is_same = wanted == last.paths and not change.all
    left[writer] = _Owned(wanted, last.since if is_same else rfc3339(now))
    return Applied(new, _written(left))


def _not_owned(resource: Resource, writer: Manager) -> frozenset[Path]:
    """Return what no manager owns who writes through this endpoint, nor what lies below it."""
    return _NOT_OWNED | {_STATUS} if resource.has_status and not writer.subresource else _NOT_OWNED


def _less(paths: Iterable[Path], ignored: frozenset[Path]) -> Iterator[Path]:
    has_no_status = _STATUS in ignored
    for path in paths:
        if path not in ignored and not (has_no_status and path[:1] == _STATUS):
            yield path


def _updated(
    owners: Mapping[Manager, _Owned],
    change: Comparison,
    writer: Manager,
    ignored: frozenset[Path],
    now: float,
) -> dict[Manager, _Owned]:
    mine = owners.get(writer, _NOTHING)
    left = _after({each: owned for each, owned in owners.items() if each != writer}, change)
    paths = frozenset(_less((mine.paths - change.removed) | change.written, ignored))
    left[writer] = mine if paths == mine.paths else _Owned(paths, rfc3339(now))
    return left


def _after(owners: Mapping[Manager, _Owned], change: Comparison) -> dict[Manager, _Owned]:
    """Return owners without what another has changed."""
    changed = change.all
    return {
        each: owned
        if owned.paths.isdisjoint(changed)
        else _Owned(owned.paths - changed, owned.since)
        for each, owned in owners.items()
    }


def _last_applied(kind: Type, live: Obj) -> frozenset[Path]:
    """Return what `kubectl apply` of a client said and still is: it may take that over."""
    text = (live.get("metadata", {}).get("annotations") or {}).get(_LAST_APPLIED, "")
    try:
        said = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except DECODE_ERRORS:
        return frozenset()
    return frozenset(fields_of(kind, said)) - compare(kind, said, live).all


def _refuse_conflicts(
    others: Mapping[Manager, _Owned], changed: frozenset[Path], allowed: frozenset[Path]
) -> None:
    found = [
        (_named(each), as_text(path))
        for each, owned in others.items()
        for path in sorted((owned.paths & changed) - allowed)
    ]
    if not found:
        return
    if len(found) == 1:
        (who, path) = found[0]
        said = f"Apply failed with 1 conflict: conflict with {who}: {path}"
    else:
        said = f"Apply failed with {len(found)} conflicts: {_grouped(found)}"
    causes = [cause("FieldManagerConflict", path, f"conflict with {who}") for who, path in found]
    raise StatusError(409, "Conflict", said, details={"causes": causes})


def _grouped(found: Iterable[tuple[str, str]]) -> str:
    by_manager: dict[str, list[str]] = {}
    for who, path in found:
        by_manager.setdefault(who, []).append(path)
    lines = (
        line
        for who in sorted(by_manager)
        for line in (f"conflicts with {who}:", *(f"- {path}" for path in by_manager[who]))
    )
    return "\n".join(lines)


def _named(manager: Manager) -> str:
    said = f'"{manager.name}"'
    if manager.subresource:
        said += f' with subresource "{manager.subresource}"'
    if manager.applies:
        return said
    return f"{said} using {manager.api_version}"


def _read(entries: Any, *, are_ours: bool = False) -> dict[Manager, _Owned]:
    """Read managedFields; what a client wrote there and cannot be read counts as none.

    Those that `are_ours` are stored as they are again where nothing of them changes.
    """
    return dict(_entries(entries if isinstance(entries, list) else (), are_ours=are_ours))


def _entries(entries: Iterable[Any], *, are_ours: bool) -> Iterator[tuple[Manager, _Owned]]:
    for entry in entries:
        tree = entry.get("fieldsV1") if isinstance(entry, dict) else None
        if isinstance(tree, dict) and entry.get("operation") in (_APPLY, _UPDATE):
            fields = ("manager", "apiVersion", "operation", "subresource")
            name, version, operation, part = (str(entry.get(field) or "") for field in fields)
            manager = Manager(name, version, operation, part)
            since, kept = str(entry.get("time") or ""), tree if are_ours else None
            yield manager, _Owned(frozenset(from_tree(tree)), since, kept)


def _written(owners: Mapping[Manager, _Owned]) -> list[Obj]:
    """Return managedFields: those that apply first, then by time and name."""
    order = sorted(
        ((each, owned) for each, owned in owners.items() if owned.paths),
        key=lambda item: (item[0].operation, item[1].since, item[0].name, item[0].subresource),
    )
    return [
        {
            "manager": each.name,
            "operation": each.operation,
            "apiVersion": each.api_version,
            **({"time": owned.since} if owned.since else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": to_tree(owned.paths) if owned.tree is None else owned.tree,
            **({"subresource": each.subresource} if each.subresource else {}),
        }
        for each, owned in order
    ]
