"""A migration job: one pod that is to be moved, and how far the move is."""

from enum import StrEnum

from msgspec import Struct

from reactive_desched.model.objects import Pod


class Phase(StrEnum):
    """How far a job is; one that was just made has none, which means Pending."""

    NONE = ""
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"


class PodReference(Struct, frozen=True, gc=False):
    """The pod that a job names; jobs that people write often leave the uid out."""

    namespace: str
    name: str
    uid: str = ""


class MigrationJob(Struct, frozen=True, gc=False):
    """One PodMigrationJob; `created_s` is in whole seconds since the epoch.

    `has_passed` says that an arbitration let it through: its annotation, which it keeps for good.
    """

    name: str
    uid: str
    pod: PodReference
    created_s: int = 0
    phase: Phase = Phase.NONE
    has_passed: bool = False
    trigger: str = ""

    @property
    def is_pending(self) -> bool:
        """Say whether the move has not begun."""
        return self.phase in (Phase.NONE, Phase.PENDING)


class JobOfPod(Struct, frozen=True, gc=False):
    """A job and the pod that it names; None where there is no such pod."""

    job: MigrationJob
    pod: Pod | None
