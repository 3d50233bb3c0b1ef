"""Warns of fields that a type does not have, or rejects them, as the client asks."""

from aiohttp import web
from msgspec import Struct

from reactive_desched.sim.http.conform import Conformed, conform, conform_metadata
from reactive_desched.sim.http.duplicate_fields import NOTHING_TWICE, Twice
from reactive_desched.sim.http.rendering import encode
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import StatusError, bad_request, cause
from reactive_desched.sim.views import View

__all__ = ["Typed", "typed_body", "typed_result"]

_MODES = ("", "Ignore", "Strict", "Warn")


class Typed(Struct, frozen=True):
    """An object with only the fields of its type, and the warnings for the client."""

    obj: Obj
    warnings: tuple[str, ...] = ()


def typed_body(request: web.Request, view: View, body: Obj, twice: Twice = NOTHING_TWICE) -> Typed:
    """Read an object a client sent; raise 400 for what its type cannot hold.

    Of the fields that it has `twice` the last counts.
    """
    kind, mode = view.resource, _mode(request)
    read = _read(view, body)
    if why := _why_not(mode, read.unknown, read.wrong, twice):
        text = f'in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{kind.kind} {text}: {why}")
    return Typed(read.obj, _warnings(mode, read.unknown, twice))


def typed_config(request: web.Request, view: View, config: Obj, twice: Twice) -> Typed:
    """Read an object that is applied: whatever is asked for, it has no field beyond its type."""
    kind, mode = view.resource, _mode(request)
    read = _read(view, config)
    if why := _why_not(mode, (), read.wrong, NOTHING_TWICE):
        text = f'in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{kind.kind} {text}: {why}")
    if read.unknown:
        faults = [f".{path}: field not declared in schema" for path in read.unknown]
        said = faults[0] if len(faults) == 1 else "\n  ".join(("errors:", *faults))
        meta = config.get("metadata") or {}
        named = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"
        what = f"({named}; {kind.group}/{kind.version}, Kind={kind.kind})"
        raise StatusError(500, "", f"failed to create typed patch object {what}: {said}")
    if mode == "Strict" and twice.refusal:
        text = "error strict decoding YAML: error converting YAML to JSON"
        raise bad_request(f"{text}: {', '.join(twice.refusal)}")
    return Typed(read.obj, _warnings(mode, (), twice))


def typed_result(
    request: web.Request, view: View, patched: Obj, shown: str, twice: Twice = NOTHING_TWICE
) -> Typed:
    """Decode a patched object; raise 422 where it does not fit its type, or the patch is refused.

    `shown` is what the refusal shows, and `twice` what the patch has twice.
    """
    mode, read = _mode(request), _read(view, patched)
    if why := _why_not(mode, read.unknown, read.wrong, twice):
        text = f"Invalid value: {encode(shown).decode()}: {why}"
        details = {"causes": [cause("FieldValueInvalid", "patch", text)]}
        raise StatusError(422, "Invalid", f' "" is invalid: patch: {text}', details=details)
    return Typed(read.obj, _warnings(mode, read.unknown, twice))


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


def _why_not(mode: str, unknown: tuple[str, ...], wrong: tuple[str, ...], twice: Twice) -> str:
    if wrong:
        return wrong[0]
    if mode == "Strict" and (complaints := (*twice.refusal, *_unknown(unknown))):
        return "strict decoding error: " + ", ".join(complaints)
    return ""


def _warnings(mode: str, unknown: tuple[str, ...], twice: Twice) -> tuple[str, ...]:
    return (*twice.warnings, *_unknown(unknown)) if mode in ("", "Warn") else ()


def _unknown(fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f'unknown field "{path}"' for path in fields)
