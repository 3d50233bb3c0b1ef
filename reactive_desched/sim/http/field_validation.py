"""Warns of fields that a type does not have, or rejects them, as the client asks."""

from aiohttp import web
from msgspec import Struct

from reactive_desched.sim.http.conform import Conformed, conform, conform_metadata
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import StatusError, bad_request, cause, invalid
from reactive_desched.sim.views import View

__all__ = ["Typed", "typed_body", "typed_result"]

_MODES = ("", "Ignore", "Strict", "Warn")


class Typed(Struct, frozen=True):
    """An object with only the fields of its type, and the warnings for the client."""

    obj: Obj
    warnings: tuple[str, ...] = ()


def typed_body(request: web.Request, view: View, body: Obj, twice: tuple[str, ...] = ()) -> Typed:
    """Read an object a client sent; raise 400 for what its type cannot hold.

    `twice` are the fields that it has more than once: the last of each counts.
    """
    kind, mode = view.resource, _mode(request)
    read = _read(view, body)
    if why := _why_not(mode, read.unknown, read.wrong, twice):
        text = f'in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{kind.kind} {text}: {why}")
    return Typed(read.obj, _warnings(mode, read.unknown, twice))


def typed_config(request: web.Request, view: View, config: Obj) -> Typed:
    """Read an object that is applied: whatever is asked for, it has no field beyond its type."""
    kind, mode = view.resource, _mode(request)
    read = _read(view, config)
    if why := _why_not(mode, (), read.wrong):
        text = f'in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{kind.kind} {text}: {why}")
    if read.unknown:
        faults = [f".{path}: field not declared in schema" for path in read.unknown]
        said = faults[0] if len(faults) == 1 else "\n  ".join(("errors:", *faults))
        meta = config.get("metadata") or {}
        named = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"
        what = f"({named}; {kind.api_version}, Kind={kind.kind})"
        raise StatusError(500, "", f"failed to create typed patch object {what}: {said}")
    return Typed(read.obj)


def typed_result(request: web.Request, view: View, name: str, patched: Obj) -> Typed:
    """Decode a patched object; raise 422 where it does not fit its type."""
    kind, mode = view.resource, _mode(request)
    read = _read(view, patched)
    if why := _why_not(mode, read.unknown, read.wrong):
        raise invalid(kind, name, [cause("FieldValueInvalid", "patch", f"Invalid value: {why}")])
    return Typed(read.obj, _warnings(mode, read.unknown))


def _read(view: View, obj: Obj) -> Conformed:
    """Read an object as its type; of a custom kind it is that of its schema."""
    if view.schema is None:
        return conform(view.resource, obj)
    read, unknown = view.schema.pruned(obj)
    meta = conform_metadata(read.get("metadata") or {})
    return Conformed({**read, "metadata": meta.obj}, (*meta.unknown, *unknown), meta.wrong)


def _mode(request: web.Request) -> str:
    mode = request.query.get("fieldValidation", "")
    if mode in _MODES:
        return mode
    known = ", ".join(f'"{each}"' for each in _MODES)
    text = f'Unsupported value: "{mode}": supported values: {known}'
    fault = cause("FieldValueNotSupported", "fieldValidation", text)
    kind = {"POST": "CreateOptions", "PATCH": "PatchOptions"}.get(request.method, "UpdateOptions")
    raise StatusError(
        422,
        "Invalid",
        f'{kind}.meta.k8s.io "" is invalid: fieldValidation: {text}',
        details={"group": "meta.k8s.io", "kind": kind, "causes": [fault]},
    )


def _why_not(
    mode: str, unknown: tuple[str, ...], wrong: tuple[str, ...], twice: tuple[str, ...] = ()
) -> str:
    if wrong:
        return wrong[0]
    if mode == "Strict" and (complaints := _complaints(unknown, twice)):
        return "strict decoding error: " + ", ".join(complaints)
    return ""


def _warnings(mode: str, unknown: tuple[str, ...], twice: tuple[str, ...] = ()) -> tuple[str, ...]:
    return _complaints(unknown, twice) if mode in ("", "Warn") else ()


def _complaints(unknown: tuple[str, ...], twice: tuple[str, ...]) -> tuple[str, ...]:
    return (
        *(f'duplicate field "{path}"' for path in twice),
        *(f'unknown field "{path}"' for path in unknown),
    )
