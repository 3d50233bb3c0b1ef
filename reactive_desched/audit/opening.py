"""Opens the index of a journal: beside the journal, in the cache, or a temporary one."""

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from reactive_desched.audit import schema
from reactive_desched.audit.catalogue import IndexCatalogue
from reactive_desched.audit.index import AuditIndex, is_corruption, remove_index
from reactive_desched.audit.journal_check import has_records, require_journal
from reactive_desched.errors import JournalError
from reactive_desched.journal.follower import newest_records
from reactive_desched.journal.segments import list_segments
from reactive_desched.text.counts import format_count

NOTICE_AFTER_S: Final = 1.0
"""Print nothing when the index is built sooner than this."""


class ProgressNotice:
    """Says one line, once, when reading takes longer; `clock` counts seconds."""

    def __init__(self, notify: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._notify = notify
        self._clock = clock
        self._due_at = clock() + NOTICE_AFTER_S
        self._is_shown = False

    def update(self, directory: Path, seq: int, *, is_stored: bool) -> None:
        """Say how many records behind `seq` are read, if it is time to and was not said yet."""
        if self._is_shown or self._clock() < self._due_at:
            return
        self._is_shown = True
        count = format_count(_records_behind(directory, seq), "record")
        where = "into the index, once" if is_stored else "into memory: no index can be kept"
        self._notify(f"reading {count} {where}")


def _records_behind(directory: Path, seq: int) -> int:
    last = newest_records(directory, 0, lambda _: False).last_seq
    begin = list_segments(directory)[0].first_seq - 1
    return last - seq if begin < seq <= last else last - begin


MAX_CACHED_INDEXES: Final = 8
"""Indexes are cached for so many journals in folders that are not writable: those last used."""


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Return the folder of the indexes whose journal lies in a folder that is not writable."""
    home = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/var/cache")) / ".cache"
    return Path(home) / "reactive-desched"


def is_writable(directory: Path) -> bool:
    """Say whether files can be made in the folder."""
    return os.access(directory, os.W_OK | os.X_OK)


@contextmanager
def open_catalogue(
    directory: Path,
    cache: Path,
    *,
    rebuild: bool = False,
    writable: Callable[[Path], bool] = is_writable,
    notify: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[IndexCatalogue]:
    """Open the index of the journal in the folder, up to date with it.

    For a journal without records no index is written. `notify` is called when it takes long.
    Raises ConfigError when there is no journal, and JournalError when it cannot be searched.
    """
    is_begun = has_records(require_journal(directory))
    opening = _CatalogueOpener(directory, cache, ProgressNotice(notify, clock), rebuild=rebuild)
    try:
        catalogue = opening.open_stored(writable) if is_begun else opening.open_temporary()
        try:
            yield catalogue
        finally:
            catalogue.close()
    except sqlite3.Error as error:
        raise JournalError(
            f"{directory}: the index cannot be used: {error}; --rebuild-index makes another"
        ) from error


class _CatalogueOpener:
    """Opens the first index that can be used."""

    def __init__(
        self, directory: Path, cache: Path, progress: ProgressNotice, *, rebuild: bool
    ) -> None:
        self._directory = directory
        self._cache = cache
        self._progress = progress
        self._rebuild = rebuild

    def open_stored(self, writable: Callable[[Path], bool]) -> IndexCatalogue:
        """Use the index beside the journal, or in the cache; else make a temporary one."""
        own_index = self._directory / schema.INDEX_FILE
        if writable(self._directory):
            with suppress(sqlite3.OperationalError, OSError):
                return IndexCatalogue(self._directory, own_index, self._open_up_to_date(own_index))
        if not self._rebuild and own_index.exists():
            with suppress(sqlite3.Error):
                return self._open_read_only_with_rest(own_index)
        with suppress(sqlite3.OperationalError, OSError):
            path = _cache_path(self._directory, self._cache)
            return IndexCatalogue(self._directory, path, self._open_up_to_date(path))
        return self.open_temporary()

    def open_temporary(self) -> IndexCatalogue:
        """Make a temporary index."""
        index = AuditIndex.temporary(self._directory)
        index.index_all(self._progress_callback(0, is_stored=False))
        return IndexCatalogue(self._directory, None, index)

    def _progress_callback(self, seq: int, *, is_stored: bool) -> Callable[[], None]:
        return lambda: self._progress.update(self._directory, seq, is_stored=is_stored)

    def _open_up_to_date(self, path: Path) -> AuditIndex:
        index = AuditIndex.open(self._directory, path)
        try:
            show_progress = self._progress_callback(
                0 if self._rebuild else index.cursor.seq, is_stored=True
            )
            _ = index.rebuild(show_progress) if self._rebuild else index.index_all(show_progress)
        except BaseException as error:
            index.close()
            if not (isinstance(error, sqlite3.Error) and is_corruption(error)):
                raise
            remove_index(path)  # damaged further in than opening it shows
            index = AuditIndex.open(self._directory, path)
            index.index_all(self._progress_callback(0, is_stored=True))
        return index

    def _open_read_only_with_rest(self, path: Path) -> IndexCatalogue:
        before = AuditIndex.open_read_only(self._directory, path)
        rest = AuditIndex.temporary(self._directory, after=before)
        rest.index_all(self._progress_callback(before.cursor.seq, is_stored=False))
        return IndexCatalogue(self._directory, path, before, rest)


def _cache_path(directory: Path, cache: Path) -> Path:
    """Return the path of a journal's index in the cache, and remove the oldest ones there."""
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:32]
    path = cache / f"index-{name}.sqlite"
    others = [each for each in cache.glob("index-*.sqlite") if each != path]
    others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    for each in others[MAX_CACHED_INDEXES - 1 :]:
        remove_index(each)
    return path
