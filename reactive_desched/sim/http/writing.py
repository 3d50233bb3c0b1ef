"""Answers to create, update, patch and delete."""

from typing import Any

import msgspec
from aiohttp import web

from reactive_desched.sim.annotation_warnings import annotation_warnings
from reactive_desched.sim.deletion import DeleteOptions, default_policy
from reactive_desched.sim.http.field_validation import (
    Typed,
    typed_body,
    typed_config,
    typed_result,
)
from reactive_desched.sim.http.handler_context import HandlerContext
from reactive_desched.sim.http.messages import (
    APPLIED,
    answer,
    json_body,
    media_type,
    object_body,
    said_twice,
    success,
)
from reactive_desched.sim.http.options import (
    ListOptions,
    dry_run_asked,
    invalid_options,
    is_forced,
)
from reactive_desched.sim.http.ownership.managers import Manager, applied, owned_after
from reactive_desched.sim.http.rendering import Rendering, encode
from reactive_desched.sim.http.target import Target
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.patches import PATCHES, STRATEGIC
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import (
    StatusError,
    bad_request,
    cause,
    conflict,
    invalid,
    not_found,
)
from reactive_desched.sim.store import Owners
from reactive_desched.sim.structural.json_paths import with_value
from reactive_desched.sim.views import SCALES, View, scale_of, with_scale

__all__ = [
    "create",
    "create_token",
    "delete_many",
    "delete_one",
    "delete_options",
    "patch",
    "update",
]

_CREATED_BY_UPDATE = ("leases", "events")
_LONGEST_MANAGER = 128
_SCALES = View(SCALES)
_POLICIES = ("Foreground", "Background", "Orphan")
_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set"
    " propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress"
    " this warning"
)


async def create(
    parts: HandlerContext, request: web.Request, target: Target, rendering: Rendering
) -> web.StreamResponse:
    """Create an object: 201."""
    sent = await object_body(request, target.view)
    stored = _create(parts, request, target, _placed(sent.obj, target))
    shown = rendering.one(stored, parts.store.clock.now())
    return answer(request, shown, 201, warnings=_warnings(target, sent))


async def create_token(
    parts: HandlerContext, request: web.Request, target: Target
) -> web.StreamResponse:
    """Issue a token for a ServiceAccount: 201."""
    body = await json_body(request)
    if not isinstance(body, dict) or not isinstance(body.get("spec") or {}, dict):
        raise bad_request("the request body must be a TokenRequest object")
    issued = parts.identities.issue(target.key_namespace, target.name, body.get("spec") or {})
    head = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    meta = {"name": target.name, "namespace": target.namespace}
    return answer(request, {**body, **head, "metadata": meta, **issued}, 201)


async def update(
    parts: HandlerContext, request: web.Request, target: Target, rendering: Rendering
) -> web.StreamResponse:
    """Replace an object, or the part of it a subresource owns: 200."""
    if target.subresource == "scale":
        return await _update_scale(parts, request, target)
    sent = await object_body(request, target.view)
    obj, write, code = _placed(sent.obj, target), _update, 200
    if _current(parts, target) is None and target.view.storage in _CREATED_BY_UPDATE:
        write, code = _create, 201
    shown = rendering.one(write(parts, request, target, obj), parts.store.clock.now())
    return answer(request, shown, code, warnings=_warnings(target, sent))


async def patch(
    parts: HandlerContext, request: web.Request, target: Target, rendering: Rendering
) -> web.StreamResponse:
    """Change an object as described: 200; server-side apply creates what is missing: 201."""
    media = media_type(request)
    if media in APPLIED:
        return await _apply(parts, request, target, rendering)
    patches = [each for each in PATCHES if each != STRATEGIC or not target.resource.is_custom]
    known = (*patches, *APPLIED)
    if media not in known:
        text = (
            "the body of the request was in an unknown format - accepted media types include:"
            f" {', '.join(known)}"
        )
        raise StatusError(415, "UnsupportedMediaType", text)
    if "force" in request.query:
        text = "Forbidden: may not be specified for non-apply patch"
        raise invalid_options("PatchOptions", "force", text)
    change = await json_body(request)
    current = _current(parts, target)
    if current is None:
        raise not_found(target.resource, target.name)
    if target.subresource == "scale":
        changed = PATCHES[media](scale_of(target.resource, current), change)
        read = typed_result(request, _SCALES, changed, _shown(media, change, changed))
        return _store_scale(parts, request, target, read.obj)
    changed = PATCHES[media](target.view.shown(current), change)
    if not isinstance(changed.get("metadata"), dict):
        raise bad_request("the patch leaves an object without metadata")
    _check_identity(target, current, changed)
    twice = await said_twice(request)
    meant = typed_result(request, target.view, changed, _shown(media, change, changed), twice)
    stored = _update(parts, request, target, _placed(meant.obj, target))
    shown = rendering.one(stored, parts.store.clock.now())
    return answer(request, shown, warnings=_warnings(target, meant))


def _check_identity(target: Target, current: Obj, changed: Obj) -> None:
    """Refuse a patch of another object of that name: the API server says that a uid stays.

    One that was made from another version is refused for that.
    """
    old, new = current["metadata"], changed["metadata"]
    if new.get("uid", old["uid"]) == old["uid"] or not new["uid"]:
        return
    if new.get("resourceVersion") == old["resourceVersion"]:
        text = f'Invalid value: "{new["uid"]}": field is immutable'
        fault = cause("FieldValueInvalid", "metadata.uid", text)
        raise invalid(target.resource, target.name, [fault, fault])
    new["uid"] = old["uid"]


async def _apply(
    parts: HandlerContext, request: web.Request, target: Target, rendering: Rendering
) -> web.StreamResponse:
    """Merge an object that one manager applies, and take from it what it applies no more."""
    if not request.query.get("fieldManager"):
        text = "Required value: is required for apply patch"
        raise invalid_options("PatchOptions", "fieldManager", text)
    force = is_forced(request.query)
    config = await json_body(request)
    if not isinstance(config, dict):
        raise bad_request("the request body must be an object")
    _check_applied(config, target)
    current = _current(parts, target)
    if current is None and target.subresource:
        raise not_found(target.resource, target.name)
    if current is None and (uid := (config.get("metadata") or {}).get("uid")):
        text = f"uid mismatch: the provided object specified uid {uid}, and no existing object was"
        raise conflict(target.resource, target.name, f"{text} found")
    if current is None and not name_of(config):
        text = "was undeterminable: name must be provided"
        raise bad_request(f"the name of the object ({target.name} based on URL) {text}")
    if target.subresource == "scale":
        replicas = (config.get("spec") or {}).get("replicas")
        config = with_value({}, target.resource.scale.wanted, replicas)
    meant = typed_config(request, target.view, config, await said_twice(request))
    live = None if current is None else target.view.shown(current)
    now = parts.store.clock.now()
    placed = _placed(meant.obj, target)
    result = applied(target.resource, live, placed, _writer(request, target), now, force=force)
    owners: Owners = lambda _old, _new: result.managed_fields  # noqa: E731 -- they are found
    obj = typed_result(request, target.view, result.obj, encode(result.obj).decode()).obj
    write, code = (_create, 201) if current is None else (_update, 200)
    stored = write(parts, request, target, _placed(obj, target), owners)
    if target.subresource == "scale":
        shown = scale_of(target.resource, stored)
    else:
        shown = rendering.one(stored, now)
    return answer(request, shown, code, warnings=_warnings(target, meant))


def _check_applied(config: Obj, target: Target) -> None:
    """Refuse an applied object that does not say that it is of the kind of the URL."""
    kind = target.resource
    wanted = (kind.api_version, kind.kind)
    if target.subresource == "scale":
        wanted = ("autoscaling/v1", "Scale")
    version, name = str(config.get("apiVersion") or ""), str(config.get("kind") or "")
    if (version, name) != wanted:
        group = version if "/" in version else f"/{version}"
        raise bad_request(f"invalid object type: {group}, Kind={name}")


def _warnings(target: Target, sent: Typed) -> tuple[str, ...]:
    return (*sent.warnings, *annotation_warnings(target.resource.kind, sent.obj))


def _shown(media: str, change: Any, changed: Obj) -> str:
    """Return what a refusal of a patch shows: the object that it makes, or the patch itself."""
    return _as_go_prints(change) if media == STRATEGIC else encode(changed).decode()


def _as_go_prints(value: Any) -> str:
    """Return a JSON value as Go prints a map."""
    match value:
        case dict():
            pairs = (f"{key}:{_as_go_prints(value[key])}" for key in sorted(value))
            return f"map[{' '.join(pairs)}]"
        case list():
            return f"[{' '.join(map(_as_go_prints, value))}]"
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
    return str(value)


async def delete_one(
    parts: HandlerContext, request: web.Request, target: Target, rendering: Rendering
) -> web.StreamResponse:
    """Delete an object: 200 with the object, or with a `Status`, as a real API server answers."""
    options, warnings = await delete_options(request, target.resource)
    deleted = parts.store.delete(target.view.storage, target.key_namespace, target.name, options)
    kind = target.resource
    pending = _current(parts, target) is not None
    if options.dry_run:
        pending = bool(deleted["metadata"].get("finalizers"))
    if pending or kind.returns_deleted:
        return answer(request, rendering.one(deleted, parts.store.clock.now()), warnings=warnings)
    group = {"group": kind.group} if kind.group else {}
    uid = deleted["metadata"]["uid"]
    details = {"name": target.name, **group, "kind": kind.plural, "uid": uid}
    return answer(request, success(details=details), warnings=warnings)


async def delete_many(
    parts: HandlerContext,
    request: web.Request,
    target: Target,
    chosen: ListOptions,
    rendering: Rendering,
) -> web.StreamResponse:
    """Delete everything selected: 200 with the list of what was there."""
    options, warnings = await delete_options(request, target.resource)
    store, storage = parts.store, target.view.storage
    found = [
        obj for obj in store.list(storage, target.namespace or None) if chosen.wanted.matches(obj)
    ]
    for obj in found:
        store.delete(storage, obj["metadata"].get("namespace", ""), name_of(obj), options)
    kind = target.resource
    return answer(
        request,
        {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(store.rv)},
            "items": list(rendering.items(found)),
        },
        warnings=warnings,
    )


async def delete_options(
    request: web.Request, kind: Resource
) -> tuple[DeleteOptions, tuple[str, ...]]:
    """Read the options from the body or, if it is empty, from the query; say what to warn of."""
    body = await json_body(request)
    if body is not None and not isinstance(body, dict):
        raise bad_request("delete options must be an object")
    asked = body or _from_query(request)
    options = options_from(asked, request.query.getall("dryRun", []), default_policy(kind))
    is_said = asked.get("propagationPolicy") is not None or "orphanDependents" in asked
    is_surprise = kind.plural == "jobs" and not is_said and options.propagation_policy == "Orphan"
    return options, (_PODS_STAY,) if is_surprise else ()


def options_from(body: Obj, dry_run: list[str], default: str) -> DeleteOptions:
    """Turn `DeleteOptions` as clients write them into ours."""
    conditions = body.get("preconditions") or {}
    policy = body.get("propagationPolicy")
    if policy and "orphanDependents" in body:
        raise bad_request("orphanDependents and propagationPolicy cannot both be set")
    if policy is None and (orphans := body.get("orphanDependents")) is not None:
        policy = "Orphan" if orphans else "Background"
    if policy is None:
        policy = default
    if policy not in _POLICIES:
        known = ", ".join(f'"{each}"' for each in (*_POLICIES, "nil"))
        text = f'Unsupported value: "{policy}": supported values: {known}'
        raise invalid_options("DeleteOptions", "propagationPolicy", text)
    grace = body.get("gracePeriodSeconds")
    if grace is not None and not isinstance(grace, int):
        raise bad_request("gracePeriodSeconds must be a whole number")
    return DeleteOptions(
        grace_period_seconds=grace,
        uid=conditions.get("uid"),
        resource_version=conditions.get("resourceVersion"),
        propagation_policy=policy,
        dry_run=dry_run_asked([*dry_run, *(body.get("dryRun") or ())], "DeleteOptions"),
    )


def _from_query(request: web.Request) -> Obj:
    found: Obj = {}
    if grace := request.query.get("gracePeriodSeconds"):
        try:
            found["gracePeriodSeconds"] = msgspec.convert(grace, int, strict=False)
        except msgspec.ValidationError as error:
            raise bad_request(f"gracePeriodSeconds: {error}") from error
    if policy := request.query.get("propagationPolicy"):
        found["propagationPolicy"] = policy
    if orphan := request.query.get("orphanDependents"):
        found["orphanDependents"] = orphan == "true"
    return found


def _placed(obj: Obj, target: Target) -> Obj:
    """Give the object the namespace and name of the URL; raise 400 when it says otherwise."""
    meta: Obj = dict(obj.get("metadata") or {})
    namespace, name = meta.get("namespace"), meta.get("name")
    if target.resource.namespaced:
        if namespace and target.namespace and namespace != target.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the"
                " request"
            )
        meta["namespace"] = target.namespace or namespace or "default"
    else:
        meta.pop("namespace", None)
    if target.name:
        if name and name != target.name:
            raise bad_request(
                f"the name of the object ({name}) does not match the name on the URL"
                f" ({target.name})"
            )
        meta["name"] = target.name
    return {**obj, "metadata": meta}


def _current(parts: HandlerContext, target: Target) -> Obj | None:
    return parts.store.get(target.view.storage, target.key_namespace, target.name)


def _create(
    parts: HandlerContext,
    request: web.Request,
    target: Target,
    obj: Obj,
    owners: Owners | None = None,
) -> Obj:
    parts.identities.check_write(request, target.resource, obj, None)
    return parts.store.create(
        target.view.storage,
        target.view.taken(obj),
        dry_run=dry_run_asked(request.query.getall("dryRun", [])),
        owners=owners or _owners(parts, request, target, obj),
        check=target.view.check,
    )


def _update(
    parts: HandlerContext,
    request: web.Request,
    target: Target,
    obj: Obj,
    owners: Owners | None = None,
) -> Obj:
    parts.identities.check_write(request, target.resource, obj, _current(parts, target))
    return parts.store.update(
        target.view.storage,
        target.view.taken(obj),
        subresource="" if target.subresource == "scale" else target.subresource,
        dry_run=dry_run_asked(request.query.getall("dryRun", []), _options(request)),
        owners=owners or _owners(parts, request, target, obj),
        check=target.view.check,
    )


def _owners(parts: HandlerContext, request: web.Request, target: Target, obj: Obj) -> Owners:
    """Return who owns which fields after a write that is no apply."""
    asked = (obj.get("metadata") or {}).get("managedFields")
    kind, writer = parts.store.kinds[target.view.storage], _writer(request, target)
    now = parts.store.clock.now()
    return lambda old, new: owned_after(kind, old, new, asked, writer, now)


def _writer(request: web.Request, target: Target) -> Manager:
    agent = request.headers.get("User-Agent", "").partition("/")[0]
    name = (request.query.get("fieldManager") or agent)[:_LONGEST_MANAGER]
    operation = "Apply" if media_type(request) in APPLIED else "Update"
    return Manager(name, target.resource.api_version, operation, target.subresource)


async def _update_scale(
    parts: HandlerContext, request: web.Request, target: Target
) -> web.Response:
    scale: Any = await json_body(request)
    if not isinstance(scale, dict):
        raise bad_request("the request body must be a Scale object")
    meant = typed_body(request, _SCALES, scale)
    return _store_scale(parts, request, target, _placed(meant.obj, target))


def _store_scale(
    parts: HandlerContext, request: web.Request, target: Target, scale: Obj
) -> web.Response:
    current = _current(parts, target)
    if current is None:
        raise not_found(target.resource, target.name)
    stored = _update(parts, request, target, with_scale(target.resource, current, scale))
    return answer(request, scale_of(target.resource, stored))


def _options(request: web.Request) -> str:
    return "PatchOptions" if request.method == "PATCH" else "UpdateOptions"
