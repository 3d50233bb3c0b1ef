"""Declares a watched kind, and the JSON members that all kinds share."""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Annotated, Final, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Meta, Raw, Struct, field

from reactive_desched.model.approvals import ANSWER
from reactive_desched.model.changes import Change
from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.opt_outs import DO_NOT_EVICT
from reactive_desched.primitives.bounded_text import MAX_NAME_CHARS
from reactive_desched.state.kinds.interning import InternTables

__all__ = [
    "EMPTY_LIST",
    "EMPTY_OBJECT",
    "MANAGED_FIELDS",
    "NO_OPT_OUT",
    "NULL",
    "BoundedName",
    "Identifier",
    "LargeParts",
    "Metadata",
    "OptOutAnnotation",
    "Presence",
    "Purpose",
    "Timestamp",
    "UpdateReader",
    "WatchedKind",
    "WireObject",
    "WireStruct",
]

BoundedName = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
Identifier = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
Timestamp = Annotated[datetime, Meta(tz=True)]

EMPTY_LIST: Final = Raw(b"[]")
EMPTY_OBJECT: Final = Raw(b"{}")
NULL: Final = Raw(b"null")
MANAGED_FIELDS: Final = b',"managedFields":['
"""How the text of a member begins that is needed for nothing; the first `]` ends it, mostly."""


class WireStruct(Struct, frozen=True, gc=False, rename="camel"):
    """Base of every JSON type: camel case on the wire; msgspec skips unknown members unread.

    A `Raw` member repeats in thousands of objects: it stays text until it is looked up by content.
    Timestamps are decoded with their time zone.
    """


class Presence(WireStruct, frozen=True, gc=False):
    """A JSON object of which only the presence matters."""


class Metadata(WireStruct, frozen=True, gc=False):
    """The metadata that most kinds need."""

    name: Identifier
    namespace: BoundedName = ""
    uid: BoundedName = ""
    resource_version: str = ""
    labels: Labels = {}


class OptOutAnnotation(WireStruct, frozen=True, gc=False):
    """The annotations by which an object keeps its pods, or answers proposals of them."""

    do_not_evict: str | None = field(name=DO_NOT_EVICT, default=None)
    answer: str | None = field(name=ANSWER, default=None)


NO_OPT_OUT: Final = OptOutAnnotation()


class _HasResourceVersion(Protocol):
    @property
    def resource_version(self) -> str: ...


class WireObject(Protocol):
    """The JSON type of any kind."""

    @property
    def metadata(self) -> _HasResourceVersion:
        """The object's metadata."""
        ...


T = TypeVar("T", bound=ClusterObject)
W = TypeVar("W", bound=WireObject)


UpdateReader: TypeAlias = Callable[[bytes, Callable[[str], T | None]], tuple[T, str] | None]
"""Reads a watch line, given what finds a known object by its key; returns the object and its
resourceVersion, or None where the line is to be read without that help; raises a decode error."""


class Purpose(Enum):
    """The reader of a kind's objects."""

    DECISIONS = "decisions"
    """Plugins and the gate: no pod is evicted while the kind is not in sync."""
    NODE_FIT = "node fit"
    """Only node fit in its scheduler mode."""
    OWNERS = "owners"
    """The records, which name a pod's topmost owner, and the guards of reactive mode."""
    MEASURED_USE = "measured use"
    """Only plugins that go by measured use. Evictions never wait for it: use that was not measured,
    or too long ago, is unknown."""
    MIGRATION = "migration"
    """Migration jobs. Where the settings have them, no pod is evicted before they are in sync: they
    count against limits."""
    RESERVATIONS = "reservations"
    """Jobs of mode ReservationFirst, where the settings have koordinator keep their places."""
    DEVICES = "devices"
    """Node fit of pods with ResourceClaims, where the settings let it decide about them."""
    GANGS = "gangs"
    """The gangs of pods, watched while there are such. Evictions never wait for it: of a gang of
    which nothing is known, all pods leave or none does."""


class LargeParts(Struct, frozen=True, kw_only=True):
    """The most that is read of the parts of a large object; paths are those of its JSON.

    `limits` has the parts with another limit than `max_bytes`, `types` those that are structures,
    though the wire type has them as texts. A part that is longer is left out; `neutral` is what
    stands for it, by which nothing is wrong.
    """

    max_bytes: int = 32 * 1024
    limits: Mapping[str, int] = {}
    types: Mapping[str, type[Struct]] = {}
    neutral: Mapping[str, bytes] = {}

    def limit_of(self, path: str) -> int:
        """Return how many bytes of a part are read."""
        return self.limits.get(path, self.max_bytes)


class WatchedKind(Struct, Generic[W, T], frozen=True, kw_only=True):
    """One kind of object: how the API server serves it, how it is read, and what needs it.

    `resource` is its name among the watched kinds: the plural, or, where several groups or versions
    serve that, as kubectl has it: `podgroups.scheduling.volcano.sh`.

    `make_reader` returns the function that turns the decoded JSON (`wire`) into the object that
    the state keeps (`record`). `make_change` returns the change that the state announces when an
    object is added, differs or is deleted; a kind without it has a store of its own that finds
    finer changes, or only the indexes that follow it announce any. A kind with `if_forbidden` is
    optional: where the API server refuses to list it, the controller goes on and logs that text.
    Every other kind is required.
    """

    kind: str
    resource: str
    api_version: str
    namespaced: bool
    record: type[T]
    wire: type[W]
    make_reader: Callable[[InternTables], Callable[[W], T]]
    make_update_reader: Callable[[InternTables], UpdateReader[T]] | None = None
    """Returns what reads a watch line with the help of the object as it was known before."""
    make_change: Callable[[T], Change] | None = None
    unread_of: Callable[[T], str] | None = None
    """Returns what was too much of an object to be read."""
    large_parts: LargeParts = LargeParts()
    mark_unread: Callable[[T, str], T] | None = None
    """Returns an object with a note of the parts that were too long to be read, by which its pods
    are held; an object of a kind without it is malformed then."""
    announces_every_version: bool = False
    """Whether a new version is a change even where nothing differs that is read of the kind."""
    purpose: Purpose = Purpose.DECISIONS
    read_for: str
    """Why the controller reads the kind, as SECURITY.md says it."""
    if_forbidden: str = ""

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def plural(self) -> str:
        """The resource in URLs and roles."""
        return self.resource.partition(".")[0]

    @property
    def path(self) -> str:
        """The URL path that lists the kind in all namespaces."""
        root = "apis" if self.group else "api"
        return f"/{root}/{self.api_version}/{self.plural}"

    @property
    def optional(self) -> bool:
        """Say whether the controller works without the right to list the kind."""
        return bool(self.if_forbidden)

    @property
    def holds_evictions(self) -> bool:
        """Say whether no pod is evicted until the kind is in sync, or known to be forbidden."""
        return self.purpose not in (Purpose.MEASURED_USE, Purpose.GANGS)

    @property
    def is_always_watched(self) -> bool:
        """Say whether the kind is watched whatever the policy and the settings say."""
        return self.purpose not in (
            Purpose.MEASURED_USE,
            Purpose.MIGRATION,
            Purpose.RESERVATIONS,
            Purpose.DEVICES,
            Purpose.GANGS,
        )
