"""The life of a migration job, on one page: what is to be done next, given all that is known.

               a person aborts it, or its time to live is over
              .----------------.----------------------------.
              |                |                            v
    (made) --> Pending -----> Running ----------------> Aborted, Failed
              |  arbitration   | (ReservationFirst:          ^
              |  lets it       |  a placeholder or a         |
              |  through       |  Reservation is made, and   |
              |                |  has a node)                |
              |                | the gates                   |
              |                v let it be evicted           |
              |                Evicting                      |
              |                | (the placeholder makes room |
              |                |  for the pod that waits;    |
              |                |  a Reservation's pod is     |
              |                |  bound, and Ready)          |
              |                | the pod is gone             |
              |                v                             |
              |                Succeeded                     |
              '-- forbidden ---'-- the pod is gone, and not -'
                                   by this eviction

Nothing is remembered between two steps but when a place that could not be made is tried again:
each follows from the job as the API server has it, its pod, its placeholder or Reservation, and
whether an eviction of that pod was accepted, which the journal knows after a restart too. Whatever
became of a job, a placeholder that serves no more is deleted, and so is a Reservation of ours when
its job has failed or was aborted.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.migration.place_attempts import FailedAttempt
from reactive_desched.migration.places import (
    FORBIDDEN,
    MISSING_POD,
    RESERVATION_SCHEDULED,
    condition,
    failed,
    is_for_pending_pod,
    seconds_of,
    succeeded,
    with_placeholder,
    with_replacement,
    with_reservation,
    without_place,
)
from reactive_desched.migration.volumes import ANYWHERE, VolumeReach
from reactive_desched.model.migration_jobs import (
    PLACEHOLDER_FOR_KIND,
    JobStatus,
    MigrationJob,
    Mode,
    Phase,
)
from reactive_desched.model.objects import Pod, controller_of
from reactive_desched.model.reservations import Reservation

EVICTION: Final = "Eviction"
EVICTING: Final = "Evicting"
EVICT_COMPLETE: Final = "EvictComplete"

ABORTED: Final = "AbortedByPerson"
TIMEOUT: Final = "Timeout"
INVALID_POD_REF: Final = "InvalidPodRef"
UNSUPPORTED_MODE: Final = "UnsupportedMode"
UNSUPPORTED_OPTIONS: Final = "UnsupportedDeleteOptions"

MISSING_GRACE_S: Final = 3.0
"""So long after its creation a job waits for its pod: the watch may show the job first."""

KEPT_AFTER_TTL_S: Final = 300.0
KEPT_WITHOUT_TTL_S: Final = 1800.0
"""How long a job is kept after its time to live, and from its creation where it has none."""

DELETE_AGAIN_S: Final = 60.0

LAG_GRACE_S: Final = 3.0
"""And so long for a ReplicaSet's, which may be seen a moment after the old one is gone."""

_MAKES_PODS_EARLY: Final = "ReplicaSet"

SUCCESSOR_GRACE_S: Final = 30.0
"""So long after its pod is gone a placeholder keeps its place for a StatefulSet's next pod."""


WAIT_WRITTEN_AFTER_S: Final = 5.0
"""A job's status says what the job waits for once it has waited so long for that."""


class Wait(Struct, frozen=True, gc=False):
    """What a job waits for, by the code of the gate, since when in seconds since the epoch."""

    reason: str
    message: str
    since_s: float


class Sight(Struct, frozen=True, gc=False):
    """What is known about a job besides itself; `now_s` is seconds since the epoch.

    `pod` is the pod that it names, None where there is none. `placeholder` or `reservation` keeps a
    place for the pod's replacement; `successor` is a pod of the same controller that waits
    for a node, and `bound` is the pod that took the place of the Reservation.
    `failed_attempt` is the last one to keep a place, where that failed. `is_surplus` says that too
    many ended jobs are younger than this one, `reach` where the pod's volumes can be used.
    `is_requested` says that the pod's eviction is under way, and `is_evicted` that the API server
    accepted it; `forbidden` is why arbitration forbids the move. `wait` is what arbitration, or the
    gates, let the job wait for.
    """

    now_s: float
    pod: Pod | None = None
    placeholder: Pod | None = None
    reservation: Reservation | None = None
    bound: Pod | None = None
    successor: Pod | None = None
    failed_attempt: FailedAttempt | None = None
    is_requested: bool = False
    is_evicted: bool = False
    forbidden: str = ""
    wait: Wait | None = None
    may_begin: bool = False
    is_surplus: bool = False
    reach: VolumeReach = ANYWHERE


class Admit(Struct, frozen=True, gc=False):
    """Write that arbitration let the job through, and the uid of its pod."""

    job: MigrationJob
    uid: str


class SetStatus(Struct, frozen=True, gc=False):
    """Write a status."""

    job: MigrationJob
    status: JobStatus


class KeepPlace(Struct, frozen=True, gc=False):
    """Make a placeholder for the replacement of the job's pod, where its volumes are in reach."""

    job: MigrationJob
    pod: Pod
    reach: VolumeReach = ANYWHERE


class Reserve(Struct, frozen=True, gc=False):
    """Make a Reservation for the replacement of the job's pod, and name it in the job."""

    job: MigrationJob
    pod: Pod


class SetOrder(Struct, frozen=True, gc=False):
    """Write koordinator's order label on the Reservation that a job names."""

    job: MigrationJob
    reservation: Reservation


class GiveUpPlace(Struct, frozen=True, gc=False):
    """Delete the job's Reservation: the job came to nothing."""

    job: MigrationJob
    reservation: Reservation


class MakeRoom(Struct, frozen=True, gc=False):
    """Delete the job's placeholder; its node is meant for the successor, where one waits."""

    job: MigrationJob
    placeholder: Pod
    successor: Pod | None = None


class Delete(Struct, frozen=True, gc=False):
    """Delete the job: it is old, or one ended job too many."""

    job: MigrationJob


Step = Admit | SetStatus | KeepPlace | Reserve | SetOrder | MakeRoom | GiveUpPlace | Delete


class Modes(Struct, frozen=True, gc=False):
    """How jobs move pods: the mode of those that say none, and by what a place is kept.

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


def next_step(job: MigrationJob, modes: Modes, seen: Sight) -> Step | None:
    """Return what is to be done next; None while the job waits, or for good."""
    if (placeholder := seen.placeholder) is not None and _may_make_room(job, seen):
        return None if placeholder.is_terminating else MakeRoom(job, placeholder, seen.successor)
    if (kept := seen.reservation) is not None and _has_failed(job) and kept.is_ours:
        return None if kept.is_terminating else GiveUpPlace(job, kept)
    if seen.now_s >= deleted_at(job) or seen.is_surplus:
        return Delete(job)
    status = _next_status(job, modes, seen)
    if status != job.status:
        return SetStatus(job, status)
    if job.is_paused or job.has_ended or seen.pod is None:
        return None
    may_begin = job.is_pending and (seen.may_begin or job.has_passed)
    if may_begin and not (job.has_passed and job.pod.uid):
        return Admit(job, seen.pod.uid)
    if modes.keeps_place(job) and job.phase is Phase.RUNNING and not _is_evicting(job, seen):
        return _place_step(job, modes, seen, seen.pod)
    return None


def _place_step(job: MigrationJob, modes: Modes, seen: Sight, pod: Pod) -> Step | None:
    """Return what is to be done for the place of a job that runs; what failed is tried later."""
    if seen.failed_attempt is not None and seen.now_s < seen.failed_attempt.next_at_s:
        return None
    if not modes.reserves(job, pod):
        is_made = seen.placeholder is not None or bool(seen.reach.error)
        return None if is_made else KeepPlace(job, pod, seen.reach)
    if not job.reservation:
        return Reserve(job, pod)
    kept = seen.reservation
    return SetOrder(job, kept) if kept is not None and not kept.has_order else None


def _has_failed(job: MigrationJob) -> bool:
    return job.phase in (Phase.FAILED, Phase.ABORTED)


def _is_evicting(job: MigrationJob, seen: Sight) -> bool:
    return seen.is_evicted or job.status.condition(EVICTION) is not None


def _may_make_room(job: MigrationJob, seen: Sight) -> bool:
    """Say whether a placeholder serves no more: a replacement wants its place, or none will."""
    if job.has_ended or seen.now_s >= deleted_at(job):
        return True
    return _is_evicting(job, seen) and (
        seen.successor is not None or not _may_be_replaced(job, seen)
    )


def _may_be_replaced(job: MigrationJob, seen: Sight) -> bool:
    """Say whether a successor may still come that takes the place.

    A ReplicaSet makes it when its pod begins to terminate: where none waits some seconds after that
    is gone, it has another node. A StatefulSet makes it afterwards.
    """
    evicted = job.status.condition(EVICTION)
    if seen.pod is not None or evicted is None or evicted.status != "True":
        return True
    placeholder = seen.placeholder
    kind = "" if placeholder is None else placeholder.labels.get(PLACEHOLDER_FOR_KIND, "")
    grace_s = LAG_GRACE_S if kind in ("", _MAKES_PODS_EARLY) else SUCCESSOR_GRACE_S
    return seen.now_s < seconds_of(evicted) + grace_s


def _next_status(job: MigrationJob, modes: Modes, seen: Sight) -> JobStatus:
    status, is_evicting = job.status, _is_evicting(job, seen)
    if job.has_ended:
        return status
    if job.phase is Phase.RUNNING and seen.is_requested:
        return status  # what follows from the eviction may be seen before it is answered
    if job.is_to_be_aborted and not is_evicting:
        aborted = failed(status, ABORTED, "a person aborted the job")
        return replace(aborted, phase=Phase.ABORTED)
    if job.is_paused and not is_evicting:
        return status
    if seen.now_s >= times_out_at(job):
        return failed(status, TIMEOUT, f"the job has not ended within its ttl of {job.ttl_s:g} s")
    next_status = _begun(job, modes, seen) if job.is_pending else _running(job, modes, seen)
    return _waiting(status, seen) if next_status == status else next_status


def _waiting(status: JobStatus, seen: Sight) -> JobStatus:
    """Return the status with what the job waits for; the words of a code are written once."""
    wait = seen.wait
    if wait is None or wait.reason == status.reason:
        return status
    if seen.now_s < wait.since_s + WAIT_WRITTEN_AFTER_S:
        return status
    return replace(status, reason=wait.reason, message=wait.message)


def _running(job: MigrationJob, modes: Modes, seen: Sight) -> JobStatus:
    """Return the status of a job that runs: its place first, then its eviction, then the rest."""
    status, pod = job.status, seen.pod
    if _is_evicting(job, seen):
        return _evicting(job, modes, seen)
    if pod is None and not is_for_pending_pod(status):
        gone = f'Pod "{job.pod}" is gone, and this job did not evict it'
        return failed(status, MISSING_POD, gone)
    keeps = seen.placeholder is not None or seen.reservation is not None
    if seen.failed_attempt is not None and not keeps:
        return without_place(status, seen.failed_attempt.message, seen.now_s)
    if modes.reserves(job, pod):
        return with_reservation(job, pod, seen.reservation, seen.now_s)
    if seen.reach.error and not keeps:
        return without_place(status, seen.reach.error, seen.now_s)
    return with_placeholder(status, seen.placeholder, seen.now_s)


def _evicting(job: MigrationJob, modes: Modes, seen: Sight) -> JobStatus:
    """Return the status of a job whose pod's eviction was accepted."""
    status, evicting = job.status, job.status.condition(EVICTION)
    if seen.pod is not None:
        if evicting is not None:
            return status
        why = job.cause or job.trigger or "a person asked for it"
        moved = f'Pod "{job.pod}" evicted from node "{seen.pod.node}" by the reason "{why}"'
        return status.with_condition(condition(EVICTION, "False", EVICTING, moved, seen.now_s))
    done = f'Pod "{job.pod}" has been evicted'
    done += f", and a place was kept on node {status.node}" if status.node else ""
    keeps_place = modes.reserves(job, None) or seen.placeholder is not None
    if evicting is None or evicting.reason != EVICT_COMPLETE:
        status = status.with_condition(
            condition(EVICTION, "True", EVICT_COMPLETE, done, seen.now_s)
        )
        if keeps_place:
            return status
    if seen.placeholder is not None and seen.successor is None and _may_be_replaced(job, seen):
        return status
    if modes.reserves(job, None):
        return with_replacement(job, seen.reservation, seen.bound, seen.now_s)
    return succeeded(status, done)


def _begun(job: MigrationJob, modes: Modes, seen: Sight) -> JobStatus:
    """Return the status of a job that has not begun: it begins once its pod's uid is written."""
    status = job.status
    if not (job.pod.namespace and job.pod.name):
        return failed(status, INVALID_POD_REF, "spec.podRef needs a namespace and a name")
    if not modes.can_carry_out(job):
        remedy = f"write spec.mode: {Mode.EVICT_DIRECTLY}, or migration.placeholder in the settings"
        return failed(status, UNSUPPORTED_MODE, f"mode {modes.of(job)} is not there: {remedy}")
    if unsupported := _unsupported_options(job):
        return failed(status, UNSUPPORTED_OPTIONS, unsupported)
    if seen.pod is None:
        if seen.now_s < job.created_s + MISSING_GRACE_S:
            return status
        return failed(status, MISSING_POD, f'Pod "{job.pod}" does not exist')
    forbidden = seen.forbidden or no_place_for(job, modes, seen.pod, seen.reach)
    if forbidden:
        return failed(
            status,
            FORBIDDEN,
            f'Pod "{job.pod}" is forbidden to migrate because it does not meet the requirements: '
            f"{forbidden}",
        )
    if job.has_passed and job.pod.uid:
        return replace(status, phase=Phase.RUNNING, reason="", message="")
    return status


def _unsupported_options(job: MigrationJob) -> str:
    """Say which of a job's delete options nothing good can come of; empty for none."""
    options = job.delete_options
    if options is None:
        return ""
    if options.dry_run:
        return "spec.deleteOptions.dryRun evicts nothing: remove it"
    uid = None if options.preconditions is None else options.preconditions.uid
    if uid and job.pod.uid and uid != job.pod.uid:
        return f"spec.deleteOptions.preconditions.uid is {uid}, of podRef {job.pod.uid}: remove one"
    return ""


def no_place_for(job: MigrationJob, modes: Modes, pod: Pod, reach: VolumeReach) -> str:
    """Say why no place can be kept for a pod's replacement; empty where one can, or need not."""
    if not modes.keeps_place(job) or job.reservation:
        return ""
    if controller_of(pod.owners) is None and pod.node:
        return "it has no controller, so that no pod would take the place that is kept"
    if modes.reserves(job, pod):
        return ""
    if not modes.has_placeholders:
        return f"scheduler {pod.spec.scheduler_name} is none of migration.schedulerNames"
    return reach.error


def wants_eviction(job: MigrationJob, modes: Modes) -> bool:
    """Say whether the job's pod is to be evicted as soon as the gates let it go."""
    if job.is_paused or job.is_to_be_aborted or job.phase is not Phase.RUNNING:
        return False
    if is_for_pending_pod(job.status):
        return False
    scheduled = job.status.condition(RESERVATION_SCHEDULED)
    has_place = scheduled is not None and scheduled.status == "True"
    is_evicting = job.status.condition(EVICTION) is not None
    return not is_evicting and (has_place or not modes.keeps_place(job))


def awaits_arbitration(job: MigrationJob) -> bool:
    """Say whether arbitration has to decide about the job."""
    return job.is_pending and not (job.has_passed or job.is_paused)


def times_out_at(job: MigrationJob) -> float:
    """Return when the job fails at the latest, in seconds since the epoch."""
    return job.created_s + job.ttl_s if job.ttl_s else float("inf")


def deleted_at(job: MigrationJob) -> float:
    """Return when the job is deleted, whatever became of it."""
    kept_s = job.ttl_s + KEPT_AFTER_TTL_S if job.ttl_s else KEPT_WITHOUT_TTL_S
    return job.created_s + kept_s


def next_change_at(job: MigrationJob, seen: Sight, now_s: float) -> float:
    """Return when time alone changes what is to be written; a deletion is tried again."""
    times = [job.created_s + MISSING_GRACE_S, times_out_at(job), deleted_at(job)]
    if seen.wait is not None:
        times.append(seen.wait.since_s + WAIT_WRITTEN_AFTER_S)
    if seen.failed_attempt is not None:
        times.append(seen.failed_attempt.next_at_s)
    if (evicted := job.status.condition(EVICTION)) is not None and evicted.status == "True":
        gone_s = seconds_of(evicted)
        times += (gone_s + LAG_GRACE_S, gone_s + SUCCESSOR_GRACE_S)
    return min((time for time in times if time > now_s), default=now_s + DELETE_AGAIN_S)
