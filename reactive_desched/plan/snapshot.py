"""The cluster as it was given: every object once, in an order of its own, and what was left out."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, TypeVar

from msgspec import Raw, Struct

from reactive_desched.errors import Malformed
from reactive_desched.kube.decode.interning import SharedParts
from reactive_desched.model.labels import Selector
from reactive_desched.model.objects import ClusterObject, Node, Pod
from reactive_desched.plan.defaults import completed, in_a_namespace, with_own_uid
from reactive_desched.plan.input_objects import Given
from reactive_desched.plan.kinds import Kind, kinds
from reactive_desched.plan.report import Unread
from reactive_desched.state.cluster import NODES, OWNERS, PODS, RESOURCES, STORAGE, ClusterState

__all__ = ["NAMED", "Gathering", "Picture"]

NAMED: Final = 100
"""How many objects that cannot be read are named; all are counted."""

_NAMELESS: Final = "(no kind)"

T = TypeVar("T", bound=ClusterObject)


class Picture(Struct, frozen=True, gc=False):
    """Everything that was given, by resource.

    `unread` names the first of the objects that could not be read, `unread_count` says how many
    there were; `pages` names lists of which only a part was given. Where there is neither the
    picture is whole. `ignored` counts objects of kinds nobody looks at, by kind. `refused` says
    of resources that can be done without why they were not to be had.
    """

    things: Mapping[str, Sequence[ClusterObject]]
    unread: tuple[Unread, ...] = ()
    unread_count: int = 0
    pages: tuple[str, ...] = ()
    ignored: Mapping[str, int] = {}
    refused: Mapping[str, str] = {}
    repeated: int = 0

    @property
    def is_whole(self) -> bool:
        """Say whether nothing is known to be missing."""
        return not (self.unread_count or self.pages)

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes, by name."""
        return self.things[NODES]  # type: ignore[return-value]  # what is kept under this name

    @property
    def pods(self) -> Sequence[Pod]:
        """The pods, by namespace and name."""
        return self.things[PODS]  # type: ignore[return-value]  # what is kept under this name

    def state(self, selects: Selector) -> ClusterState:
        """Make a state of it, which may then be changed."""
        state = ClusterState(selects)
        state.untold.update(resource for resource in STORAGE if not self.things[resource])
        state.untold.update(self.refused)
        for resource in RESOURCES:
            for thing in self.things.get(resource, ()):
                state.upsert(thing)
        return state


class Gathering:
    """Takes objects in whatever order they come, and makes a picture of them.

    Of those given in files, what only tells of owners' owners is ignored: no decision needs it.
    """

    def __init__(self) -> None:
        self.count = 0
        self._kinds: Mapping[str, Kind] = {
            name: kind for name, kind in kinds(SharedParts()).items() if kind.resource not in OWNERS
        }
        self._things: dict[str, list[ClusterObject]] = {
            kind.resource: [] for kind in self._kinds.values()
        }
        self._refused: dict[str, str] = {}
        self._unread: list[Unread] = []
        self._unread_count = 0
        self._pages: list[str] = []
        self._ignored: Counter[str] = Counter()

    def take(self, given: Given, source: str) -> None:
        """Take one object as it was given in a file."""
        kind = self._kinds.get(given.kind)
        if kind is None or not kind.means(given.api_version):
            self._leave(given, source)
            return
        try:
            self.add(kind.resource, in_a_namespace(_read(kind, given.raw)))
        except Malformed as error:
            self.malformed(error)

    def add(self, resource: str, thing: ClusterObject) -> None:
        """Take one object that has been read."""
        self._things.setdefault(resource, []).append(thing)
        self.count += 1

    def malformed(self, error: Malformed) -> None:
        """Count an object that cannot be read, and name it if there is room."""
        self._unread_count += 1
        if len(self._unread) < NAMED:
            self._unread.append(Unread(error.kind, error.name or "(no name)", error.reason))

    def refused(self, resource: str, reason: str) -> None:
        """Note that a resource was not to be had, and is done without."""
        self._refused[resource] = reason

    def page(self, text: str) -> None:
        """Note that of a list only a part was given."""
        if len(self._pages) < NAMED:
            self._pages.append(text)

    def picture(self) -> Picture:
        """Put everything in order, the newest of what was given more than once."""
        things = {resource: _newest(found) for resource, found in self._things.items()}
        kept = sum(map(len, things.values()))
        things[PODS] = _told_apart(things[PODS])
        return Picture(
            things=things,
            unread=tuple(sorted(self._unread, key=lambda each: (each.kind, each.name))),
            unread_count=self._unread_count,
            pages=tuple(sorted(self._pages)),
            ignored=dict(sorted(self._ignored.items())),
            refused=self._refused,
            repeated=self.count - kept,
        )

    def _leave(self, given: Given, source: str) -> None:
        if given.kind in self._kinds:  # of another API group
            self._ignored[f"{given.kind} ({given.api_version})"] += 1
        elif given.kind:
            self._ignored[given.kind] += 1
        else:
            reason = "it does not say its kind"
            self.malformed(Malformed(_NAMELESS, f"in {source}", reason))


def _read(kind: Kind, raw: Raw) -> ClusterObject:
    """Read one object, with stand-ins for what a person left out."""
    try:
        thing: ClusterObject = kind.codec.item(raw)
    except Malformed:
        if kind.resource != PODS or (whole := completed(raw)) is None:
            raise
        thing = kind.codec.item(whole)
    return thing


def _newest(things: list[ClusterObject]) -> list[ClusterObject]:
    """Sort by name and keep the newest of each; of equally new ones the one given last."""
    by_name = _naming(things)
    things.sort(key=by_name)
    same = (list(group) for _, group in groupby(things, by_name))
    return [max(reversed(group), key=attrgetter("resource_version")) for group in same]


def _naming(things: list[ClusterObject]) -> Callable[[ClusterObject], Any]:  # names compare
    """Return what tells objects of one kind apart; all that is kept of some is the uid."""
    if not things or not hasattr(things[0], "name"):
        return attrgetter("key")
    return (
        attrgetter("namespace", "name") if hasattr(things[0], "namespace") else attrgetter("name")
    )


def _told_apart(pods: Iterable[ClusterObject]) -> list[ClusterObject]:
    """Give a pod whose uid another one has already a stand-in: they are two, whoever copied it."""
    seen: set[str] = set()
    apart: list[ClusterObject] = []
    for pod in pods:
        assert isinstance(pod, Pod), "nothing else is kept under this name"
        own = with_own_uid(pod) if pod.uid in seen else pod
        seen.add(own.uid)
        apart.append(own)
    return apart
