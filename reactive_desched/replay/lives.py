"""Splits a recording into the times in which one process recorded without a gap."""

from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.usage import NodeUsage
from reactive_desched.recording.items import (
    STANDING,
    STOPPED,
    Instant,
    Item,
    NodeSeen,
    ObjectChanged,
    ObjectFound,
    PictureBegun,
    PictureEnded,
    ProcessBegan,
    RecordingInterrupted,
    UsageMeasured,
    Verb,
)


class Life(Struct, frozen=True):
    """A time without a gap: its first picture, the cluster as it was then, and what came after.

    `later` is read while it is iterated, up to the gap: a process that was stopped wrote
    `RecordingInterrupted` there, one that crashed wrote nothing. `standing` has the items that held
    besides the objects. `begins_in_midst` says that its process had begun before: by a picture that
    continues, or behind a gap, unless its process has evaluated nothing yet. Where the picture
    ended before it was whole `is_whole` is False: of the cluster only a part is known, and nothing
    follows.
    """

    picture: PictureBegun
    objects: dict[str, dict[str, ClusterObject]]
    samples: tuple[NodeUsage, ...]
    standing: tuple[Item, ...]
    later: Iterator[Item]
    begins_in_midst: bool
    nodes_seen: tuple[NodeSeen, ...] = ()
    is_whole: bool = True

    @property
    def process(self) -> ProcessBegan | None:
        """Return from when on the process counts; None in a recording that does not say it."""
        return next((each for each in self.standing if isinstance(each, ProcessBegan)), None)

    @property
    def has_job_steps(self) -> bool:
        """Say whether the recording has what was written of migration jobs."""
        return self.process is not None and self.process.has_job_steps

    @property
    def began(self) -> Instant:
        """Return when the picture began."""
        return self.picture.at


def lives(items: Iterable[Item]) -> Iterator[Life]:
    """Yield each time without a gap; iterate its later items before the next is asked for."""
    rest = _Items(items)
    while (picture := rest.next_of(PictureBegun)) is not None:
        is_midst = picture.is_continued or rest.was_interrupted
        pictured = rest.up_to_picture_end()
        later = rest.up_to_gap() if rest.is_picture_whole else iter(())
        life = _life(picture, pictured, later, is_midst=is_midst)
        is_new = life.process is not None and life.process.evaluates_from_s is None
        if is_new and not picture.is_continued:
            life = replace(life, begins_in_midst=False)
        yield life if rest.is_picture_whole else replace(life, is_whole=False)
        for _ in life.later:
            pass


class _Items:
    """Items that are read in turn; the one that begins the next life is read again."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._rest = iter(items)
        self._following: PictureBegun | None = None
        self.was_interrupted = False
        self.is_picture_whole = False

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if (following := self._following) is not None:
            self._following = None
            return following
        return next(self._rest)

    def next_of(self, kind: type[PictureBegun]) -> PictureBegun | None:
        """Return the next item of a kind; None where there is none."""
        return next((each for each in self if isinstance(each, kind)), None)

    def up_to_picture_end(self) -> list[Item]:
        """Return what a picture has, up to its end or to what is missing: `is_picture_whole`."""
        self.was_interrupted = self.is_picture_whole = False
        pictured: list[Item] = []
        for item in self:
            match item:
                case PictureEnded():
                    self.is_picture_whole = True
                    break
                case PictureBegun():
                    self._following = item
                    break
                case _:
                    pictured.append(item)
                    if isinstance(item, RecordingInterrupted):
                        self.was_interrupted = item.reason != STOPPED
                        break
        return pictured

    def up_to_gap(self) -> Iterator[Item]:
        """Yield what changes until something is missing; pictures that continue are left out."""
        self.was_interrupted = False
        for item in self:
            match item:
                case PictureBegun(is_continued=False):
                    self._following = item
                    return
                case RecordingInterrupted(reason=reason):
                    self.was_interrupted = reason != STOPPED
                    yield item
                    return
                case PictureBegun() | PictureEnded() | ObjectFound() | NodeSeen():
                    pass
                case _:
                    yield item


def _life(
    picture: PictureBegun, pictured: list[Item], later: Iterator[Item], *, is_midst: bool
) -> Life:
    """Return the life that begins with a picture.

    A picture is made in parts while the cluster changes: an object that changed before its part was
    made is taken as it was before, as far as that is known.
    """
    objects: dict[str, dict[str, ClusterObject]] = {}
    absent: set[tuple[str, str]] = set()
    for item in pictured:
        match item:
            case ObjectFound(resource=resource, obj=obj):
                if (resource, obj.key) not in absent:
                    objects.setdefault(resource, {}).setdefault(obj.key, obj)
            case ObjectChanged(resource=resource, verb=verb, obj=obj):
                of_kind = objects.setdefault(resource, {})
                if obj.key not in of_kind and (resource, obj.key) not in absent:
                    if verb is Verb.ADDED:
                        absent.add((resource, obj.key))
                    else:
                        of_kind[obj.key] = obj
            case _:
                pass
    standing, samples, changes = _parts(pictured)
    nodes_seen = tuple(_nodes_seen(pictured))
    return Life(picture, objects, samples, standing, chain(changes, later), is_midst, nodes_seen)


def _nodes_seen(pictured: Iterable[Item]) -> Iterator[NodeSeen]:
    """Yield the nodes of a picture as they were seen at its beginning.

    A pod that changed since then may have another place among those of its node.
    """
    changed = set[str]()
    for item in pictured:
        match item:
            case ObjectChanged(obj=Pod(uid=uid)):
                changed.add(uid)
            case NodeSeen(pods=pods):
                yield replace(item, pods=tuple(uid for uid in pods if uid not in changed))
            case _:
                pass


def _parts(
    pictured: Iterable[Item],
) -> tuple[tuple[Item, ...], tuple[NodeUsage, ...], list[Item]]:
    """Return what holds at the beginning of a picture, measured use then, and what changed in it.

    The first of each kind holds: it stands before the first object. Measured use stands there, too.
    """
    standing: dict[tuple[type[Item], str], Item] = {}
    samples, changes, is_head = list[NodeUsage](), list[Item](), True
    for item in pictured:
        key = type(item), str(getattr(item, "name", getattr(item, "resource", "")))
        if isinstance(item, ObjectFound | NodeSeen):
            is_head = False
        elif is_head and isinstance(item, UsageMeasured) and not item.is_gone:
            samples.append(item.sample)
        elif is_head and isinstance(item, STANDING) and key not in standing:
            standing[key] = item
        else:
            changes.append(item)
    return tuple(standing.values()), tuple(samples), changes
