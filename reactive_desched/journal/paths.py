"""Names the default folders of journals, the same for every command, and the paths below them."""

import errno
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from reactive_desched.journal.cluster import ClusterIdentity, kept_cluster
from reactive_desched.journal.segments import list_segments
from reactive_desched.primitives.shortage import lacking, shortage_remedy

_HINTS: Final = {
    errno.ENOSPC: "free some space, or keep less of it (journal.retention)",
    errno.EDQUOT: "raise the quota, or keep less of it (journal.retention)",
    errno.EIO: "the disk fails: replace it, or name a directory on another",
}


def os_error_hint(error: OSError, default: str) -> str:
    """Return a hint for a full or failing disk or a lack of this process, else the caller's."""
    return shortage_remedy(error) or _HINTS.get(error.errno or 0, default)


CURSORS_DIR: Final = "positions"
"""The folder of the sinks' positions, in the journal's."""
DEAD_LETTERS_DIR: Final = "dead-letters"
"""The folder of the events that a sink rejected, in the journal's."""

_CLUSTERS_DIR: Final = "clusters"
_FOLDER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


class KnownJournal(Struct, frozen=True):
    """A journal in a default directory, its cluster as its mark says, and when it was written."""

    directory: Path
    cluster: ClusterIdentity
    written_at: float


def shared_journal_directory(environ: Mapping[str, str]) -> Path:
    """Return the default directory that does not depend on the cluster.

    It is below the service's state directory, which one controller has for itself; else below the
    user's, where earlier versions kept the records of every cluster.
    """
    return _state_directory(environ) / "journal"


def journal_directory_of(environ: Mapping[str, str], cluster: ClusterIdentity) -> Path:
    """Return the default directory of the records of one cluster.

    A user's clusters have a directory each. One that an earlier version began is used on by the
    first cluster that comes.
    """
    shared = shared_journal_directory(environ)
    if environ.get("STATE_DIRECTORY") or not _FOLDER_NAME.fullmatch(cluster.uid):
        return shared
    if _holds_journal(shared) and kept_cluster(shared).uid in ("", cluster.uid):
        return shared
    return _state_directory(environ) / _CLUSTERS_DIR / cluster.uid / "journal"


def known_journals(environ: Mapping[str, str]) -> tuple[KnownJournal, ...]:
    """Return the journals in the default directories, the one written last first."""
    shared = shared_journal_directory(environ)
    below = () if environ.get("STATE_DIRECTORY") else _clusters_directories(environ)
    found = [
        KnownJournal(each, kept_cluster(each), _written_at(each))
        for each in (shared, *below)
        if _holds_journal(each)
    ]
    return tuple(sorted(found, key=lambda one: -one.written_at))


def _clusters_directories(environ: Mapping[str, str]) -> tuple[Path, ...]:
    clusters = _state_directory(environ) / _CLUSTERS_DIR
    try:
        return tuple(sorted(each / "journal" for each in clusters.iterdir()))
    except OSError as error:
        if lacking(error):
            raise
        return ()


def _written_at(directory: Path) -> float:
    try:
        return max(each.path.stat().st_mtime for each in list_segments(directory))
    except (OSError, ValueError):
        return 0.0


def _holds_journal(directory: Path) -> bool:
    try:
        return bool(list_segments(directory))
    except OSError as error:
        if lacking(error):
            raise
        return False


def _state_directory(environ: Mapping[str, str]) -> Path:
    if state := environ.get("STATE_DIRECTORY"):
        return Path(state)
    home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "/var/lib")) / ".local/state"
    return Path(home) / "reactive-desched"
