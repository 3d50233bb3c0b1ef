"""Marks a journal's folder with its cluster, and rejects a writer of another cluster."""

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.errors import JournalError
from reactive_desched.journal import atomic_files
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.primitives.shortage import lacking

MARK: Final = "cluster.json"
"""The file in the journal's folder that says which cluster the records are of."""

UNNAMED: Final = "kubernetes"
"""The name of a cluster that has none in the settings, and whose uid may not be read."""


_CONTEXT: Final = "context "


class ClusterIdentity(Struct, frozen=True):
    """A cluster: its name, and the uid of its namespace kube-system; empty where it is unknown.

    `is_named` says that the settings give the name; `seen_as` is how it was reached, for people:
    `context NAME, SERVER`, or the server alone.
    """

    name: str = ""
    uid: str = ""
    is_named: bool = False
    seen_as: str = ""

    @property
    def title(self) -> str:
        """Return what people call it: its name in the settings, else the context, else the uid."""
        return self.name if self.is_named else self.context or self.name

    @property
    def context(self) -> str:
        """The context of the kubeconfig by which it was reached; empty where there is none."""
        before, separator, _ = self.seen_as.rpartition(", ")
        return before.removeprefix(_CONTEXT) if separator else ""

    @property
    def server(self) -> str:
        """The address of its API server; empty where it is unknown."""
        return self.seen_as.rpartition(", ")[2]

    def __str__(self) -> str:
        uid = self.uid if self.uid != self.title else ""
        seen_as = self.server if self.context == self.title else self.seen_as
        also = ", ".join(part for part in (uid and f"uid {uid}", seen_as) if part)
        return f"{self.title} ({also})" if also else self.title


UNKNOWN_CLUSTER: Final = ClusterIdentity()


def kept_cluster(directory: Path) -> ClusterIdentity:
    """Return the cluster of a journal's records; all of it is empty where no mark can be read.

    Raises OSError where this process lacks what it takes to read it.
    """
    try:
        return msgspec.json.decode((directory / MARK).read_bytes(), type=ClusterIdentity)
    except (OSError, *DECODE_ERRORS) as error:
        if lacking(error):
            raise
        return UNKNOWN_CLUSTER


def recorded_title(directory: Path, name: str, uid: str, context: str = "") -> str:
    """Return what people call the cluster of a record.

    Without a name in the settings the record has the uid for one, and since some version the
    context; for earlier ones the journal's mark may have it.
    """
    if not name or name != uid:
        return name
    kept = kept_cluster(directory)
    return context or (kept.title if kept.uid == uid else name)


def check_cluster(directory: Path, cluster: ClusterIdentity) -> str:
    """Return why the records before may be of another cluster; empty where they are of this one.

    Raises JournalError for the journal of another cluster. A cluster that was built anew under
    the same name goes on with the journal where the settings give that name.
    """
    kept = kept_cluster(directory)
    if not kept.uid or not cluster.uid or kept.uid == cluster.uid:
        return ""
    if cluster.is_named and kept.is_named and kept.name == cluster.name:
        return f"kube-system had the uid {kept.uid}, and has {cluster.uid}"
    raise JournalError(
        f"{directory} holds the records of another cluster, {kept}; this one is {cluster}: name"
        " another folder with --journal, or with journal.directory in the settings"
    )


def mark_cluster(directory: Path, cluster: ClusterIdentity) -> None:
    """Keep which cluster the records are of; raises OSError.

    Where this cluster's uid could not be read, the mark stays.
    """
    kept = kept_cluster(directory)
    if kept != cluster and (cluster.uid or not kept.uid):
        atomic_files.replace(directory / MARK, msgspec.json.encode(cluster))
