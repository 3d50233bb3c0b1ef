"""Items as rows of a frame, and back.

Pods of one template share their labels, spec, status and owners. Each such part is written once in
a segment, with a number, and each pod has the numbers: 150,000 pods take the place of their names.
So are the images of nodes.
A change of a pod that the segment has already is written as its uid and the fields that differ.
Rows are arrays, to which later versions may append; objects of other kinds are written by the names
of their fields, so a field that is new has its default in an old recording.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import compress
from operator import attrgetter, is_not, itemgetter
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import (
    Annotations,
    ClusterObject,
    NodeImage,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
)
from reactive_desched.model.outcomes import EvictionResponse, PodFound, PodLookup, PodNotFound
from reactive_desched.model.usage import NodeUsage
from reactive_desched.recording.items import (
    BrakesHeld,
    ConfigurationInForce,
    EvictionAnswered,
    EvictionSettled,
    HealthAnswered,
    InheritedEvictionEnded,
    Instant,
    Item,
    JobLookedAt,
    JobOrderEnded,
    JobStepEnded,
    LookedForWork,
    NodesClosed,
    NodeSeen,
    NothingChanged,
    ObjectChanged,
    ObjectFound,
    OrderGiven,
    PauseSet,
    PictureBegun,
    PictureEnded,
    PodLookedUp,
    ProcessBegan,
    RecordingInterrupted,
    RequestWritten,
    ResourceDenied,
    TaintRefused,
    TermChanged,
    UsageMeasured,
    Verb,
    Worked,
)
from reactive_desched.state.resources import NODES, PODS, WATCHED_KINDS

MAX_PARTS: Final = 30_000
"""So many parts have numbers at a time; then all are forgotten, and written again when needed."""

_CLOCK_ERROR_S: Final = 0.001
_FOUND: Final = 0
_VERBS: Final = (Verb.ADDED, Verb.MODIFIED, Verb.DELETED)
_MODIFIED: Final = 2
_VERB_NUMBERS: Final = {verb: number for number, verb in enumerate(_VERBS, start=1)}

_PART_TYPES: Final[tuple[Any, ...]] = (
    Labels,
    Annotations,
    tuple[OwnerReference, ...],
    PodSpec,
    PodStatus,
    Mapping[str, int],
    NodeImage,
)
_LABELS, _ANNOTATIONS, _OWNERS, _SPEC, _STATUS, _RESIZE, _IMAGE = range(7)

_OTHER_ITEMS: Final[Mapping[str, type[Item]]] = {
    kind.__name__: kind
    for kind in (
        BrakesHeld,
        ConfigurationInForce,
        RequestWritten,
        EvictionSettled,
        InheritedEvictionEnded,
        JobLookedAt,
        JobOrderEnded,
        JobStepEnded,
        LookedForWork,
        NodeSeen,
        NodesClosed,
        OrderGiven,
        HealthAnswered,
        PauseSet,
        PictureBegun,
        PictureEnded,
        ProcessBegan,
        RecordingInterrupted,
        ResourceDenied,
        TaintRefused,
        TermChanged,
        NothingChanged,
    )
}
_ANSWERED: Final = EvictionAnswered.__name__
_LOOKED_UP: Final = PodLookedUp.__name__
_MEASURED: Final = UsageMeasured.__name__
_PICTURE_ENDED: Final = PictureEnded.__name__
_RESPONSES: Final[Mapping[str, type[EvictionResponse]]] = {
    kind.__name__: kind for kind in EvictionResponse.__subclasses__()
}
_LOOKUPS: Final[Mapping[str, type[PodLookup]]] = {
    PodFound.__name__: PodFound,
    PodNotFound.__name__: PodNotFound,
}


class _PartRow(Struct, frozen=True, gc=False, array_like=True, tag=0):
    number: int
    kind: int
    value: Raw


class _PodRow(Struct, frozen=True, gc=False, array_like=True, tag=1):
    """A pod; `after_us` is how long after the frame's time, `verb` 0 for one of a picture."""

    after_us: int
    verb: int
    namespace: str
    name: str
    uid: str
    resource_version: int
    node: str
    labels: int
    annotations: int
    owners: int
    spec: int
    status: int
    pvc_names: tuple[str, ...]
    created_s: int
    start_delay_s: int | None
    deletion_s: int | None
    condition_transitions: tuple[int | None, ...]
    resize_delta: int
    generation: int
    made_claims: tuple[tuple[str, str], ...] = ()


class _ObjectRow(Struct, frozen=True, gc=False, array_like=True, tag=2):
    """An object of another kind; the images of a node stand apart, as parts."""

    after_us: int
    verb: int
    resource: str
    value: Raw
    images: tuple[int, ...] = ()


class _ItemRow(Struct, frozen=True, gc=False, array_like=True, tag=3):
    after_us: int
    name: str
    value: Raw
    response: str = ""


class _ClockRow(Struct, frozen=True, gc=False, array_like=True, tag=4):
    """The time of day was set: from here on it is so much ahead of what the frame's time says."""

    ahead_us: int


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset):
        return sorted(value)
    raise NotImplementedError(f"{type(value).__name__} stands in no object that is kept")


class _PodChangeRow(Struct, frozen=True, gc=False, array_like=True, tag=5):
    """A change of a pod that stands in the segment before: what of it differs.

    `mask` has a bit for each of `_FIELDS` that differs, whose values follow in that order; parts by
    their numbers. `versions` is how much greater the resourceVersion is than that of the pod row or
    change before.
    """

    after_us: int
    verb: int
    uid: Any  # 16 bytes, or a text of another form
    versions: int
    mask: int = 0
    values: tuple[Any, ...] = ()


_Reader = Callable[[Any], Any]  # of values that came from JSON or the like


def _reads(of_type: Any) -> _Reader:  # Any: a type
    """Return what checks a value of a type, and raises ValueError for another.

    What msgspec needs to know of a type it keeps for a Struct alone: a union takes 5 µs else.
    """
    of_one = msgspec.defstruct("_Value", [("value", of_type)], array_like=True)
    return lambda value: msgspec.structs.astuple(msgspec.convert((value,), of_one))[0]


_FIELDS: Final[tuple[tuple[str, int | None, _Reader | None], ...]] = (
    ("node", None, _reads(str)),
    ("labels", _LABELS, None),
    ("annotations", _ANNOTATIONS, None),
    ("owners", _OWNERS, None),
    ("spec", _SPEC, None),
    ("status", _STATUS, None),
    ("pvc_names", None, _reads(tuple[str, ...])),
    ("created_s", None, _reads(int)),
    ("start_delay_s", None, _reads(int | None)),
    ("deletion_s", None, _reads(int | None)),
    ("condition_transitions", None, _reads(tuple[int | None, ...])),
    ("resize_delta", _RESIZE, None),
    ("generation", None, _reads(int)),
    ("made_claims", None, _reads(tuple[tuple[str, str], ...])),
)
"""The fields of a pod that may change: the kind of part of each, or how its value is read."""

_NAMES: Final = [name for name, _, _ in _FIELDS]
_values: Final = attrgetter(*_NAMES)
_KINDS: Final = tuple(kind for _, kind, _ in _FIELDS)
_PLACES: Final = range(len(_FIELDS))
_STATUS_BIT: Final = 1 << _NAMES.index("status")
_TIMES_BIT: Final = 1 << _NAMES.index("condition_transitions")
_STATUS_AND_TIMES: Final = _STATUS_BIT | _TIMES_BIT
_UID_CHARACTERS: Final = 36
_UID_BYTES: Final = 16


def _packed(uid: str) -> bytes | str:
    """Return a uid in half its bytes, where it is of the form in which Kubernetes writes them."""
    if len(uid) != _UID_CHARACTERS:
        return uid
    try:
        packed = bytes.fromhex(uid.replace("-", ""))
    except ValueError:
        return uid
    return packed if len(packed) == _UID_BYTES else uid


class _WorkRow(Struct, frozen=True, gc=False, array_like=True, tag=6):
    """The controller evaluated what was due: there are about as many as changes that concern it."""

    after_us: int
    interrupted_after: int = 0
    ended_after: int | None = None


_Row = tuple[object, ...]


class RowWriter:
    """Writes the items of one segment as rows; `take` returns those since it was called before."""

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode
        self._numbers: tuple[dict[int, int], ...] = tuple({} for _ in _PART_TYPES)
        self._kept: list[object] = []  # a part's id is its own only while the part is there
        self._next_number = 0
        self._rows: list[_Row] = []
        self._encoded = bytearray()
        self._count = 0
        self._ahead_s = 0.0  # what the time of day is ahead of monotonic seconds
        self.at: Instant | None = None
        self._version = 0

    def __len__(self) -> int:
        """Count the bytes of rows that were not taken, but for those of the last step."""
        return len(self._encoded)

    def add(self, item: Item, old: ClusterObject | None = None) -> None:
        """Write one item; `old` is the pod of a change as the segment has it already."""
        match item:
            case ObjectFound(at=at, resource=resource, obj=obj):
                self.add_object(at, resource, _FOUND, obj, old)
            case ObjectChanged(at=at, resource=resource, verb=verb, obj=obj):
                self.add_object(at, resource, _VERB_NUMBERS[verb], obj, old)
            case UsageMeasured(at=at, sample=sample):
                state = "gone" if item.is_gone else ""
                self._rows.append((3, self._after(at), _MEASURED, sample, state))
            case Worked():
                self._add_work(item)
            case EvictionAnswered(at=at, response=answer) | PodLookedUp(at=at, lookup=answer):
                fields = msgspec.structs.asdict(item)
                del fields["at"]
                name = type(answer).__name__
                self._rows.append((3, self._after(at), type(item).__name__, fields, name))
            case _:
                fields = msgspec.structs.asdict(item)
                del fields["at"]
                self._rows.append((3, self._after(item.at), type(item).__name__, fields))

    def add_object(
        self,
        at: Instant,
        resource: str,
        verb: int,
        obj: Any,
        old: Any = None,  # of any kind
    ) -> None:
        """Write one object; `verb` is 0 for one of a picture.

        `old` is the pod as the segment has it already, but for its version.
        """
        after = self._after(at)
        if resource == NODES and obj.images:
            images = [self._part(_IMAGE, image) for image in obj.images]
            self._rows.append((2, after, verb, resource, replace(obj, images=()), images))
            return
        if resource != PODS:
            self._rows.append((2, after, verb, resource, obj))
            return
        pod: Pod = obj
        if old is not None and (old.uid, old.name) == (pod.uid, pod.name):
            self._add_change(after, verb, pod, *self._differences(old, pod))
            return
        self._version = pod.resource_version
        part = self._part
        row = (
            1,
            after,
            verb,
            pod.namespace,
            pod.name,
            pod.uid,
            pod.resource_version,
            pod.node,
            part(_LABELS, pod.labels),
            part(_ANNOTATIONS, pod.annotations),
            part(_OWNERS, pod.owners),
            part(_SPEC, pod.spec),
            part(_STATUS, pod.status),
            pod.pvc_names,
            pod.created_s,
            pod.start_delay_s,
            pod.deletion_s,
            pod.condition_transitions,
            part(_RESIZE, pod.resize_delta),
            pod.generation,
            pod.made_claims,
        )
        self._rows.append(row)

    def _add_work(self, item: Worked) -> None:
        row = 6, self._after(item.at), item.interrupted_after, item.ended_after
        is_whole = item.ended_after is None and not item.interrupted_after
        self._rows.append(row[:2] if is_whole else row)

    def modify_pod(self, monotonic_s: float, ahead_s: float, old: Pod, new: Pod) -> bool:
        """Write a change of a pod that the segment has, and say whether it is one.

        It was seen at `monotonic_s`, and the time of day was `ahead_s` more. One that differs in
        nothing but its version is none. Each change of a pod comes here, and nearly all are of its
        status alone: each field by its name takes a fifth of the time of a loop.
        """
        values: list[object]
        if (
            new.node is old.node
            and new.labels is old.labels
            and new.annotations is old.annotations
            and new.owners is old.owners
            and new.spec is old.spec
            and new.pvc_names is old.pvc_names
            and new.resize_delta is old.resize_delta
            and new.created_s == old.created_s
            and new.start_delay_s == old.start_delay_s
            and new.deletion_s == old.deletion_s
            and new.generation == old.generation
            and new.made_claims == old.made_claims
        ):
            status, times = new.status, new.condition_transitions
            if status is old.status or status == old.status:
                if times == old.condition_transitions:
                    return False
                mask, values = _TIMES_BIT, [times]
            elif times == old.condition_transitions:
                mask, values = _STATUS_BIT, [self._part(_STATUS, status)]
            else:
                mask, values = _STATUS_AND_TIMES, [self._part(_STATUS, status), times]
        else:
            mask, values = self._differences(old, new)
            if not mask:
                return False
        began = self.at
        if began is None or not -_CLOCK_ERROR_S <= ahead_s - self._ahead_s <= _CLOCK_ERROR_S:
            after = self._after(Instant(monotonic_s + ahead_s, monotonic_s))
        else:
            after = round((monotonic_s - began.monotonic_s) * 1e6)
        version = new.resource_version
        row = (5, after, _MODIFIED, _packed(new.uid), version - self._version, mask, values)
        self._version = version
        self._rows.append(row)
        return True

    def _differences(self, old: Pod, new: Pod) -> tuple[int, list[object]]:
        """Return the mask of the fields that differ, and their values as rows have them."""
        values: list[object] = []
        mask, after, before = 0, _values(new), _values(old)
        for place in compress(_PLACES, map(is_not, after, before)):
            value, kind = after[place], _KINDS[place]
            if value != before[place]:
                mask |= 1 << place
                values.append(value if kind is None else self._part(kind, value))
        return mask, values

    def _add_change(
        self, after: int, verb: int, pod: Pod, mask: int, values: Sequence[object]
    ) -> None:
        """Write which fields of a pod differ from what the segment has."""
        version = pod.resource_version
        versions, self._version = version - self._version, version
        row = (5, after, verb, _packed(pod.uid), versions, mask, values)
        self._rows.append(row if mask else row[:5])

    def _after(self, at: Instant) -> int:
        ahead_s = at.wall_s - at.monotonic_s
        if self.at is None:
            self.at, self._ahead_s = at, ahead_s
        elif abs(ahead_s - self._ahead_s) > _CLOCK_ERROR_S:
            self._ahead_s = ahead_s
            of_frame_s = self.at.wall_s - self.at.monotonic_s
            self._rows.append((4, round((ahead_s - of_frame_s) * 1e6)))
        return round((at.monotonic_s - self.at.monotonic_s) * 1e6)

    def _part(self, kind: int, value: object) -> int:
        numbers = self._numbers[kind]  # those of statuses, which are asked for most, are few
        number = numbers.get(id(value))
        if number is not None:
            return number
        if len(self._kept) >= MAX_PARTS:
            for each in self._numbers:
                each.clear()
            self._kept.clear()
        number = numbers[id(value)] = self._next_number
        self._next_number += 1
        self._kept.append(value)
        self._rows.append((0, number, kind, value))
        return number

    def encode(self) -> None:
        """Turn what was added into bytes: the step that a slice of the event loop ends with."""
        if rows := self._rows:
            encoded = self._encode(rows)
            count = len(rows)
            self._encoded += encoded[1 if count < 2**4 else 3 if count < 2**16 else 5 :]
            self._count += count
            self._rows = []

    def take(self) -> tuple[Instant, bytes] | None:
        """Return the rows since the last call, and the time of the first, or None."""
        self.encode()
        at = self.at
        if not self._count or at is None:
            return None
        taken = b"\xdd" + self._count.to_bytes(4, "big") + self._encoded
        self._encoded, self._count, self.at = bytearray(), 0, None
        return at, taken


_ROWS: Final = msgspec.msgpack.Decoder(
    list[_PartRow | _PodRow | _ObjectRow | _ItemRow | _ClockRow | _PodChangeRow | _WorkRow]
)
_PART_DECODERS: Final = tuple(map(msgspec.msgpack.Decoder, _PART_TYPES))


_AnyRow = _PartRow | _PodRow | _ObjectRow | _ItemRow | _ClockRow | _PodChangeRow | _WorkRow
_UNREADABLE: Final = (
    msgspec.MsgspecError,
    LookupError,
    TypeError,
    ValueError,
    RuntimeError,
    RecursionError,
)
_FoldedRow = tuple[int, _PodChangeRow, int]
"""The last change of a pod in some fields: its number, itself, and the version of the pod."""


@cache
def _fields_in(mask: int) -> tuple[tuple[str, int | None, _Reader | None], ...]:
    """Return the fields of a mask that this version has: a later one may have more."""
    return tuple(_FIELDS[place] for place in _PLACES if mask & 1 << place)


class FoldedFrame(Struct, frozen=True, gc=False):
    """A frame without its changes of pods, and the times of its end and of its last change.

    `found` has items in their order; a pod among them stands for that it was found. `changed_s` is
    0 where no pod changed.
    """

    ends: Instant
    found: list[Item | Pod]
    changed_s: float


class RowReader:
    """Reads the rows of a recording as items; equal parts of pods become one object.

    The numbers of parts are those of one segment: `begin_segment` forgets them.
    """

    def __init__(self) -> None:
        self._parts: dict[int, Any] = {}  # of the types in _PART_TYPES
        self._shared: tuple[dict[bytes, Any], ...] = tuple({} for _ in _PART_TYPES)
        self._decoders: dict[str, Callable[[Raw], Any]] = {}
        self._pods: dict[bytes | str, Pod] = {}
        self._folded: dict[int, dict[bytes | str, _FoldedRow]] = {}
        self._version = self._number = 0

    def begin_segment(self) -> None:
        """Forget the numbers of parts, and the pods."""
        self._parts.clear()
        self._pods.clear()
        self._folded.clear()
        self._version = 0

    def read(self, at: Instant, rows: bytes) -> Iterator[Item]:
        """Yield the items of a frame whose first was seen at this time; raises ValueError."""
        try:
            decoded = _ROWS.decode(rows)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"cannot be read: {error}") from error
        try:
            began = at
            for row in decoded:
                if isinstance(row, _PartRow):
                    self._keep_part(row)
                elif isinstance(row, _ClockRow):
                    began = Instant(at.wall_s + row.ahead_us / 1e6, at.monotonic_s)
                else:
                    yield self._item(began, row)
        except _UNREADABLE as error:
            raise ValueError(f"has a row that cannot be read: {error}") from error

    def fold(self, at: Instant, rows: bytes) -> FoldedFrame | None:
        """Keep the changes of pods in a frame for `settle`, which builds each pod once.

        Returns None, and keeps nothing, where the time of day was set in the frame. Raises
        ValueError as `read`.
        """
        try:
            decoded = _ROWS.decode(rows)
            kinds = set(map(type, decoded))
            last = next((row for row in reversed(decoded) if not isinstance(row, _PartRow)), None)
            if last is None or _ClockRow in kinds:
                return None
            assert not isinstance(last, _ClockRow | _PartRow), "it was looked at"
            ends = _time_of(at, last.after_us)
            found, changed_us = self._fold(at, decoded)
        except _UNREADABLE as error:
            raise ValueError(f"has a row that cannot be read: {error}") from error
        return FoldedFrame(ends, found, _time_of(at, changed_us).wall_s if changed_us >= 0 else 0)

    def _fold(self, at: Instant, decoded: Sequence[_AnyRow]) -> tuple[list[Item | Pod], int]:
        """Return what is no change of a known pod, and when the last of those was."""
        found, changed = list[Item | Pod](), None
        folded, version = self._folded, self._version
        for number, row in enumerate(decoded, self._number):
            if type(row) is _PodChangeRow and row.verb == _MODIFIED:
                version += row.versions
                changed, mask = row, row.mask
                if mask not in folded:
                    folded[mask] = {}
                folded[mask][row.uid] = number, row, version
            elif type(row) is _PodRow and row.verb == _FOUND:
                found.append(self._pod(row))
                version = row.resource_version
            elif isinstance(row, _PartRow):
                self._keep_part(row)
            elif not isinstance(row, _ClockRow | _WorkRow):
                self._version = version
                found.append(self._item(at, row))
                version = self._version
        self._version, self._number = version, self._number + len(decoded)
        return found, -1 if changed is None else changed.after_us

    def settle(self) -> Iterator[Pod]:
        """Yield each pod of which `fold` kept a change, as it is after all; raises ValueError."""
        by_uid: dict[bytes | str, list[_FoldedRow]] = {}
        for of_mask in self._folded.values():
            for uid, row in of_mask.items():
                if uid in by_uid:
                    by_uid[uid].append(row)
                else:
                    by_uid[uid] = [row]
        self._folded.clear()
        try:
            for uid, rows in by_uid.items():
                yield self._with_changes(uid, rows)
        except _UNREADABLE as error:
            raise ValueError(f"has a row that cannot be read: {error}") from error

    def _settled(self, uid: bytes | str) -> Pod:
        """Return a pod of the segment, with what was folded of it."""
        rows = [of_mask.pop(uid) for of_mask in self._folded.values() if uid in of_mask]
        return self._with_changes(uid, rows) if rows else self._pods[uid]

    def _with_changes(self, uid: bytes | str, rows: list[_FoldedRow]) -> Pod:
        """Change a pod of the segment, by the last row of each mask, and return it."""
        if len(rows) > 1:
            rows.sort(key=itemgetter(0))
        fields = dict[str, Any]()
        for _, row, _ in rows:
            fields |= self._values_of(row.mask, row.values)
        pod = self._pods[uid] = replace(self._pods[uid], resource_version=rows[-1][2], **fields)
        return pod

    def _values_of(self, mask: int, values: Sequence[Any]) -> dict[str, Any]:
        """Return the values of a change by the names of their fields."""
        parts, changed = self._parts, _fields_in(mask)
        if len(values) < len(changed):
            raise ValueError("a change lacks the value of a field")
        return {
            name: parts[value] if read is None else read(value)
            for (name, _, read), value in zip(changed, values, strict=False)
        }

    def _keep_part(self, row: _PartRow) -> None:
        raw = bytes(row.value)
        shared = self._shared[row.kind]
        part = shared.get(raw)
        if part is None:
            part = shared[raw] = _PART_DECODERS[row.kind].decode(raw)
        self._parts[row.number] = part

    def _item(
        self, frame: Instant, row: "_PodRow | _ObjectRow | _ItemRow | _PodChangeRow | _WorkRow"
    ) -> Item:
        at = _time_of(frame, row.after_us)
        if isinstance(row, _WorkRow):
            return Worked(at, row.interrupted_after, row.ended_after)
        if isinstance(row, _PodRow | _PodChangeRow):
            pod = self._pod(row) if isinstance(row, _PodRow) else self._changed_pod(row)
            self._version = pod.resource_version
            if row.verb == _FOUND:
                return ObjectFound(at, PODS, pod)
            return ObjectChanged(at, PODS, _VERBS[row.verb - 1], pod)
        if isinstance(row, _ObjectRow):
            obj = self._decode(row.resource, WATCHED_KINDS[row.resource].record, row.value)
            if row.images:
                obj = replace(obj, images=tuple(self._parts[number] for number in row.images))
            if row.verb == _FOUND:
                return ObjectFound(at, row.resource, obj)
            return ObjectChanged(at, row.resource, _VERBS[row.verb - 1], obj)
        return self._other(at, row)

    def _changed_pod(self, row: _PodChangeRow) -> Pod:
        pod = self._settled(row.uid) if self._folded else self._pods[row.uid]
        changed = self._values_of(row.mask, row.values)
        version = self._version + row.versions
        pod = self._pods[row.uid] = replace(pod, resource_version=version, **changed)
        return pod

    def _pod(self, row: _PodRow) -> Pod:
        parts = self._parts
        pod = self._pods[_packed(row.uid)] = Pod(
            row.namespace,
            row.name,
            row.uid,
            row.resource_version,
            row.node,
            parts[row.labels],
            parts[row.annotations],
            parts[row.owners],
            parts[row.spec],
            parts[row.status],
            row.pvc_names,
            row.created_s,
            row.start_delay_s,
            row.deletion_s,
            row.condition_transitions,
            parts[row.resize_delta],
            row.generation,
            row.made_claims,
        )
        return pod

    def _other(self, at: Instant, row: _ItemRow) -> Item:
        if row.name == _MEASURED:
            sample = self._decode(_MEASURED, NodeUsage, row.value)
            return UsageMeasured(at, sample, is_gone=row.response == "gone")
        fields = msgspec.msgpack.decode(row.value)
        if row.name == _ANSWERED:
            response = msgspec.convert(fields.pop("response"), _RESPONSES[row.response])
            return EvictionAnswered(at, response=response, **fields)
        if row.name == _LOOKED_UP:
            lookup = msgspec.convert(fields.pop("lookup"), _LOOKUPS[row.response])
            return PodLookedUp(at, lookup=lookup, **fields)
        return msgspec.convert({"at": at, **fields}, _OTHER_ITEMS[row.name])

    def _decode(self, name: str, kind: Any, raw: Raw) -> Any:  # an object of the kind
        decode = self._decoders.get(name)
        if decode is None:
            decode = self._decoders[name] = msgspec.msgpack.Decoder(kind).decode
        return decode(raw)


def _time_of(frame: Instant, after_us: int) -> Instant:
    after_s = after_us / 1e6
    return Instant(round(frame.wall_s + after_s, 6), round(frame.monotonic_s + after_s, 6))


def picture_end(at: Instant, rows: bytes) -> Instant | None:
    """Return when the picture ended in a frame, if it did; no object of it is built.

    Raises ValueError where the frame cannot be read.
    """
    try:
        decoded = _ROWS.decode(rows)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"cannot be read: {error}") from error
    began = at
    for row in decoded:
        if isinstance(row, _ClockRow):
            began = Instant(at.wall_s + row.ahead_us / 1e6, at.monotonic_s)
        elif isinstance(row, _ItemRow) and row.name == _PICTURE_ENDED:
            return _time_of(began, row.after_us)
    return None
