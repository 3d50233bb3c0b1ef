"""JSON patch, RFC 6902: a list of operations on paths, all or nothing."""

from typing import Any

from reactive_desched.sim.objects import Obj, clone
from reactive_desched.sim.status import StatusError, bad_request

__all__ = ["apply_json_patch"]

_MOST_OPERATIONS = 10_000
_REFUSAL = "the server rejected our request due to an error in our request"


def apply_json_patch(target: Obj, patch: Any) -> Obj:
    """Return the patched object; the target is left as it was."""
    if not isinstance(patch, list) or not all(isinstance(step, dict) for step in patch):
        raise bad_request("a JSON patch must be a list of operations")
    if len(patch) > _MOST_OPERATIONS:
        text = f"a JSON patch may hold {_MOST_OPERATIONS} operations, this one holds {len(patch)}"
        raise StatusError(413, "RequestEntityTooLarge", text)
    result = clone(target)
    for step in patch:
        result = _applied(result, step)
    if not isinstance(result, dict):
        raise _refused("the patch leaves no object")
    return result


def _applied(document: Any, step: Obj) -> Any:
    operation, path = step.get("op"), _pointer(step.get("path"))
    match operation:
        case "add":
            return _add(document, path, clone(step.get("value")))
        case "replace":
            return _replace(document, path, clone(step.get("value")))
        case "remove":
            return _remove(document, path)
        case "test":
            if _find(document, path) != step.get("value"):
                raise _refused(f"testing value {step.get('path')} failed")
            return document
        case "copy":
            return _add(document, path, clone(_find(document, _pointer(step.get("from")))))
        case "move":
            source = _pointer(step.get("from"))
            value = _find(document, source)
            return _add(_remove(document, source), path, value)
    raise _refused(f"unknown operation {operation!r}")


def _refused(why: str) -> StatusError:
    """Refuse a patch as the real server does, which does not say `why`."""
    del why
    return StatusError(422, "Invalid", _REFUSAL, details={})


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise bad_request(f"{text!r} is not a JSON pointer: it must start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _find(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _child(document, part)
    return document


def _child(parent: Any, part: str) -> Any:
    if isinstance(parent, dict) and part in parent:
        return parent[part]
    if isinstance(parent, list) and part.isdecimal() and int(part) < len(parent):
        return parent[int(part)]
    raise _refused(f"nothing at {part!r}")


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _find(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        parent.insert(_position(parent, last), value)
    else:
        raise _refused(f"nothing can be added at {last!r}")
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    """Replace a value; one that an object lacks is added, as the real server does it."""
    parent = _find(document, path[:-1]) if path else None
    if not (isinstance(parent, dict) and path[-1] not in parent):
        document = _remove(document, path)
    return _add(document, path, value)


def _position(items: list[Any], part: str) -> int:
    if part == "-":
        return len(items)
    if not part.isdecimal() or int(part) > len(items):
        raise _refused(f"{part!r} is not a position in a list of {len(items)}")
    return int(part)


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        return None
    parent, last = _find(document, path[:-1]), path[-1]
    _child(parent, last)
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[int(last)]
    return document
