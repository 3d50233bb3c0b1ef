"""Deletes of migration jobs the ended ones beyond a bound, and placeholders without a job."""

from typing import Final

from reactive_desched.migration.actions import DeletePlaceholder
from reactive_desched.migration.job_queue import JobQueue
from reactive_desched.migration.placeholders import JobPlaces
from reactive_desched.model.migration_jobs import MigrationJob, PodReference

NO_JOB: Final = ""
"""The name under which the placeholders are due whose job is gone."""

ORPHAN_GRACE_S: Final = 60.0
"""So long the garbage collector has to delete the placeholder of a job that is gone."""

ORPHAN_AGAIN_S: Final = 5.0
"""When the next one is looked at, or the same one is tried again."""

MAX_ENDED: Final = 1_000
"""So many jobs that ended are kept; of more, those that ended first are deleted."""


class JobCleanup:
    """Queues what is to be deleted; the time to live of a job is not its concern."""

    def __init__(self, places: JobPlaces, queue: JobQueue) -> None:
        self._places: Final = places
        self._queue: Final = queue
        self._ended: Final[dict[str, None]] = {}  # those to keep, the first to go first
        self._surplus: Final[set[str]] = set()

    def is_surplus(self, name: str) -> bool:
        """Say whether a job is to be deleted, for too many younger ones have ended."""
        return name in self._surplus

    def note_ended(self, name: str) -> None:
        """Queue the job that ended first for deletion, where too many ended jobs are kept."""
        if name in self._surplus:
            return
        self._ended.setdefault(name)
        if len(self._ended) > MAX_ENDED:
            first = next(iter(self._ended))
            del self._ended[first]
            self._surplus.add(first)
            self._queue.add(first)

    def forget(self, name: str) -> None:
        """Record that a job is gone."""
        self._ended.pop(name, None)
        self._surplus.discard(name)

    def look_for_orphans(self) -> None:
        """Queue placeholders without a job for deletion, unless the garbage collector does it."""
        if any(self._places.orphans()):
            self._queue.add_after(NO_JOB, ORPHAN_GRACE_S)

    def orphan_action(self) -> DeletePlaceholder | None:
        """Return the deletion of a placeholder whose job is gone, one at a time."""
        orphan = next(self._places.orphans(), None)
        if orphan is None:
            return None
        self._queue.add_after(NO_JOB, ORPHAN_AGAIN_S)
        gone = MigrationJob(name=NO_JOB, uid="", pod=PodReference.to(orphan))
        return DeletePlaceholder(gone, orphan)
