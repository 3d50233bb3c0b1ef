"""The wakes of waits for migration jobs: one of them, or a certain one, has ended."""

from typing import Any, ClassVar, Self

from reactive_desched.model.changes import MigrationJobEnded
from reactive_desched.model.wakes import ChangeTypes, WakeOn


class WakeOnAnyJob(WakeOn, frozen=True, gc=False):
    """One migration job fewer counts against the limits."""

    changes: ClassVar[ChangeTypes] = (MigrationJobEnded,)
    words = "the end of another migration job"

    @classmethod
    def fulfilled_by(cls, _: Any) -> Self:  # a MigrationJobEnded
        """Return the only wake of this type."""
        return cls()


class WakeOnJob(WakeOn, frozen=True, gc=False):
    """A migration job ends."""

    changes: ClassVar[ChangeTypes] = (MigrationJobEnded,)
    words = "the end of PodMigrationJob {name}"
    name: str

    @classmethod
    def fulfilled_by(cls, change: Any) -> Self:  # a MigrationJobEnded
        """Return the wake of the job."""
        return cls(change.name)
