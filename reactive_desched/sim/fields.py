"""Field selectors: the few paths each kind can be filtered by, compared as strings."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import bad_request

__all__ = ["FieldSelector", "parse_fields"]

_ALIASES = MappingProxyType({"spec.host": "spec.nodeName"})
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_PATHS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "pods": (
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ),
        "nodes": ("spec.unschedulable",),
        "namespaces": ("status.phase",),
        "events": (
            *(f"involvedObject.{part}" for part in _REFERENCE),
            *(f"regarding.{part}" for part in _REFERENCE),
            "reason",
            "reportingComponent",
            "reportingController",
            "source",
            "type",
        ),
        "replicationcontrollers": ("status.replicas",),
        "jobs": ("status.successful",),
        "secrets": ("type",),
        "services": ("spec.clusterIP", "spec.type"),
    }
)
_ALSO_IN_NAMESPACES = ("persistentvolumes", "storageclasses")
"""Kinds of no namespace that can be selected by it all the same."""

_COUNTS = ("status.replicas", "status.successful")
_FLAGS = ("spec.unschedulable", "spec.hostNetwork")


class _Term(Struct, frozen=True):
    path: str
    value: str
    negated: bool

    def matches(self, obj: Obj) -> bool:
        return (_value_at(obj, self.path) == self.value) != self.negated


class FieldSelector(Struct, frozen=True):
    """Terms that must all hold."""

    terms: tuple[_Term, ...] = ()

    def matches(self, obj: Obj) -> bool:
        """Return whether the object satisfies every term."""
        return all(term.matches(obj) for term in self.terms)

    @property
    def name(self) -> str:
        """The one name this selector asks for, or ""."""
        names = [t.value for t in self.terms if t.path == "metadata.name" and not t.negated]
        return names[0] if names else ""


def parse_fields(kind: Resource, text: str) -> FieldSelector:
    """Read `path=value,path!=value`; raise 400 for a path this kind cannot be filtered by."""
    return FieldSelector(tuple(_term(kind, part) for part in _split(text) if part))


def _term(kind: Resource, text: str) -> _Term:
    for operator in ("!=", "==", "="):
        path, found, value = text.partition(operator)
        if found and "=" not in path and "!" not in path:
            break
    else:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    path = _ALIASES.get(path, path)
    is_in_namespace = kind.namespaced or kind.plural in _ALSO_IN_NAMESPACES
    allowed = ("metadata.name", *(("metadata.namespace",) if is_in_namespace else ()))
    if path not in (*allowed, *_PATHS.get(kind.plural, ()), *kind.selectable):
        if kind.plural not in _PATHS and not kind.is_custom:
            known = ", ".join(f'"{each}"' for each in allowed)
            raise bad_request(f'"{path}" is not a known field selector: only {known}')
        if kind.plural == "jobs":
            raise bad_request(f'field label "{path}" not supported for Job')
        raise bad_request(f"field label not supported: {path}")
    return _Term(path, _unescaped(value), operator == "!=")


def _split(text: str) -> Iterator[str]:
    """Cut at commas that are not escaped by a backslash."""
    part, escaped = "", False
    for character in text:
        if character == "," and not escaped:
            yield part
            part = ""
        else:
            part += character
        escaped = character == "\\" and not escaped
    yield part


def _unescaped(value: str) -> str:
    plain, characters = "", iter(value)
    for character in characters:
        if character == "=":
            raise bad_request(f"invalid field selector: unescaped character in value: {value}")
        if character != "\\":
            plain += character
            continue
        following = next(characters, "")
        if following not in ("\\", ",", "=") or not following:
            raise bad_request(f"invalid field selector: invalid escape sequence in value: {value}")
        plain += following
    return plain


def _value_at(obj: Obj, path: str) -> str:
    if special := _SPECIAL.get(path):
        return special(obj)
    found: object = obj
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        return "false" if path in _FLAGS else "0" if path in _COUNTS else ""
    return str(found).lower() if isinstance(found, bool) else str(found)


def _regarding(part: str) -> Callable[[Obj], str]:
    return lambda event: str((event.get("involvedObject") or {}).get(part) or "")


def _source(event: Obj) -> str:
    component = (event.get("source") or {}).get("component")
    return str(component or event.get("reportingComponent") or "")


def _reporter(event: Obj) -> str:
    return str(event.get("reportingComponent") or "")


def _pod_ips(pod: Obj) -> str:
    return str(pod.get("status", {}).get("podIP") or "")


_SPECIAL: Mapping[str, Callable[[Obj], str]] = MappingProxyType(
    {
        "source": _source,
        "reportingController": _reporter,
        "status.podIPs": _pod_ips,
        **{f"regarding.{part}": _regarding(part) for part in _REFERENCE},
    }
)
