"""The index: where in the journal each record stands, and what one may look for in it.

It holds nothing that the journal does not: whatever is wrong with it, it is built anew.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple, replace

from reactive_desched.audit import schema
from reactive_desched.audit.reader import Reader
from reactive_desched.audit.rows import LARGEST, Counters, Rows, read
from reactive_desched.journal.reader import Portion
from reactive_desched.journal.records import digest, mark

BATCH: Final = 5000
"""So many lines become one transaction when nobody else needs the processor."""

CACHE_KIB: Final = 65_536
"""So much of the index SQLite keeps in memory while it is filled."""


class Place(Struct, frozen=True):
    """How far the index has come: the last record it holds, and where the next line begins."""

    segment: int = 0
    next: int = 0
    holder: int = 0
    start: int = 0
    size: int = 0
    seq: int = 0
    n: int = 0
    digest: str = ""


class Held(Struct, frozen=True):
    """What the index holds of a segment: records `first` to `last`, and what it could not read."""

    first_seq: int
    first: int
    last: int
    damaged: int
    broken: int
    oldest: int
    newest: int


class Index:
    """An index of one journal, in a file of its own, or in memory.

    Two processes may keep the same file up to date: they take turns, batch by batch. Every method
    may block, and raises sqlite3.Error or JournalError; one thread at a time may call them.
    """

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self.directory = directory
        self.connection = connection
        self.left_alone = False
        self._reader = Reader(directory)
        self._seen: int | None = None
        self._rows = Rows(Counters(0, 0, 0, 0))

    @classmethod
    def open(cls, directory: Path, path: Path, *, cache_kib: int = CACHE_KIB) -> "Index":
        """Open the index to keep it up to date; a damaged one is removed and begun anew."""
        try:
            return cls._opened(directory, path, cache_kib)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
        remove(path)
        return cls._opened(directory, path, cache_kib)

    @classmethod
    def _opened(cls, directory: Path, path: Path, cache_kib: int) -> "Index":
        index = cls(directory, schema.connect(path, cache_kib=cache_kib))
        try:
            index._adopt()
        except BaseException:
            index.close()
            raise
        return index

    @classmethod
    def open_to_read(cls, directory: Path, path: Path, *, cache_kib: int = CACHE_KIB) -> "Index":
        """Open the index as it is, and as it will stay for this reader whoever goes on writing.

        Raises sqlite3.Error also when it is none of this journal.
        """
        connection = schema.connect_to_read(path, cache_kib=cache_kib)
        connection.execute("BEGIN")
        index = cls(directory, connection)
        if not (schema.is_ours(connection) and index._fits(index.place)):
            index.close()
            raise sqlite3.DatabaseError(f"{path}: this is no index of {directory}")
        return index

    @classmethod
    def private(cls, directory: Path, *, behind: "Index | None" = None) -> "Index":
        """Return an index that is gone when it is closed; of all, or what comes behind another."""
        connection = sqlite3.connect("", isolation_level=None)
        index = cls(directory, connection)
        with index._writing():
            schema.create(connection)
            if behind is not None:
                index._keep(behind.place)
        return index

    def close(self) -> None:
        """Close the files."""
        self._reader.close()
        self.connection.close()

    @property
    def place(self) -> Place:
        """How far it has come."""
        row = self.connection.execute(
            "SELECT segment, next, holder, start, size, seq, n, digest FROM place"
        ).fetchone()
        return Place(*row) if row else Place()

    @property
    def segments(self) -> list[Held]:
        """What it holds, segment by segment, oldest first."""
        rows = self.connection.execute("SELECT * FROM segments ORDER BY first_seq")
        return [Held(*row) for row in rows]

    def catch_up(self, most: int = BATCH, *, last: int = LARGEST) -> int:
        """Take in at most so many lines; return how many there were, 0 when it is up to date.

        Forgets segments that are no longer there, and begins anew when its last record is not the
        journal's. What stands behind the record `last` is left alone, and `left_alone` says that
        there was some: the write that it is part of may still fail, and be taken back.
        """
        with self._writing():
            place = self._checked()
            if place.seq > last:  # somebody else was not so careful: look again next time
                self._seen = None
                return 0
            portion = self._up_to(last, self._reader.read(place.segment, place.next, most))
            if portion is not None:
                self._take(portion, place)
            if portion is None or portion.segment != place.segment:
                self._prune()
        return 0 if portion is None else max(len(portion.lines), 1)

    def finish(self, between: Callable[[], None] = lambda: None) -> int:
        """Take in everything there is; return how many lines it was.

        `between` is called after each batch.
        """
        return self._rest(between) if self.place.seq else self._filled(between)

    def rebuild(self, between: Callable[[], None] = lambda: None) -> int:
        """Build it anew; return how many lines were read."""
        with self._writing():
            schema.create(self.connection)
            self._seen = None
        return self.finish(between)

    def _rest(self, between: Callable[[], None]) -> int:
        total = 0
        while taken := self.catch_up():
            total += taken
            between()
        return total

    def _filled(self, between: Callable[[], None]) -> int:
        """Take in a whole journal: sorted at its end, and not all the way."""
        with self._writing():
            schema.drop_indexes(self.connection)
        try:
            return self._rest(between)
        finally:
            with self._writing():
                schema.add_indexes(self.connection)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the pen: what is done within is kept whole, or not at all."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._seen = None
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def _adopt(self) -> None:
        """Make sure that the tables are there, and as this version knows them."""
        with self._writing():
            if schema.is_ours(self.connection):
                schema.add_indexes(self.connection)  # filling it may have been cut short
            else:
                schema.create(self.connection)

    def _checked(self) -> Place:
        """Return the place to go on from: another process may have been here since the last time.

        What was not stored here must be read again before it is relied upon.
        """
        place = self.place
        (seen,) = self.connection.execute("PRAGMA data_version").fetchone()
        if seen == self._seen:
            return place
        if not self._fits(place):
            schema.create(self.connection)
            place = self.place
        counters = [
            self.connection.execute(f"SELECT coalesce(max({column}), 0) FROM {table}").fetchone()  # noqa: S608 -- both are written here
            for column, table in (("subject", "subjects"), ("chain", "owners"), ("word", "words"))
        ]
        self._rows = Rows(Counters(place.n, *(number for (number,) in counters)))
        self._seen = seen
        return place

    def _fits(self, place: Place) -> bool:
        """Say whether the last record it holds is the journal's, as far as one can still tell."""
        if not place.seq:
            return True
        files = self._reader.files()
        if any(each.first_seq == place.holder for each in files):
            found = self._reader.read(place.holder, place.start, 1)
            self._reader.close()
            return bool(found and found.lines and digest(found.lines[0][:-1]) == place.digest)
        return bool(files) and files[0].first_seq > place.seq

    def _take(self, portion: Portion, place: Place) -> None:
        """Store the rows of a portion, and how far it reaches."""
        first, damaged, offset = self._rows.last_record + 1, 0, portion.offset
        last: tuple[bytes, int, int] | None = None
        times: list[int] = []
        for raw in portion.lines:
            if (event := read(raw)) is None:
                damaged += 1
            else:
                times.append(self._rows.add(event, offset, len(raw) - 1))
                last = raw, offset, event.seq
            offset += len(raw)
        self._rows.store(self.connection)
        held = (portion.segment, first, self._rows.last_record, damaged, portion.broken)
        self._note(held, min(times, default=0), max(times, default=0))
        segment, behind = portion.behind
        reached = replace(place, segment=segment, next=behind)
        if last is not None:
            raw, start, seq = last
            reached = replace(
                reached,
                holder=portion.segment,
                start=start,
                size=len(raw) - 1,
                seq=seq,
                n=self._rows.last_record,
                digest=digest(raw[:-1]),
            )
        self._keep(reached)

    def _note(self, held: tuple[int, int, int, int, bool], oldest: int, newest: int) -> None:
        self.connection.execute(
            "INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (first_seq) DO UPDATE"
            " SET last = excluded.last, damaged = damaged + excluded.damaged,"
            " broken = max(broken, excluded.broken),"
            " oldest = CASE WHEN first > last THEN excluded.oldest"
            "  WHEN excluded.first > excluded.last THEN oldest"
            "  ELSE min(oldest, excluded.oldest) END,"
            " newest = max(newest, excluded.newest)",
            (*held, oldest, newest),
        )

    def _keep(self, place: Place) -> None:
        self.connection.execute(
            "UPDATE place SET segment = ?, next = ?, holder = ?, start = ?, size = ?, seq = ?,"
            " n = ?, digest = ?",
            astuple(place),
        )

    def _up_to(self, last: int, portion: Portion | None) -> Portion | None:
        """Leave out the records behind `last`: they can only be the newest."""
        self.left_alone = False
        if portion is None or last == LARGEST:
            return portion
        lines = portion.lines
        while lines and (found := mark(lines[-1])) is not None and found.seq > last:
            lines.pop()
            self.left_alone = True
        if not self.left_alone:
            return portion
        return portion._replace(broken=False) if lines else None

    def _prune(self) -> None:
        """Forget the segments that are gone, and what only their records needed."""
        there = {each.first_seq for each in self._reader.files()}
        gone = [held for held in self.segments if held.first_seq not in there]
        if not gone:
            return
        for held in gone:
            span = held.first, held.last
            self.connection.execute("DELETE FROM records WHERE n BETWEEN ? AND ?", span)
            self.connection.execute("DELETE FROM segments WHERE first_seq = ?", (held.first_seq,))
        schema.sweep(self.connection)
        self._rows.forget()


def is_damage(error: Exception) -> bool:
    """Say whether the file is damaged; otherwise it only cannot be reached just now."""
    damage = isinstance(error, sqlite3.DatabaseError)
    return damage and not isinstance(error, sqlite3.OperationalError)


def remove(path: Path) -> None:
    """Remove an index and what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
