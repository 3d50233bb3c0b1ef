"""The state of a migration job: everything that decides on its next step."""

from typing import Final

from msgspec import Struct

from reactive_desched.migration.volumes import ANYWHERE, VolumeReach
from reactive_desched.model.migration_jobs import JobStatus, MigrationJob, Mode
from reactive_desched.model.objects import Pod
from reactive_desched.model.reservations import Reservation

RESERVATION_CREATED: Final = "ReservationCreated"
RESERVATION_SCHEDULED: Final = "ReservationScheduled"
EVICTION: Final = "Eviction"
RESERVATION_BOUND: Final = "ReservationBound"
POD_BOUND: Final = "PodBoundReservation"
BOUND_POD_READY: Final = "BoundPodReady"
POD_SCHEDULED: Final = "PodScheduled"
"""The types of a job's conditions, which are koordinator's."""


class Modes(Struct, frozen=True, gc=False):
    """The mode of jobs that name none, and how room is kept for a replacement.

    `reserving` names the schedulers that know Reservations; the places of all other pods are kept
    by placeholders, where there are any.
    """

    default: Mode = Mode.EVICT_DIRECTLY
    has_placeholders: bool = False
    reserving: frozenset[str] = frozenset()

    def of(self, job: MigrationJob) -> str:
        """Return the mode of a job."""
        return job.mode or self.default

    def keeps_place(self, job: MigrationJob) -> bool:
        """Say whether a job keeps a place first."""
        return self.of(job) == Mode.RESERVATION_FIRST

    def reserves(self, job: MigrationJob, pod: Pod | None) -> bool:
        """Say whether the place of a job is kept by a Reservation; else it is by a placeholder."""
        if not (self.reserving and self.keeps_place(job)):
            return False
        is_known = pod is not None and pod.spec.scheduler_name in self.reserving
        return is_known or bool(job.reservation)

    def can_carry_out(self, job: MigrationJob) -> bool:
        """Say whether the mode of a job is one that there is."""
        if self.keeps_place(job):
            return self.has_placeholders or bool(self.reserving)
        return self.of(job) == Mode.EVICT_DIRECTLY


class Wait(Struct, frozen=True, gc=False):
    """The code of the gate that a job waits for, and since when in seconds since the epoch."""

    reason: str
    message: str
    since_s: float


class FailedAttempt(Struct, frozen=True, gc=False):
    """The last attempt to keep a job's place, which failed: why, and when the next one follows.

    `next_at_s` is in seconds since the epoch, and `wait_s` how long the wait is until then.
    """

    message: str
    wait_s: float
    next_at_s: float


class JobState(Struct, frozen=True, gc=False):
    """A job, and what is known about it besides; `now_s` is seconds since the epoch.

    `pod` is the pod that it names, None where there is none. `placeholder` or `reservation` keeps a
    place for the pod's replacement; `successor` is a pod of the same controller that waits
    for a node, or that was given the place of the placeholder, and `bound` is the pod that took the
    place of the Reservation. `replacement` is the pod that came instead of the evicted one, as its
    eviction is followed, and `other_place` the Reservation of another job, or person, that it has
    the place of; `others_come` says that other pods of its controller are awaited, which may take
    this place instead. `is_not_replaced` says that none came, and none is awaited any more.
    `failed_attempt` is the last one to keep a place, where that failed. `is_surplus` says that too
    many ended jobs are younger than this one, `reach` where the pod's volumes can be used.
    `is_requested` says that the pod's eviction is under way, and `is_evicted` that the API server
    accepted it; `forbidden` is why arbitration forbids the move, and `lapsed` why the pod need not
    leave any more. `wait` is what arbitration, or the
    gates, let the job wait for.
    """

    job: MigrationJob
    modes: Modes
    now_s: float
    pod: Pod | None = None
    placeholder: Pod | None = None
    reservation: Reservation | None = None
    bound: Pod | None = None
    successor: Pod | None = None
    replacement: Pod | None = None
    other_place: str = ""
    others_come: bool = False
    is_not_replaced: bool = False
    failed_attempt: FailedAttempt | None = None
    is_requested: bool = False
    is_evicted: bool = False
    forbidden: str = ""
    lapsed: str = ""
    wait: Wait | None = None
    may_begin: bool = False
    is_surplus: bool = False
    reach: VolumeReach = ANYWHERE

    @property
    def reserves(self) -> bool:
        """Say whether the job's place is kept by a Reservation."""
        return self.modes.reserves(self.job, self.pod)

    @property
    def kept_by(self) -> Pod | Reservation | None:
        """The placeholder or the Reservation that keeps the place; None where it is gone."""
        if self.reserves:
            kept = self.reservation
            return None if kept is None or kept.is_terminating else kept
        placeholder = self.placeholder
        is_over = placeholder is None or placeholder.is_terminating or placeholder.has_ended
        return None if is_over else placeholder

    @property
    def is_evicting(self) -> bool:
        """Say whether the eviction of the pod was accepted."""
        return self.is_evicted or self.job.status.condition(EVICTION) is not None


def is_for_pending_pod(status: JobStatus) -> bool:
    """Say whether a job places a pod that waits for a node, and so evicts none."""
    return status.condition(POD_SCHEDULED) is not None
