"""Recordings of `kwokctl snapshot export --record`, which earlier versions called `record`.

YAML documents: the objects of a cluster, and then a ResourcePatch for each change. Every time in
them is written as its distance from the beginning of the recording, which is not in the file.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, BinaryIO, Final

from reactive_desched.errors import RecordingError
from reactive_desched.policy.yaml.scalars import parse_key, parse_scalar
from reactive_desched.recording.imports.objects import Json, Note, ObjectReader, later
from reactive_desched.recording.imports.strategic_merge import merge
from reactive_desched.recording.items import (
    Instant,
    Item,
    ObjectChanged,
    ObjectFound,
    PictureBegun,
    PictureEnded,
    Verb,
)
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.text.times import format_timestamp

__all__ = ["PATCH_KIND", "read_kwok"]

PATCH_KIND: Final = "ResourcePatch"
_PATCH_GROUP: Final = "action.kwok.x-k8s.io"
MAX_DOCUMENT_BYTES: Final = 4 * 2**20
"""So long one object may be: the API server takes none that is half as long."""

MAX_OBJECTS: Final = 1_000_000
_MAX_LINE_BYTES: Final = MAX_DOCUMENT_BYTES

_AGAIN: Final = "record again with kwokctl"
_GZIP: Final = b"\x1f\x8b"
_SEPARATOR: Final = re.compile(rb"---(\s|$)")
_OFFSET: Final = re.compile(r"\$\(time-offset-nanosecond (-?[0-9]{1,19})\)")
_MAY_BE_ALIAS: Final = re.compile(r"(?:^|[\s\[{,:-])\*[^\s*]", re.MULTILINE)
_NS: Final = 10**9
_BUDGETS: Final = "poddisruptionbudgets"
_LACKS: Final = (
    "the file does not say when it was begun: its times count from the moment that was given",
    "it has no measured use of nodes and pods: plugins that go by it find nothing",
    "it has no policy, settings or pauses, and no answers to evictions: name the policy to try",
    "changes between the list of a resource and its watch may be missing",
)


def read_kwok(file: BinaryIO, name: str, began_s: float, note: Note) -> Iterator[Item]:
    """Yield the items of a recording that was begun at a time, in seconds since the epoch.

    At the end `note` gets what is missing. Raises RecordingError with the place and the remedy.
    """
    yield from _KwokReader(name, began_s).read(_uncompressed(file), note)


class _KwokReader:
    def __init__(self, name: str, began_s: float) -> None:
        self._name: Final = name
        self._began_s: Final = began_s
        self._objects: Final = ObjectReader()
        self._known: Final[dict[tuple[str, str, str], Json]] = {}
        self._line = 1
        self._at = Instant(began_s, 0.0)

    def read(self, file: BinaryIO, note: Note) -> Iterator[Item]:
        in_picture, unknown = True, 0
        yield PictureBegun(self._at)
        for document in self._documents(file):
            if not self._is_patch(document):
                if not in_picture:
                    raise self._error(
                        f"an object follows a ResourcePatch; those come last: {_AGAIN}"
                    )
                if (found := self._found(document)) is not None:
                    yield found
                continue
            if in_picture:
                in_picture = False
                yield PictureEnded(self._at, self._objects.counts())
            if (changed := self._changed(document)) is not None:
                yield changed
            else:
                unknown += 1
        if in_picture:
            yield PictureEnded(self._at, self._objects.counts())
            note("it has no changes: it is one picture of a cluster, which `plan -f` reads as well")
        for sentence in self._lacks():
            note(sentence)
        if unknown:
            note(f"{unknown} changes are left out: of kinds that are not watched, or unreadable")

    def _lacks(self) -> Iterator[str]:
        yield from _LACKS
        yield from self._objects.missing()
        if _BUDGETS not in self._objects.counts():
            yield f"kwokctl records no PodDisruptionBudgets unless --filter names {_BUDGETS}.policy"

    def _is_patch(self, document: Json) -> bool:
        version = document.get("apiVersion")
        group = version.partition("/")[0] if isinstance(version, str) else ""
        return document.get("kind") == PATCH_KIND and group == _PATCH_GROUP

    def _found(self, document: Json) -> ObjectFound | None:
        if (resource := self._objects.resource_of(document)) is None:
            return None
        metadata = document.get("metadata")
        if not isinstance(metadata, dict):
            raise self._error("this object has no metadata; is it a file of kwokctl?")
        key = resource, str(metadata.get("namespace") or ""), str(metadata.get("name"))
        self._remember(key, document)
        obj = self._objects.read(resource, document)
        return None if obj is None else ObjectFound(self._at, resource, obj)

    def _changed(self, patch: Json) -> ObjectChanged | None:
        target, resource = patch.get("target"), patch.get("resource")
        after, method = patch.get("durationNanosecond"), patch.get("method")
        if not (isinstance(target, dict) and isinstance(resource, dict) and isinstance(after, int)):
            raise self._error(
                "this ResourcePatch lacks its target, resource or durationNanosecond; record again"
                " with kwokctl"
            )
        self._at = later(self._at, self._began_s, after / _NS)  # it may be written a little late
        name = str(resource.get("resource"))
        group = str(resource.get("group") or "")
        kinds = (
            each for each in WATCHED_KINDS.values() if (each.group, each.plural) == (group, name)
        )
        if (kind := next(kinds, None)) is None:
            return None
        name = kind.resource
        key = name, str(target.get("namespace") or ""), str(target.get("name"))
        before = self._known.get(key)
        if method == "delete":
            self._known.pop(key, None)
            return None if before is None else self._item(name, Verb.DELETED, before)
        if method not in ("create", "patch"):
            raise self._error(f"method {method!r} is none of create, patch and delete; {_AGAIN}")
        try:
            obj = merge(None if method == "create" else before, patch.get("template"))
        except (ValueError, TypeError, RecursionError) as error:
            raise self._error(
                f"the patch of {'/'.join(key)} cannot be applied: {error}; {_AGAIN}"
            ) from error
        if not isinstance(obj, dict):
            raise self._error(f"the template of {'/'.join(key)} is no object")
        if before is None and method == "patch":
            return None  # of an object that the recording does not have
        self._remember(key, obj)
        return self._item(name, Verb.ADDED if before is None else Verb.MODIFIED, obj)

    def _item(self, resource: str, verb: Verb, obj: Json) -> ObjectChanged | None:
        read = self._objects.read(resource, obj)
        return None if read is None else ObjectChanged(self._at, resource, verb, read)

    def _remember(self, key: tuple[str, str, str], obj: Json) -> None:
        self._known[key] = obj
        if len(self._known) > MAX_OBJECTS:
            raise self._error(f"there are more than {MAX_OBJECTS:,} objects; record fewer kinds")

    def _documents(self, file: BinaryIO) -> Iterator[Json]:
        import yaml  # type: ignore[import-untyped]  # it ships no types

        for text in self._texts(file):
            try:
                if _MAY_BE_ALIAS.search(text) and any(
                    isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, _loader())
                ):
                    raise self._error(f"it has a YAML alias, which kwokctl never writes; {_AGAIN}")
                value = yaml.load(text, _loader())  # noqa: S506 -- it is a safe loader
            except (yaml.YAMLError, ValueError, RecursionError) as error:
                raise self._error(
                    f"this is no YAML: {' '.join(str(error).split())[:200]}; name a file that"
                    " `kwokctl snapshot export --record` wrote"
                ) from error
            if value is None:
                continue
            if not isinstance(value, dict):
                raise self._error(
                    "this document is no object; name a file that `kwokctl snapshot record --path`"
                    " wrote, not a snapshot of etcd"
                )
            yield value

    def _texts(self, file: BinaryIO) -> Iterator[str]:
        """Yield the text of each document, with absolute times; `_line` is where it begins."""
        lines: list[bytes] = []
        size, at = 0, 0
        while line := self._line_of(file):
            at += 1
            if _SEPARATOR.match(line):
                if lines:
                    yield self._text(lines)
                lines, size, self._line = [], 0, at + 1
                continue
            lines.append(line)
            size += len(line)
            if size > MAX_DOCUMENT_BYTES:
                raise self._error(
                    f"this document is longer than {MAX_DOCUMENT_BYTES // 2**20} MiB; no object of"
                    " a cluster is: is it a file of kwokctl?"
                )
        if lines:
            yield self._text(lines)

    def _line_of(self, file: BinaryIO) -> bytes:
        try:
            return file.readline(_MAX_LINE_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise self._error(
                f"the file cannot be read on: {error}; copy it again, or record again"
            ) from error

    def _text(self, lines: list[bytes]) -> str:
        try:
            text = b"".join(lines).decode()
        except UnicodeDecodeError as error:
            raise self._error("this is no text; is it a file of kwokctl?") from error
        return _OFFSET.sub(self._absolute, text)

    def _absolute(self, match: re.Match[str]) -> str:
        try:
            moment = datetime.fromtimestamp(self._began_s + int(match[1]) / _NS, UTC)
        except (OverflowError, ValueError, OSError):
            raise self._error(f"{match[0]} is no time that a clock shows") from None
        return format_timestamp(moment)

    def _error(self, message: str) -> RecordingError:
        return RecordingError(f"{self._name}, line {self._line}: {message}")


@cache
def _loader() -> Any:  # PyYAML ships no types
    """Return a loader by which what stands without quotes means what it means to kubectl."""
    import yaml

    class Loader(yaml.CSafeLoader):  # type: ignore[misc]  # it ships no types
        """Has `policy.yaml.scalars` read the scalars without a tag."""

        yaml_implicit_resolvers: Mapping[str, Any] = {}  # each such scalar has the tag of a text

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
            members = [(self._as_text(key), value) for key, value in node.value]
            return super().construct_mapping(yaml.MappingNode(node.tag, members), deep=deep)

        def _as_text(self, key: Any) -> Any:
            if not isinstance(key, yaml.ScalarNode) or key.style:
                return key
            if (name := parse_key(key.value)) is None:
                raise ValueError(f"{key.value or 'null'} is no key")
            return yaml.ScalarNode(key.tag, name, style="'")

    Loader.add_constructor(
        "tag:yaml.org,2002:str",
        lambda _, node: node.value if node.style else parse_scalar(node.value),
    )
    return Loader


def _uncompressed(file: BinaryIO) -> BinaryIO:
    buffered = io.BufferedReader(file) if isinstance(file, io.RawIOBase) else file
    head = buffered.peek(2)[:2] if isinstance(buffered, io.BufferedReader) else b""
    if head == _GZIP:
        unpacked: Any = gzip.GzipFile(fileobj=buffered)
        return io.BufferedReader(unpacked)
    return buffered
