"""Reads traces of SimKube's tracer, as `skctl export` writes them: MessagePack, versions 2 and 3.

A trace has the workloads of a cluster and no nodes: SimKube replays it into a cluster that makes
pods and nodes anew.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO, Final
from uuid import UUID, uuid5

import msgspec
from msgspec import Struct

from reactive_desched.errors import RecordingError
from reactive_desched.recording.imports.objects import Json, Note, ObjectReader, later
from reactive_desched.recording.items import (
    Instant,
    Item,
    ObjectChanged,
    ObjectFound,
    PictureBegun,
    PictureEnded,
    Verb,
)

__all__ = ["MAX_TRACE_BYTES", "read_simkube"]

MAX_TRACE_BYTES: Final = 512 * 2**20
_VERSIONS: Final = (2, 3)
"""They differ in what they say of how long pods live, which is not read."""
_UIDS: Final = UUID("6f1a5d0e-6f0f-4a3e-9f5e-5d1c3f3b7a10")
_LACKS: Final = (
    "it has no nodes, and its pods are bound to none: SimKube's tracer leaves both out",
    "it has no status of any object, and no pods of the workloads that it follows",
    "it has no uids: each object gets one of its own",
    "it has no measured use, policy, settings or answers to evictions",
    "a policy finds nothing in it; replay it with SimKube into a cluster, and record that one",
)


class _Event(Struct, frozen=True):
    ts: int
    applied_objs: list[Json]
    deleted_objs: list[Json]


class _Trace(Struct, frozen=True):
    version: int
    events: list[_Event]


def read_simkube(file: BinaryIO, name: str, note: Note) -> Iterator[Item]:
    """Yield the items of a trace; at the end `note` gets what is missing.

    Raises RecordingError with the place and the remedy.
    """
    events = _read_trace(file, name).events
    reader = _TraceReader(name)
    began_s = float(events[0].ts) if events else 0.0
    at = Instant(began_s, 0.0)
    yield PictureBegun(at)
    for item in reader.applied(0, events[0], at) if events else ():
        yield ObjectFound(at, item.resource, item.obj)
    yield PictureEnded(at, reader.objects.counts())
    for number, event in enumerate(events):
        at = later(at, began_s, event.ts - began_s)
        if number:
            yield from reader.applied(number, event, at)
        yield from reader.deleted(number, event, at)
    for sentence in (*_LACKS, *reader.objects.missing()):
        note(sentence)


def _read_trace(file: BinaryIO, name: str) -> _Trace:
    data = file.read(MAX_TRACE_BYTES + 1)
    if len(data) > MAX_TRACE_BYTES:
        raise RecordingError(
            f"{name}: a trace of more than {MAX_TRACE_BYTES // 2**20} MiB is not read; export a"
            " shorter time with skctl export --start-time --end-time"
        )
    try:
        version = msgspec.msgpack.decode(data, type=_Version).version
    except (msgspec.DecodeError, RecursionError) as error:
        raise RecordingError(
            f"{name}: this is no trace of SimKube: {error}; name a file that `skctl export` wrote"
        ) from error
    if version not in _VERSIONS:
        raise RecordingError(
            f"{name}: this is version {version} of SimKube's traces, and versions 2 and 3 are read;"
            " export it with a SimKube that writes one of them, such as 2.7"
        )
    try:
        return msgspec.msgpack.decode(data, type=_Trace)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RecordingError(
            f"{name}: {error}; the trace is damaged: export it again with skctl export"
        ) from error


class _Version(Struct, frozen=True):
    version: int


class _TraceReader:
    def __init__(self, name: str) -> None:
        self.objects: Final = ObjectReader()
        self._name: Final = name
        self._known: Final[dict[tuple[str, str, str], Json]] = {}

    def applied(self, number: int, event: _Event, at: Instant) -> Iterator[ObjectChanged]:
        """Yield what was created or changed."""
        for obj in event.applied_objs:
            if (resource := self.objects.resource_of(obj)) is None:
                continue
            key = self._key(number, resource, obj)
            before = self._known.get(key)
            uid = str(uuid5(_UIDS, f"{at.wall_s} {key}")) if before is None else _uid(before)
            metadata = {"creationTimestamp": None, **obj["metadata"], "uid": uid}
            self._known[key] = now = {**obj, "metadata": metadata}
            if (read := self.objects.read(resource, now)) is not None:
                yield ObjectChanged(at, resource, Verb.MODIFIED if before else Verb.ADDED, read)

    def deleted(self, number: int, event: _Event, at: Instant) -> Iterator[ObjectChanged]:
        """Yield what was deleted, as it was last."""
        for obj in event.deleted_objs:
            if (resource := self.objects.resource_of(obj)) is None:
                continue
            before = self._known.pop(self._key(number, resource, obj), None)
            if before and (read := self.objects.read(resource, before)) is not None:
                yield ObjectChanged(at, resource, Verb.DELETED, read)

    def _key(self, number: int, resource: str, obj: Json) -> tuple[str, str, str]:
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise RecordingError(
                f"{self._name}, event {number}: an object of {resource} has no name; the trace is"
                " damaged: export it again with skctl export"
            )
        return resource, str(metadata.get("namespace") or ""), metadata["name"]


def _uid(obj: Json) -> Any:
    return obj["metadata"]["uid"]
