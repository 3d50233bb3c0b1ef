"""Splits a recording into the times in which one process recorded without a gap."""

from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.usage import NodeUsage
from reactive_desched.recording.items import (
    STOPPED,
    BrakesHeld,
    ConfigurationInForce,
    Instant,
    Item,
    ObjectChanged,
    ObjectFound,
    PauseSet,
    PictureBegun,
    PictureEnded,
    RecordingInterrupted,
    ResourceDenied,
    TermChanged,
    UsageMeasured,
    Verb,
)

_STANDING: Final = BrakesHeld | ConfigurationInForce | PauseSet | ResourceDenied | TermChanged
"""The items that hold at the beginning of a picture: they stand at its head."""


class Life(Struct, frozen=True):
    """A time without a gap: its first picture, the cluster as it was then, and what came after.

    `later` is read while it is iterated, up to the gap: a process that was stopped wrote
    `RecordingInterrupted` there, one that crashed wrote nothing. `standing` has the items that held
    besides the objects. `begins_in_midst` says that its process had begun before: by a picture that
    continues, or behind a gap of its own.
    """

    picture: PictureBegun
    objects: dict[str, dict[str, ClusterObject]]
    samples: tuple[NodeUsage, ...]
    standing: tuple[Item, ...]
    later: Iterator[Item]
    begins_in_midst: bool

    @property
    def began(self) -> Instant:
        """Return when the picture began."""
        return self.picture.at


def lives(items: Iterable[Item]) -> Iterator[Life]:
    """Yield each time without a gap; iterate its later items before the next is asked for."""
    rest = _Items(items)
    while (picture := rest.next_of(PictureBegun)) is not None:
        if (pictured := rest.up_to_picture_end()) is not None:
            is_midst = picture.is_continued or rest.was_interrupted
            life = _life(picture, pictured, rest.up_to_gap(), is_midst=is_midst)
            yield life
            for _ in life.later:
                pass


class _Items:
    """Items that are read in turn; the one that begins the next life is read again."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._rest = iter(items)
        self._following: PictureBegun | None = None
        self.was_interrupted = False

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

    def up_to_picture_end(self) -> list[Item] | None:
        """Return what a picture has; None where it is not whole."""
        pictured: list[Item] = []
        for item in self:
            match item:
                case PictureEnded():
                    return pictured
                case RecordingInterrupted():
                    return None
                case PictureBegun():
                    self._following = item
                    return None
                case _:
                    pictured.append(item)
        return None

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
                case PictureBegun() | PictureEnded() | ObjectFound():
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
    standing = tuple(_standing(pictured))
    rest = pictured[len(standing) :]
    samples = tuple(takewhile(lambda each: isinstance(each, UsageMeasured), rest))
    changes = (each for each in rest[len(samples) :] if not isinstance(each, ObjectFound))
    return Life(
        picture,
        objects,
        tuple(each.sample for each in samples if isinstance(each, UsageMeasured)),
        standing,
        chain(changes, later),
        is_midst,
    )


def _standing(pictured: Iterable[Item]) -> Iterator[Item]:
    """Yield what holds at the beginning of a picture: the first items, each kind of them once."""
    seen: set[tuple[type[Item], str]] = set()
    for item in takewhile(lambda each: isinstance(each, _STANDING), pictured):
        key = type(item), str(getattr(item, "name", getattr(item, "resource", "")))
        if key in seen:
            return
        seen.add(key)
        yield item
