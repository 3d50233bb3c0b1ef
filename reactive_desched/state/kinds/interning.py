"""Interning: equal parts of many objects are kept once, until the last object with them is gone.

Pods of one template differ in little more than their names. A part is looked up by its content,
never by owner or template hash: webhooks and resizes change single pods.
"""

from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

import msgspec
from msgspec import Raw, Struct

from reactive_desched.primitives.bounded_text import bounded_name
from reactive_desched.state.kinds.long_texts import LONG_BYTES, LongTexts

if TYPE_CHECKING:
    from reactive_desched.model.labels import Labels
    from reactive_desched.model.node_affinity import NodeAffinity
    from reactive_desched.model.node_conditions import Condition
    from reactive_desched.model.objects import (
        Annotations,
        ContainerStatus,
        HostPort,
        NodeImage,
        OwnerReference,
        PodAffinityTerm,
        PodCondition,
        PodSpec,
        PodStatus,
        TopologySpreadConstraint,
        WeightedPodAffinityTerm,
    )
    from reactive_desched.model.resources import ResourceList
    from reactive_desched.model.taints import Tolerations

__all__ = [
    "DAY_S",
    "EPOCH",
    "ConditionTexts",
    "InternTable",
    "InternTables",
    "Interner",
    "PartedInternTable",
    "SweepResult",
    "decode_part",
    "epoch_seconds",
    "intern_field",
    "parse_resource_version",
    "quantity_texts",
]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAX_ENTRIES: Final = 1_000_000
_PARTS: Final = 16
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DAY_S: Final = 86_400
_MAX_VERSION_DIGITS: Final = 20

ConditionTexts = tuple[tuple[str, str, str], ...]
"""Type, status and reason of each condition of a pod."""


class SweepResult(Struct, frozen=True, gc=False):
    """The numbers of entries that a sweep examined and dropped."""

    examined: int
    dropped: int


class InternTable(Generic[K, V]):
    """Maps content to one shared value.

    Holds `limit` entries; when full, new values are returned without being kept (counted in
    `rejected`) until a sweep has made room. `get` returns None for a missing key, so no value may
    be None.
    """

    def __init__(
        self,
        name: str,
        limit: int = _MAX_ENTRIES,
        on_drop: "Callable[[K], None] | None" = None,
    ) -> None:
        """Make an empty table; `on_drop` gets each key that a sweep drops."""
        self.name: Final = name
        self._entries: dict[K, V] = {}
        self._limit = limit
        self._on_drop: Final = on_drop
        self._unexamined: list[K] = []
        self._unshared_refcount = _count_unshared_references({object(): object()})
        self.rejected = 0
        self.get: Final = self._entries.get  # the method called most often: no wrapper

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_examined(self) -> bool:
        """Say whether every entry has been examined since the last round began."""
        return not self._unexamined

    def put(self, key: K, value: V) -> V:
        """Keep a value whose key is new, and return it."""
        if len(self._entries) >= self._limit:
            self.rejected += 1
            return value
        return self._entries.setdefault(key, value)

    def put_long(self, key: K, value: V, size: int, namespace: str, texts: LongTexts) -> V | None:
        """Keep a value of so many bytes if it is not long, or there is room for it; None if not."""
        if size >= LONG_BYTES and texts.refuses(size, namespace):
            return None
        kept = self.put(key, value)
        if size >= LONG_BYTES and key in self._entries:
            texts.hold(key, size, namespace)
        return kept

    def sweep(self, budget: int) -> SweepResult:
        """Examine up to `budget` entries, from where the last call stopped.

        Drops an entry when only this table refers to its value. A new round begins by listing
        the keys, about a millisecond per 100,000.
        """
        entries = self._entries
        unexamined = self._unexamined = self._unexamined or list(entries)
        before, examined = len(entries), min(budget, len(unexamined))
        for _ in range(examined):
            key = unexamined.pop()
            if getrefcount(entries[key]) <= self._unshared_refcount:
                del entries[key]
                if self._on_drop is not None:
                    self._on_drop(key)
        return SweepResult(examined, before - len(entries))


class Interner(InternTable[K, K]):
    """Maps a value to the one object that stands for all equal ones."""

    def __init__(
        self,
        name: str,
        limit: int = _MAX_ENTRIES,
        on_drop: "Callable[[K], None] | None" = None,
    ) -> None:
        super().__init__(name, limit, on_drop)
        self._unshared_refcount = _count_unshared_references({text: text for text in [repr(0.5)]})

    def intern(self, value: K) -> K:
        """Return the object that is kept for this value."""
        found = self.get(value)
        return self.put(value, value) if found is None else found


class PartedInternTable(Generic[K, V]):
    """An InternTable in sixteen parts, for content of which a large cluster has 100,000.

    A single one holds the event loop for 5 ms when it grows from 87,000 entries on, as Python
    copies the whole dictionary at once; a part grows in a sixteenth of that.
    """

    def __init__(self, name: str, limit: int = _MAX_ENTRIES) -> None:
        self.parts: Final = tuple(InternTable[K, V](name, limit // _PARTS) for _ in range(_PARTS))

    def get(self, key: K) -> V | None:
        """Return the value of this key."""
        return self.parts[hash(key) % _PARTS].get(key)

    def put(self, key: K, value: V) -> V:
        """Keep a value whose key is new, and return it."""
        return self.parts[hash(key) % _PARTS].put(key, value)


class TextInterner(Interner[str]):
    """Maps a text to the one object that stands for all equal ones, cut where it is too long."""

    def intern(self, value: str) -> str:
        """Return the text that is kept for this one; texts that differ are still two."""
        found = self.get(value)
        return super().intern(bounded_name(value)) if found is None else found


def _count_unshared_references(entries: dict[Any, Any]) -> int:
    """Count the references to a value that only its dict holds, as `InternTable.sweep` does.

    Interpreters count differently, so the number is measured here.
    """
    unexamined = list(entries)
    key = unexamined.pop()
    return getrefcount(entries[key])


class InternTables:
    """The tables that all readers of a process share. Not for use from several threads.

    Readers that do not read all leave out what is too much of a large object, and say so.
    """

    def __init__(
        self,
        limit: int = _MAX_ENTRIES,
        *,
        reads_all: bool = True,
        long_texts: LongTexts | None = None,
    ) -> None:
        """Make empty tables; `long_texts` bounds the long parts of pods where not all is read."""
        self.reads_all: Final = reads_all
        self.long_texts: Final = long_texts or LongTexts()
        release = self.long_texts.release
        self.specs: PartedInternTable[Hashable, PodSpec] = PartedInternTable("specs", limit)
        self.spec_texts: Interner[bytes] = Interner("specTexts", limit, release)
        self.statuses: InternTable[Hashable, PodStatus] = InternTable("statuses", limit)
        self.texts: Interner[str] = TextInterner("texts", limit)
        self.labels: InternTable[bytes, Labels] = InternTable("labels", limit, release)
        self.node_selectors: InternTable[bytes, Labels] = InternTable("nodeSelector", limit)
        self.owners: InternTable[bytes, tuple[OwnerReference, ...]] = InternTable(
            "ownerReferences", limit, release
        )
        self.controllers: Interner[OwnerReference] = Interner("controllers", limit)
        self.annotations: InternTable[Hashable, Annotations] = InternTable(
            "annotations", limit, release
        )
        self.claims: Interner[tuple[Any, ...]] = Interner("claims", limit, release)
        self.tolerations: InternTable[bytes, Tolerations] = InternTable("tolerations", limit)
        self.node_affinities: InternTable[bytes, NodeAffinity] = InternTable("nodeAffinity", limit)
        self.pod_affinity_terms: InternTable[bytes, tuple[PodAffinityTerm, ...]] = InternTable(
            "podAffinity", limit
        )
        self.preferred_pod_terms: InternTable[bytes, tuple[WeightedPodAffinityTerm, ...]] = (
            InternTable("preferredPodAffinity", limit)
        )
        self.spread_constraints: InternTable[bytes, tuple[TopologySpreadConstraint, ...]] = (
            InternTable("topologySpreadConstraints", limit)
        )
        self.host_ports: InternTable[bytes, tuple[HostPort, ...]] = InternTable("ports", limit)
        self.requests: InternTable[Hashable, ResourceList] = InternTable("requests", limit)
        self.resizes: InternTable[Hashable, ResourceList] = InternTable("resizes", limit)
        self.transitions: Interner[tuple[int | None, ...]] = Interner("transitions", limit)
        self.allocatable: InternTable[bytes, ResourceList] = InternTable("allocatable", limit)
        self.container_statuses: Interner[ContainerStatus] = Interner("containerStatuses", limit)
        self.conditions: InternTable[Hashable, tuple[PodCondition, ...]] = InternTable(
            "conditions", limit
        )
        self.condition_texts: Interner[ConditionTexts] = Interner("conditionTexts", limit)
        self.node_conditions: Interner[tuple[Condition, ...]] = Interner("nodeConditions", limit)
        self.node_images: InternTable[bytes, NodeImage] = InternTable("images", limit)
        # A table of whole parts stands before the tables of their members: one round frees both.
        self._tables: Final[list[InternTable[Any, Any]]] = [
            *self.specs.parts,
            *(table for table in vars(self).values() if isinstance(table, InternTable)),
        ]
        self._next_table = 0

    def sizes(self) -> dict[str, int]:
        """Count the entries of each table."""
        return self._count(len)

    def rejected(self) -> dict[str, int]:
        """Count, for each table, the values not kept because it was full."""
        return self._count(lambda table: table.rejected)

    def _count(self, of: "Callable[[InternTable[Any, Any]], int]") -> dict[str, int]:
        counts: dict[str, int] = {}
        for table in self._tables:
            counts[table.name] = counts.get(table.name, 0) + of(table)
        return counts

    def sweep(self, budget: int) -> SweepResult:
        """Examine up to `budget` entries, table after table, and drop the unused ones.

        Takes about a third of a microsecond per entry; `app.gc` calls it regularly.
        """
        examined = dropped = 0
        for _ in self._tables:
            table = self._tables[self._next_table]
            step = table.sweep(budget - examined)
            examined += step.examined
            dropped += step.dropped
            if not table.is_examined:
                break
            self._next_table = (self._next_table + 1) % len(self._tables)
        return SweepResult(examined, dropped)


# --- the fields of objects ----------------------------------------------------------------------


def intern_field(table: InternTable[bytes, V], raw: Raw, decode: Callable[[bytes], V]) -> V:
    """Return the table's value for this text; a new text is decoded.

    The text is copied: a Raw would keep its whole page in memory.
    """
    text = bytes(raw)
    found = table.get(text)
    return _decode_and_intern(table, text, decode) if found is None else found


def _decode_and_intern(
    table: InternTable[bytes, V], text: bytes, decode: Callable[[bytes], V]
) -> V:
    return table.put(text, decode_part(table, text, decode))


def decode_part(table: InternTable[bytes, V], text: bytes, decode: Callable[[bytes], V]) -> V:
    """Decode the text of a part; an error names the table of such parts."""
    try:
        return decode(text)
    except ValueError as error:
        error.add_note(f"in its {table.name}")
        raise


def quantity_texts(resources: Mapping[str, Raw]) -> dict[str, str]:
    """Return a resource list as texts; a bare JSON number becomes its text."""
    texts = ((resource, bytes(raw)) for resource, raw in resources.items())
    return {
        resource: msgspec.json.decode(text, type=str) if text[:1] == b'"' else text.decode()
        for resource, text in texts
    }


@overload
def epoch_seconds(moment: datetime) -> int: ...
@overload
def epoch_seconds(moment: None) -> None: ...
def epoch_seconds(moment: datetime | None) -> int | None:
    """Return whole seconds since the epoch; None for None."""
    if moment is None:
        return None
    since = moment - EPOCH
    return since.days * DAY_S + since.seconds


def parse_resource_version(text: str) -> int:
    """Return a resource version as a number, 0 when it is not one."""
    if text.isdecimal() and text.isascii() and len(text) <= _MAX_VERSION_DIGITS:
        return int(text)
    return 0
