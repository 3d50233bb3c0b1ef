"""The objects of a text, whatever they are wrapped in: lists, lists of one kind, arrays, rows."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from reactive_desched.errors import ConfigError
from reactive_desched.plan.json_text import JsonText
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

__all__ = ["InputObject", "read_objects"]

_LIST: Final = "List"
_NULL: Final = Raw(b"null")
_FLAGS: Final[Mapping[tuple[str, str], str]] = {
    ("descheduler", "DeschedulerPolicy"): "--policy",
    ("reactive-desched", "ReactiveSettings"): "--settings",
    ("v1", "Config"): "--kubeconfig",
}
"""Which flag takes a document that is no object of a cluster, by its API group and kind."""

# As kubectl and the API write it; other orders take a second look.
_COMMON_HEAD: Final = re.compile(
    rb'\s*\{\s*"(?:apiVersion"\s*:\s*"([^"\\]*)"\s*,\s*"kind"\s*:\s*"([^"\\]*)"'
    rb'|kind"\s*:\s*"([^"\\]*)"\s*,\s*"apiVersion"\s*:\s*"([^"\\]*)")'
)


class InputObject(Struct, frozen=True, gc=False):
    """One object of a file, not yet decoded; `kind` is empty where the file does not name it."""

    kind: str
    api_version: str
    raw: Raw

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]


class _Head(Struct, frozen=True, gc=False, rename="camel"):
    kind: str | None = None
    api_version: str | None = None


class _ListMetadata(Struct, frozen=True, gc=False, rename="camel"):
    next_page: str | None = msgspec.field(name="continue", default=None)
    remaining_item_count: int | None = None


OnPartialList = Callable[[str, int | None], None]
"""Called for an incomplete list: its kind, and the number of missing objects if known."""


def read_objects(text: JsonText, paged: OnPartialList) -> Iterator[InputObject]:
    """Yield every object of a text; raises ConfigError where it is no JSON."""
    while sign := text.next():
        if sign == b"[":
            for _ in text.elements():
                yield from _value(text, paged)
        else:
            yield from _value(text, paged)


def _value(text: JsonText, paged: OnPartialList) -> Iterator[InputObject]:
    """Yield what one value holds; a null, as YAML's empty documents are, holds nothing."""
    sign = text.next()
    if sign == b"{":
        yield from _object(text, paged)
    elif not _is_null(value := text.read_value()):
        what = "is HTML or XML," if bytes(value).startswith(b'"<') else "is"
        raise ConfigError(
            f"{text.name}: what ends at byte {text.at} {what} no Kubernetes object; write the file"
            " with kubectl get … -o json"
        )


def _object(text: JsonText, paged: OnPartialList) -> Iterator[InputObject]:
    begins = text.at
    head: dict[str, Raw] = {}
    nameless: list[InputObject] = []
    is_list = False
    for key in text.members():
        if key == "items" and text.next() == b"[":
            is_list = True
            for item in _items(text, paged):
                if item.kind:
                    yield item
                else:
                    nameless.append(item)
        else:
            head[key] = text.read_value()
    kind, version = _text_member(head, "kind"), _text_member(head, "apiVersion")
    if not is_list and not (kind.endswith(_LIST) and _is_null(head.get("items"))):
        _check_is_object(text.name, kind, version)
        yield InputObject(kind, version, text.slice_from(begins))
        return
    _report_partial_list(head, kind or _LIST, paged)
    of_one_kind = kind.removesuffix(_LIST)
    yield from (InputObject(of_one_kind, version, item.raw) for item in nameless)


def _check_is_object(name: str, kind: str, version: str) -> None:
    """Raise ConfigError for a document that another flag takes."""
    if (flag := _FLAGS.get((version.partition("/")[0], kind))) is not None:
        raise ConfigError(
            f"{name}: this is a {kind}, which {flag} takes; -f takes the objects of a cluster, as "
            "kubectl get … -o json writes them"
        )


def _is_null(value: Raw | None) -> bool:
    return value is not None and bytes(value).strip() == b"null"


def _items(text: JsonText, paged: OnPartialList) -> Iterator[InputObject]:
    """Yield the items of a list, those of lists within it as well."""
    for _ in text.elements():
        item = _input_object(text.read_value())
        if item.kind.endswith(_LIST):
            yield from read_objects(JsonText(memoryview(item.raw), text.name), paged)
        else:
            yield item


def _input_object(raw: Raw) -> InputObject:
    """Return the apiVersion and kind of an object; none for a value that is no object."""
    if (match := _COMMON_HEAD.match(memoryview(raw))) is not None:
        version, kind = (match[1], match[2]) if match[3] is None else (match[4], match[3])
        return InputObject(kind.decode(errors="replace"), version.decode(errors="replace"), raw)
    try:
        head = msgspec.json.decode(raw, type=_Head)
    except DECODE_ERRORS:
        return InputObject("", "", raw)
    return InputObject(head.kind or "", head.api_version or "", raw)


def _text_member(members: Mapping[str, Raw], key: str) -> str:
    """Return a text among an object's members, nothing where it is none."""
    try:
        return msgspec.json.decode(members.get(key, _NULL), type=str | None) or ""
    except DECODE_ERRORS:
        return ""


def _report_partial_list(members: Mapping[str, Raw], kind: str, paged: OnPartialList) -> None:
    """Report a list of which this is one page of several."""
    try:
        metadata = msgspec.json.decode(members.get("metadata", _NULL), type=_ListMetadata | None)
    except DECODE_ERRORS:
        return
    if metadata is not None and metadata.next_page:
        paged(kind, metadata.remaining_item_count)
