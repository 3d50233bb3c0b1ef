"""Gets an index of any journal: one that is being written, a copy, one not ours to touch."""

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from reactive_desched.audit import schema
from reactive_desched.audit.catalogue import Catalogue
from reactive_desched.audit.index import Index, is_damage, remove
from reactive_desched.audit.journal_check import check, has_records
from reactive_desched.audit.progress_notice import Patience
from reactive_desched.errors import JournalError

KEPT: Final = 8
"""Of so many journals that cannot be written to indexes are cached, those last used."""


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Return where indexes are kept that cannot lie beside their journal."""
    home = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/var/cache")) / ".cache"
    return Path(home) / "reactive-desched"


def may_write(directory: Path) -> bool:
    """Say whether files can be made there."""
    return os.access(directory, os.W_OK | os.X_OK)


@contextmanager
def searching(
    directory: Path,
    cache: Path,
    *,
    rebuild: bool = False,
    writable: Callable[[Path], bool] = may_write,
    say: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Catalogue]:
    """Open what is searched, up to date with the journal in the folder.

    Where there is not one record yet, no index is written. `say` hears when it takes a while.
    Raises ConfigError when there is no journal, and JournalError when it cannot be searched.
    """
    is_begun = has_records(check(directory))
    opening = _Opening(directory, cache, Patience(say, clock), rebuild=rebuild)
    try:
        catalogue = opening.kept(writable) if is_begun else opening.unkept()
        try:
            yield catalogue
        finally:
            catalogue.close()
    except sqlite3.Error as error:
        raise JournalError(
            f"{directory}: the index cannot be used: {error}; --rebuild-index makes another"
        ) from error


class _Opening:
    """One way after the other to an index, until one can be had."""

    def __init__(self, directory: Path, cache: Path, patience: Patience, *, rebuild: bool) -> None:
        self._directory = directory
        self._cache = cache
        self._patience = patience
        self._rebuild = rebuild

    def kept(self, writable: Callable[[Path], bool]) -> Catalogue:
        """Return what has an index beside the journal, or in the cache; else what has none."""
        own = self._directory / schema.NAME
        if writable(self._directory):
            with suppress(sqlite3.OperationalError, OSError):
                return Catalogue(self._directory, own, self._up_to_date(own))
        if not self._rebuild and own.exists():
            with suppress(sqlite3.Error):
                return self._with_the_rest(own)
        with suppress(sqlite3.OperationalError, OSError):
            path = _cached(self._directory, self._cache)
            return Catalogue(self._directory, path, self._up_to_date(path))
        return self.unkept()

    def unkept(self) -> Catalogue:
        """Return what has an index of which nothing stays."""
        index = Index.private(self._directory)
        index.finish(self._looking(0, is_kept=False))
        return Catalogue(self._directory, None, index)

    def _looking(self, seq: int, *, is_kept: bool) -> Callable[[], None]:
        return lambda: self._patience.look(self._directory, seq, is_kept=is_kept)

    def _up_to_date(self, path: Path) -> Index:
        index = Index.open(self._directory, path)
        try:
            look = self._looking(0 if self._rebuild else index.place.seq, is_kept=True)
            _ = index.rebuild(look) if self._rebuild else index.finish(look)
        except BaseException as error:
            index.close()
            if not (isinstance(error, sqlite3.Error) and is_damage(error)):
                raise
            remove(path)  # damaged further in than opening it shows
            index = Index.open(self._directory, path)
            index.finish(self._looking(0, is_kept=True))
        return index

    def _with_the_rest(self, path: Path) -> Catalogue:
        before = Index.open_to_read(self._directory, path)
        rest = Index.private(self._directory, behind=before)
        rest.finish(self._looking(before.place.seq, is_kept=False))
        return Catalogue(self._directory, path, before, rest)


def _cached(directory: Path, cache: Path) -> Path:
    """Return the path of a folder's index in the cache, and make room there."""
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:32]
    path = cache / f"index-{name}.sqlite"
    others = [each for each in cache.glob("index-*.sqlite") if each != path]
    others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    for each in others[KEPT - 1 :]:
        remove(each)
    return path
