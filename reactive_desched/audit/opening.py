"""Gets an index of any journal: one that is being written, a copy, one not ours to touch."""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from reactive_desched.audit import schema
from reactive_desched.audit.catalogue import Catalogue
from reactive_desched.audit.index import Index, is_damage, remove
from reactive_desched.errors import ConfigError, JournalError
from reactive_desched.journal.segments import segments

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
) -> Iterator[Catalogue]:
    """Open what is searched, up to date with the journal in the folder.

    Raises ConfigError when there is no journal, and JournalError when it cannot be searched.
    """
    check(directory)
    try:
        catalogue = _open(directory, cache, rebuild=rebuild, writable=writable)
        try:
            yield catalogue
        finally:
            catalogue.close()
    except sqlite3.Error as error:
        raise JournalError(
            f"{directory}: the index cannot be used: {error}; --rebuild-index makes another"
        ) from error


def check(directory: Path) -> None:
    """Raise ConfigError unless there is a journal in the folder, JournalError if it is hidden."""
    try:
        found = segments(directory)
    except (FileNotFoundError, NotADirectoryError):
        found = []
    except OSError as error:
        raise JournalError(f"{directory}: cannot look here: {error.strerror or error}") from error
    if not found:
        raise ConfigError(
            f"{directory}: there is no journal here; name its folder with --journal DIR"
        )


def _open(
    directory: Path, cache: Path, *, rebuild: bool, writable: Callable[[Path], bool]
) -> Catalogue:
    own = directory / schema.NAME
    if writable(directory):
        with suppress(sqlite3.OperationalError, OSError):
            return Catalogue(directory, own, _up_to_date(directory, own, rebuild=rebuild))
    if not rebuild and own.exists():
        with suppress(sqlite3.Error):
            return _with_the_rest(directory, own)
    with suppress(sqlite3.OperationalError, OSError):
        path = _cached(directory, cache)
        return Catalogue(directory, path, _up_to_date(directory, path, rebuild=rebuild))
    index = Index.private(directory)
    index.finish()
    return Catalogue(directory, None, index)


def _up_to_date(directory: Path, path: Path, *, rebuild: bool) -> Index:
    index = Index.open(directory, path)
    try:
        _ = index.rebuild() if rebuild else index.finish()
    except BaseException as error:
        index.close()
        if not (isinstance(error, sqlite3.Error) and is_damage(error)):
            raise
        remove(path)  # damaged further in than opening it shows
        index = Index.open(directory, path)
        index.finish()
    return index


def _with_the_rest(directory: Path, path: Path) -> Catalogue:
    before = Index.open_to_read(directory, path)
    rest = Index.private(directory, behind=before)
    rest.finish()
    return Catalogue(directory, path, before, rest)


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
