"""The objects of a text, whatever they are wrapped in: lists, lists of one kind, arrays, rows."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from reactive_desched.errors import ConfigError
from reactive_desched.plan.json_text import JsonText
from reactive_desched.primitives.decode_errors import UNDECODABLE

__all__ = ["Given", "objects"]

_LIST: Final = "List"
_NOTHING: Final = Raw(b"null")
# As kubectl and the API write it; other orders take a second look.
_USUAL: Final = re.compile(
    rb'\s*\{\s*"(?:apiVersion"\s*:\s*"([^"\\]*)"\s*,\s*"kind"\s*:\s*"([^"\\]*)"'
    rb'|kind"\s*:\s*"([^"\\]*)"\s*,\s*"apiVersion"\s*:\s*"([^"\\]*)")'
)


class Given(Struct, frozen=True, gc=False):
    """One object as it was given, undecoded; without a kind nobody can say what it is."""

    kind: str
    api_version: str
    raw: Raw


class _Head(Struct, frozen=True, gc=False, rename="camel"):
    kind: str | None = None
    api_version: str | None = None


class _ListMetadata(Struct, frozen=True, gc=False, rename="camel"):
    next_page: str | None = msgspec.field(name="continue", default=None)
    remaining_item_count: int | None = None


Paged = Callable[[str, int | None], None]
"""Told of a list that is one page of several: its kind, and how many objects it lacks if known."""


def objects(text: JsonText, paged: Paged) -> Iterator[Given]:
    """Yield every object of a text; raises ConfigError where it is no JSON."""
    while sign := text.next():
        if sign == b"[":
            for _ in text.elements():
                yield from _value(text, paged)
        else:
            yield from _value(text, paged)


def _value(text: JsonText, paged: Paged) -> Iterator[Given]:
    """Yield what one value holds; a null, as YAML's empty documents are, holds nothing."""
    sign = text.next()
    if sign == b"{":
        yield from _object(text, paged)
    elif not _is_null(text.take()):
        raise ConfigError(
            f"{text.name}: what ends at byte {text.at} is no Kubernetes object; write the file"
            " with kubectl get … -o json"
        )


def _object(text: JsonText, paged: Paged) -> Iterator[Given]:
    begins = text.at
    head: dict[str, Raw] = {}
    nameless: list[Given] = []
    is_list = False
    for key in text.members():
        if key == "items" and text.next() == b"[":
            is_list = True
            for given in _items(text, paged):
                if given.kind:
                    yield given
                else:
                    nameless.append(given)
        else:
            head[key] = text.take()
    kind, version = _told(head, "kind"), _told(head, "apiVersion")
    if not is_list and not (kind.endswith(_LIST) and _is_null(head.get("items"))):
        yield Given(kind, version, text.since(begins))
        return
    _look_for_more(head, kind or _LIST, paged)
    of_one_kind = kind.removesuffix(_LIST)
    yield from (Given(of_one_kind, version, given.raw) for given in nameless)


def _is_null(value: Raw | None) -> bool:
    return value is not None and bytes(value).strip() == b"null"


def _items(text: JsonText, paged: Paged) -> Iterator[Given]:
    """Yield the items of a list, those of lists within it as well."""
    for _ in text.elements():
        given = _given(text.take())
        if given.kind.endswith(_LIST):
            yield from objects(JsonText(memoryview(given.raw), text.name), paged)
        else:
            yield given


def _given(raw: Raw) -> Given:
    """Find out what an object says it is; what is no object says nothing."""
    if (usual := _USUAL.match(memoryview(raw))) is not None:
        version, kind = (usual[1], usual[2]) if usual[3] is None else (usual[4], usual[3])
        return Given(kind.decode(errors="replace"), version.decode(errors="replace"), raw)
    try:
        head = msgspec.json.decode(raw, type=_Head)
    except UNDECODABLE:
        return Given("", "", raw)
    return Given(head.kind or "", head.api_version or "", raw)


def _told(members: Mapping[str, Raw], key: str) -> str:
    """Return a text among an object's members, nothing where it is none."""
    try:
        return msgspec.json.decode(members.get(key, _NOTHING), type=str | None) or ""
    except UNDECODABLE:
        return ""


def _look_for_more(members: Mapping[str, Raw], kind: str, paged: Paged) -> None:
    """Tell of a list that was fetched in pages and of which this is only one."""
    try:
        metadata = msgspec.json.decode(members.get("metadata", _NOTHING), type=_ListMetadata | None)
    except UNDECODABLE:
        return
    if metadata is not None and metadata.next_page:
        paged(kind, metadata.remaining_item_count)
