"""The query options of list, watch and get, checked as the API machinery checks them."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.json import encode

from reactive_desched.errors import SelectorError
from reactive_desched.model.labels import Selector, parse_selector
from reactive_desched.sim.fields import FieldSelector, parse_fields
from reactive_desched.sim.objects import Obj, labels_of
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import StatusError, bad_request, cause

__all__ = [
    "ListOptions",
    "Wanted",
    "dry_run_asked",
    "invalid_options",
    "is_forced",
    "parse_list_options",
]

_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "Forbidden:": "FieldValueForbidden",
        "Unsupported": "FieldValueNotSupported",
        "Required": "FieldValueRequired",
    }
)
_MATCHES = ("Exact", "NotOlderThan")
_TRUE, _FALSE = ("true", "1", "t", "T", "True", "TRUE"), ("false", "0", "f", "F", "False", "FALSE")


class Wanted(Struct, frozen=True):
    """Selects the objects that a client wants to see."""

    labels: Selector
    fields: FieldSelector
    namespace: str | None = None

    @property
    def selects(self) -> bool:
        """Return whether anything is filtered out besides other namespaces."""
        return bool(self.labels.requirements or self.fields.terms)

    def matches(self, obj: Obj) -> bool:
        """Return whether the client wants this object."""
        if self.namespace and obj["metadata"].get("namespace") != self.namespace:
            return False
        return self.labels.matches(labels_of(obj)) and self.fields.matches(obj)


class ListOptions(Struct, frozen=True, kw_only=True):
    """A list or watch request, read and validated."""

    wanted: Wanted
    watch: bool = False
    bookmarks: bool = False
    version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    timeout_s: int = 0
    initial_events: bool | None = None

    @property
    def rv(self) -> int:
        """The resource version as a number; 0 also stands for none."""
        return int(self.version or 0)


def parse_list_options(
    kind: Resource, query: Mapping[str, str], namespace: str | None, *, watch_list: bool
) -> ListOptions:
    """Read the query; raise 400 for what cannot be read and 422 for what makes no sense."""
    options = ListOptions(
        wanted=_wanted(kind, query, namespace),
        watch=bool(_flag(query, "watch")),
        bookmarks=bool(_flag(query, "allowWatchBookmarks")),
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=_number(query, "limit"),
        token=query.get("continue", ""),
        timeout_s=_number(query, "timeoutSeconds"),
        initial_events=_flag(query, "sendInitialEvents"),
    )
    faults = _watch_faults(options, enabled=watch_list) if options.watch else _list_faults(options)
    if options.version and not options.version.isdecimal():
        said = f'resourceVersion: Invalid value: "{options.version}": strconv.ParseUint: parsing'
        said += f' "{options.version}": invalid syntax'
        if options.watch:
            raise StatusError(500, "", said)
        raise bad_request(f"invalid resource version: {said}")
    if faults:
        raise _invalid(faults)
    if options.token and options.version not in ("", "0"):
        text = "specifying resource version is not allowed when using continue"
        raise bad_request(text)
    return options


def dry_run_asked(values: list[str], options: str = "CreateOptions") -> bool:
    """Read `dryRun`, whose only value is All; `options` names the kind of the request's options."""
    if any(value not in ("", "All") for value in values):
        text = f'Unsupported value: {encode(values).decode()}: supported values: "All"'
        raise _invalid([_fault("dryRun", text)], options)
    return "All" in values


def is_forced(query: Mapping[str, str]) -> bool:
    """Read `force` of server-side apply: anything but these two is true."""
    return query.get("force", "false").lower() not in ("false", "0")


def invalid_options(options: str, field: str, text: str) -> StatusError:
    """Say that the options of a request are not valid."""
    return _invalid([_fault(field, text)], options)


def _wanted(kind: Resource, query: Mapping[str, str], namespace: str | None) -> Wanted:
    try:
        labels = parse_selector(query.get("labelSelector", ""))
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
    return Wanted(labels, parse_fields(kind, query.get("fieldSelector", "")), namespace)


def _flag(query: Mapping[str, str], name: str) -> bool | None:
    text = query.get(name)
    if text is None:
        return None
    if text in _TRUE or text == "":
        return True
    if text in _FALSE:
        return False
    raise bad_request(f"query parameter {name} must be true or false, not {text!r}")


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not text.removeprefix("-").isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(int(text), 0)


def _list_faults(options: ListOptions) -> list[Obj]:
    faults = []
    if options.initial_events is not None:
        text = "Forbidden: sendInitialEvents is forbidden for list"
        faults.append(_fault("sendInitialEvents", text))
    match = options.match
    if not match:
        return faults
    if not options.version:
        text = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        faults.append(_fault("resourceVersionMatch", text))
    if options.token:
        text = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
        faults.append(_fault("resourceVersionMatch", text))
    if match not in _MATCHES:
        text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        faults.append(_fault("resourceVersionMatch", text))
    if match == "Exact" and options.version == "0":
        text = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        faults.append(_fault("resourceVersionMatch", text))
    return faults


def _watch_faults(options: ListOptions, *, enabled: bool) -> list[Obj]:
    if options.initial_events is None:
        if options.match:
            text = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents"
            faults = [_fault("resourceVersionMatch", f"{text} is provided")]
            if options.match != "NotOlderThan":
                text = f'Unsupported value: "{options.match}": supported values: "NotOlderThan"'
                faults.append(_fault("resourceVersionMatch", text))
            return faults
        return []
    if not enabled:
        text = "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature"
        return [_fault("sendInitialEvents", f"{text} gate is enabled")]
    if options.match != "NotOlderThan":
        text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        return [_fault("resourceVersionMatch", text)]
    return []


def _fault(field: str, text: str) -> Obj:
    return cause(_REASONS.get(text.partition(" ")[0], "FieldValueInvalid"), field, text)


def _invalid(faults: list[Obj], options: str = "ListOptions") -> StatusError:
    texts = ", ".join(f"{fault['field']}: {fault['message']}" for fault in faults)
    texts = f"[{texts}]" if len(faults) > 1 else texts
    return StatusError(
        422,
        "Invalid",
        f'{options}.meta.k8s.io "" is invalid: {texts}',
        details={"group": "meta.k8s.io", "kind": options, "causes": faults},
    )
