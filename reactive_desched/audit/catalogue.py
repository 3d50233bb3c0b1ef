"""What is searched: an index that is up to date, or two, and the lines they point to."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from reactive_desched.audit import lookup
from reactive_desched.audit.index import Index
from reactive_desched.audit.lines import Lines
from reactive_desched.audit.lookup import Spot, Wanted
from reactive_desched.journal.records import Entry


class Place(NamedTuple):
    """A record's place: which of the indexes holds it, and where its line stands."""

    volume: int
    spot: Spot


class Catalogue:
    """One index, or one that stays as it is and another of what came after; oldest first."""

    def __init__(self, directory: Path, path: Path | None, *indexes: Index) -> None:
        """Search these; `path` is the file of the first, if it has one of its own."""
        self.directory = directory
        self.path = path
        self.indexes = indexes
        self._lines = Lines(directory)

    def close(self) -> None:
        """Close every file."""
        self._lines.close()
        for index in self.indexes:
            index.close()

    @property
    def missing(self) -> int:
        """How many records could not be fetched although the index has them."""
        return self._lines.missing

    @property
    def damaged(self) -> int:
        """How many damaged lines there are; a file that ends in the middle counts as one."""
        return sum(one.damaged + one.broken for index in self.indexes for one in index.segments)

    @property
    def last(self) -> int:
        """The sequence of the last record, 0 when there is none."""
        return self.indexes[-1].place.seq

    def find(self, wanted: Wanted, *, most: int | None = None) -> list[Place]:
        """Return where the wanted records stand, in order; of more than `most`, the newest."""
        found: list[Place] = []
        for number in reversed(range(len(self.indexes))):
            room = None if most is None else most - len(found)
            spots = lookup.spots(self.indexes[number], wanted, most=room)
            found += [Place(number, spot) for spot in spots]
        return found[::-1]

    def walk(self, wanted: Wanted) -> Iterator[Entry]:
        """Yield the wanted records in order, however many there are."""
        for index in self.indexes:
            yield from self._lines.read(index, lookup.walk(index, wanted))

    def gather(self, look: Callable[[Index], Iterable[Spot]]) -> list[Place]:
        """Return what is looked up in every index, the older first."""
        return [
            Place(number, spot) for number, one in enumerate(self.indexes) for spot in look(one)
        ]

    def fetch(self, places: Iterable[Place]) -> Iterator[Entry]:
        """Yield the records themselves; those that are gone are left out and counted."""
        for number, some in groupby(places, attrgetter("volume")):
            yield from self._lines.read(self.indexes[number], (place.spot for place in some))
