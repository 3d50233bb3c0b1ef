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
from reactive_desched.audit.reader import AuditReader
from reactive_desched.audit.rows import MAX_SQLITE_INT, LastIds, RowBatch, parse_line
from reactive_desched.journal.reader import LineBatch
from reactive_desched.journal.records import digest, parse_header

BATCH_LINES: Final = 5000
LINES_PER_PAUSE: Final = 16
"""So many lines become one transaction when no other task needs the processor."""

CACHE_KIB: Final = 65_536
"""So much of the index SQLite keeps in memory while it is filled."""


class IndexCursor(Struct, frozen=True):
    """The position of the index: the last record that it holds, and where the next line begins."""

    segment: int = 0
    next: int = 0
    holder: int = 0
    start: int = 0
    size: int = 0
    seq: int = 0
    n: int = 0
    digest: str = ""


class IndexedSegment(Struct, frozen=True):
    """The records `first` to `last` of a segment that the index holds, and those it cannot read."""

    first_seq: int
    first: int
    last: int
    damaged: int
    broken: int
    oldest: int
    newest: int


class AuditIndex:
    """An index of one journal, in a file of its own, or in memory.

    Two processes may keep the same file up to date: they take turns, batch by batch. Every method
    may block, and raises sqlite3.Error or JournalError; one thread at a time may call them.
    """

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self.directory = directory
        self.connection = connection
        self.skipped_newer = False
        self._reader = AuditReader(directory)
        self._data_version: int | None = None
        self._row_batch = RowBatch(LastIds(0, 0, 0, 0))

    @classmethod
    def open(cls, directory: Path, path: Path, *, cache_kib: int = CACHE_KIB) -> "AuditIndex":
        """Open the index to keep it up to date; a damaged one is removed and begun again."""
        try:
            return cls._open(directory, path, cache_kib)
        except sqlite3.Error as error:
            if not is_corruption(error):
                raise
        remove_index(path)
        return cls._open(directory, path, cache_kib)

    @classmethod
    def _open(cls, directory: Path, path: Path, cache_kib: int) -> "AuditIndex":
        index = cls(directory, schema.connect(path, cache_kib=cache_kib))
        try:
            index._ensure_schema()
        except BaseException:
            index.close()
            raise
        return index

    @classmethod
    def open_read_only(cls, directory: Path, path: Path) -> "AuditIndex":
        """Open a snapshot of the index: later writes do not change what this reader sees.

        Raises sqlite3.Error also when it is none of this journal.
        """
        connection = schema.connect_read_only(path, cache_kib=CACHE_KIB)
        connection.execute("BEGIN")
        index = cls(directory, connection)
        if not (schema.has_current_schema(connection) and index._matches_journal(index.cursor)):
            index.close()
            raise sqlite3.DatabaseError(f"{path}: this is not an index of {directory}")
        return index

    @classmethod
    def temporary(cls, directory: Path, *, after: "AuditIndex | None" = None) -> "AuditIndex":
        """Return an index that is gone when it is closed; of all, or what comes behind another."""
        connection = sqlite3.connect("", isolation_level=None)
        index = cls(directory, connection)
        with index._transaction():
            schema.create_tables(connection)
            if after is not None:
                index._save_cursor(after.cursor)
        return index

    def close(self) -> None:
        """Close the files."""
        self._reader.close()
        self.connection.close()

    @property
    def cursor(self) -> IndexCursor:
        """Return how far it has come."""
        row = self.connection.execute(
            "SELECT segment, next, holder, start, size, seq, n, digest FROM place"
        ).fetchone()
        return IndexCursor(*row) if row else IndexCursor()

    @property
    def segments(self) -> list[IndexedSegment]:
        """Return what it holds, segment by segment, oldest first."""
        rows = self.connection.execute("SELECT * FROM segments ORDER BY first_seq")
        return [IndexedSegment(*row) for row in rows]

    def catch_up(
        self,
        limit: int = BATCH_LINES,
        *,
        last_seq: int = MAX_SQLITE_INT,
        pause: Callable[[], None] = lambda: None,
    ) -> int:
        """Index at most so many lines; return how many there were, 0 when it is up to date.

        `pause` is called after every LINES_PER_PAUSE lines.

        Forgets segments that are no longer there, and begins anew when its last record is not the
        journal's. What stands behind the record `last_seq` is left alone: the write that it is
        part of may still fail, and be taken back.
        """
        with self._transaction():
            cursor = self._verified_cursor()
            if cursor.seq > last_seq:  # another process wrote past the limit: read again next time
                self._data_version = None
                return 0
            batch = self._drop_newer(
                last_seq, self._reader.read(cursor.segment, cursor.next, limit)
            )
            if batch is not None:
                self._index_batch(batch, cursor, pause)
            if batch is None or batch.first_seq != cursor.segment:
                self._remove_gone_segments()
        return 0 if batch is None else max(len(batch.lines), 1)

    def index_all(self, after_batch: Callable[[], None] = lambda: None) -> int:
        """Index every line that is not indexed yet; return how many there were.

        `after_batch` is called after each batch.
        """
        return self._catch_up_all(after_batch) if self.cursor.seq else self._bulk_index(after_batch)

    def rebuild(self, after_batch: Callable[[], None] = lambda: None) -> int:
        """Rebuild it; return how many lines were read."""
        with self._transaction():
            schema.create_tables(self.connection)
            self._data_version = None
        return self.index_all(after_batch)

    def _catch_up_all(self, after_batch: Callable[[], None]) -> int:
        total = 0
        while taken := self.catch_up():
            total += taken
            after_batch()
        return total

    def _bulk_index(self, after_batch: Callable[[], None]) -> int:
        """Index a whole journal, and sort its rows once at the end."""
        with self._transaction():
            schema.drop_indexes(self.connection)
        try:
            return self._catch_up_all(after_batch)
        finally:
            with self._transaction():
                schema.add_indexes(self.connection)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write in one transaction: everything within the block is stored, or nothing."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._data_version = None
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def _ensure_schema(self) -> None:
        """Create the tables, or check that they are of this version."""
        with self._transaction():
            if schema.has_current_schema(self.connection):
                schema.add_indexes(self.connection)  # filling it may have been cut short
            else:
                schema.create_tables(self.connection)

    def _verified_cursor(self) -> IndexCursor:
        """Return where indexing continues: another process may have indexed since the last time.

        What was not stored here must be read again before it is relied upon.
        """
        cursor = self.cursor
        (data_version,) = self.connection.execute("PRAGMA data_version").fetchone()
        if data_version == self._data_version:
            return cursor
        if not self._matches_journal(cursor):
            schema.create_tables(self.connection)
            cursor = self.cursor
        counters = [
            self.connection.execute(f"SELECT coalesce(max({column}), 0) FROM {table}").fetchone()  # noqa: S608 -- both are written here
            for column, table in (("subject", "subjects"), ("chain", "owners"), ("word", "words"))
        ]
        self._row_batch = RowBatch(LastIds(cursor.n, *(number for (number,) in counters)))
        self._data_version = data_version
        return cursor

    def _matches_journal(self, cursor: IndexCursor) -> bool:
        """Say whether its last record equals the journal's, as far as that can be read."""
        if not cursor.seq:
            return True
        files = self._reader.segments()
        if any(each.first_seq == cursor.holder for each in files):
            found = self._reader.read(cursor.holder, cursor.start, 1)
            self._reader.close()
            return bool(found and found.lines and digest(found.lines[0][:-1]) == cursor.digest)
        return bool(files) and files[0].first_seq > cursor.seq

    def _index_batch(
        self, batch: LineBatch, cursor: IndexCursor, pause: Callable[[], None]
    ) -> None:
        """Store the rows of a portion, and how far it reaches."""
        first, damaged, offset = self._row_batch.last_record_number + 1, 0, batch.offset
        last: tuple[bytes, int, int] | None = None
        times: list[int] = []
        for number, raw in enumerate(batch.lines, 1):
            if number % LINES_PER_PAUSE == 0:
                pause()
            if (event := parse_line(raw)) is None:
                damaged += 1
            else:
                times.append(self._row_batch.add(event, offset, len(raw) - 1))
                last = raw, offset, event.seq
            offset += len(raw)
        self._row_batch.write_batch(self.connection)
        counts = (
            batch.first_seq,
            first,
            self._row_batch.last_record_number,
            damaged,
            batch.damaged,
        )
        self._upsert_segment(counts, min(times, default=0), max(times, default=0))
        segment, behind = batch.next_position
        new_cursor = replace(cursor, segment=segment, next=behind)
        if last is not None:
            raw, start, seq = last
            new_cursor = replace(
                new_cursor,
                holder=batch.first_seq,
                start=start,
                size=len(raw) - 1,
                seq=seq,
                n=self._row_batch.last_record_number,
                digest=digest(raw[:-1]),
            )
        self._save_cursor(new_cursor)

    def _upsert_segment(
        self, counts: tuple[int, int, int, int, bool], oldest: int, newest: int
    ) -> None:
        self.connection.execute(
            "INSERT INTO segments VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (first_seq) DO UPDATE"
            " SET last = excluded.last, damaged = damaged + excluded.damaged,"
            " broken = max(broken, excluded.broken),"
            " oldest = CASE WHEN first > last THEN excluded.oldest"
            "  WHEN excluded.first > excluded.last THEN oldest"
            "  ELSE min(oldest, excluded.oldest) END,"
            " newest = max(newest, excluded.newest)",
            (*counts, oldest, newest),
        )

    def _save_cursor(self, cursor: IndexCursor) -> None:
        self.connection.execute(
            "UPDATE place SET segment = ?, next = ?, holder = ?, start = ?, size = ?, seq = ?,"
            " n = ?, digest = ?",
            astuple(cursor),
        )

    def _drop_newer(self, last_seq: int, batch: LineBatch | None) -> LineBatch | None:
        """Leave out the records behind `last`: they can only be the newest."""
        self.skipped_newer = False
        if batch is None or last_seq == MAX_SQLITE_INT:
            return batch
        lines = batch.lines
        while lines and (found := parse_header(lines[-1])) is not None and found.seq > last_seq:
            lines.pop()
            self.skipped_newer = True
        if not self.skipped_newer:
            return batch
        return batch._replace(damaged=False) if lines else None

    def _remove_gone_segments(self) -> None:
        """Forget the segments that are gone, and what only their records needed."""
        there = {each.first_seq for each in self._reader.segments()}
        gone = [held for held in self.segments if held.first_seq not in there]
        if not gone:
            return
        for held in gone:
            span = held.first, held.last
            self.connection.execute("DELETE FROM records WHERE n BETWEEN ? AND ?", span)
            self.connection.execute("DELETE FROM segments WHERE first_seq = ?", (held.first_seq,))
        schema.remove_unreferenced(self.connection)
        self._row_batch.clear_cache()


def is_corruption(error: Exception) -> bool:
    """Say whether the file is damaged; otherwise it only cannot be reached just now."""
    damage = isinstance(error, sqlite3.DatabaseError)
    return damage and not isinstance(error, sqlite3.OperationalError)


def remove_index(path: Path) -> None:
    """Remove an index and what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
