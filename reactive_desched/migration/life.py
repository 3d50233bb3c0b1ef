"""The life of a migration job, on one page: what is to be done next, given all that is known.

               a person aborts it, or its time to live is over
              .----------------.----------------------------.
              |                |                            v
    (made) --> Pending -----> Running ----------------> Aborted, Failed
              |  arbitration   | (ReservationFirst:          ^
              |  lets it       |  a placeholder is made,     |
              |  through       |  and has a node)            |
              |                | the gates                   |
              |                v let it be evicted           |
              |                Evicting                      |
              |                | (the placeholder makes room |
              |                |  once a pod waits for it)   |
              |                | the pod is gone             |
              |                v                             |
              |                Succeeded                     |
              '-- forbidden ---'-- the pod is gone, and not -'
                                   by this eviction

Nothing is remembered between two steps: each follows from the job as the API server has it, its
pod, its placeholder, and whether an eviction of that pod was accepted, which the journal knows
after a restart too. Whatever became of a job, a placeholder that serves no more is deleted.
"""

from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.migration_jobs import (
    JobCondition,
    JobStatus,
    MigrationJob,
    Mode,
    Phase,
)
from reactive_desched.model.objects import Pod, controller_of

RESERVATION_CREATED: Final = "ReservationCreated"
RESERVATION_SCHEDULED: Final = "ReservationScheduled"
EVICTION: Final = "Eviction"
EVICTING: Final = "Evicting"
EVICT_COMPLETE: Final = "EvictComplete"
COMPLETE: Final = "Complete"

ABORTED: Final = "AbortedByPerson"
TIMEOUT: Final = "Timeout"
INVALID_POD_REF: Final = "InvalidPodRef"
MISSING_POD: Final = "MissingPod"
FORBIDDEN: Final = "ForbiddenMigratePod"
UNSUPPORTED_MODE: Final = "UnsupportedMode"
MISSING_RESERVATION: Final = "MissingReservation"
UNSUPPORTED_OPTIONS: Final = "UnsupportedDeleteOptions"

MISSING_GRACE_S: Final = 3.0
"""So long after its creation a job waits for its pod: the watch may show the job first."""

KEPT_AFTER_TTL_S: Final = 300.0
KEPT_WITHOUT_TTL_S: Final = 1800.0
"""How long a job is kept after its time to live, and from its creation where it has none."""

DELETE_AGAIN_S: Final = 60.0


class Sight(Struct, frozen=True, gc=False):
    """What is known about a job besides itself; `now_s` is seconds since the epoch.

    `pod` is the pod that it names, None where there is none. `placeholder` keeps a place for the
    pod's replacement, and `has_successor` says that a pod of the same controller waits for a node.
    `is_evicted` says that the API server accepted the pod's eviction, and `forbidden` why
    arbitration forbids the move.
    """

    now_s: float
    pod: Pod | None = None
    placeholder: Pod | None = None
    has_successor: bool = False
    is_evicted: bool = False
    forbidden: str = ""
    may_begin: bool = False


class Admit(Struct, frozen=True, gc=False):
    """Write that arbitration let the job through, and the uid of its pod."""

    job: MigrationJob
    uid: str


class SetStatus(Struct, frozen=True, gc=False):
    """Write a status."""

    job: MigrationJob
    status: JobStatus


class KeepPlace(Struct, frozen=True, gc=False):
    """Make a placeholder for the replacement of the job's pod."""

    job: MigrationJob
    pod: Pod


class MakeRoom(Struct, frozen=True, gc=False):
    """Delete the job's placeholder."""

    job: MigrationJob
    placeholder: Pod


class Delete(Struct, frozen=True, gc=False):
    """Delete the job: it is old."""

    job: MigrationJob


Step = Admit | SetStatus | KeepPlace | MakeRoom | Delete


class Modes(Struct, frozen=True, gc=False):
    """How jobs move pods: the mode of those that say none, and whether there are placeholders."""

    default: Mode = Mode.EVICT_DIRECTLY
    has_placeholders: bool = False

    def of(self, job: MigrationJob) -> str:
        """Return the mode of a job."""
        return job.mode or self.default

    def keeps_place(self, job: MigrationJob) -> bool:
        """Say whether a job keeps a place first."""
        return self.of(job) == Mode.RESERVATION_FIRST

    def can_carry_out(self, job: MigrationJob) -> bool:
        """Say whether the mode of a job is one that there is."""
        if self.keeps_place(job):
            return self.has_placeholders
        return self.of(job) == Mode.EVICT_DIRECTLY


def next_step(job: MigrationJob, modes: Modes, seen: Sight) -> Step | None:
    """Return what is to be done next; None while the job waits, or for good."""
    if (placeholder := seen.placeholder) is not None and _may_make_room(job, seen):
        return None if placeholder.is_terminating else MakeRoom(job, placeholder)
    if seen.now_s >= deleted_at(job):
        return Delete(job)
    status = _next_status(job, modes, seen)
    if status != job.status:
        return SetStatus(job, status)
    if job.is_paused or job.has_ended or seen.pod is None:
        return None
    may_begin = job.is_pending and (seen.may_begin or job.has_passed)
    if may_begin and not (job.has_passed and job.pod.uid):
        return Admit(job, seen.pod.uid)
    if modes.keeps_place(job) and job.phase is Phase.RUNNING and seen.placeholder is None:
        return None if _is_evicting(job, seen) else KeepPlace(job, seen.pod)
    return None


def _is_evicting(job: MigrationJob, seen: Sight) -> bool:
    return seen.is_evicted or job.status.condition(EVICTION) is not None


def _may_make_room(job: MigrationJob, seen: Sight) -> bool:
    """Say whether a placeholder serves no more: a replacement wants its place, or none will."""
    is_over = job.has_ended or seen.now_s >= deleted_at(job)
    return is_over or (_is_evicting(job, seen) and (seen.pod is None or seen.has_successor))


def _next_status(job: MigrationJob, modes: Modes, seen: Sight) -> JobStatus:
    status, pod = job.status, job.pod
    is_evicting = _is_evicting(job, seen)
    if job.has_ended:
        return status
    if job.is_to_be_aborted and not is_evicting:
        return _ended(status, Phase.ABORTED, ABORTED, "a person aborted the job")
    if job.is_paused and not is_evicting:
        return status
    if seen.now_s >= times_out_at(job):
        return _failed(status, TIMEOUT, f"the job has not ended within its ttl of {job.ttl_s:g} s")
    if job.is_pending:
        return _begun(job, modes, seen)
    if seen.pod is None and not is_evicting:
        return _failed(status, MISSING_POD, f'Pod "{pod}" is gone, and this job did not evict it')
    if seen.pod is None:
        done = f'Pod "{pod}" has been evicted'
        done += f", and a place was kept on node {status.node}" if status.node else ""
        gone = _condition(EVICTION, "True", EVICT_COMPLETE, done, seen.now_s)
        return _ended(status.with_condition(gone), Phase.SUCCEEDED, "", done, COMPLETE)
    if is_evicting and status.condition(EVICTION) is None:
        why = job.cause or job.trigger or "a person asked for it"
        moved = f'Pod "{pod}" evicted from node "{seen.pod.node}" by the reason "{why}"'
        return status.with_condition(_condition(EVICTION, "False", EVICTING, moved, seen.now_s))
    return status if is_evicting else _with_place(status, seen)


def _with_place(status: JobStatus, seen: Sight) -> JobStatus:
    """Return the status of a job that keeps a place, before its pod is evicted."""
    placeholder, created = seen.placeholder, status.condition(RESERVATION_CREATED)
    if placeholder is None or placeholder.is_terminating or placeholder.has_ended:
        if created is None:
            return status
        return _failed(status, MISSING_RESERVATION, "the placeholder is gone before the eviction")
    if created is None:
        made = f'placeholder "{placeholder}" keeps a place'
        return status.with_condition(
            _condition(RESERVATION_CREATED, "True", RESERVATION_CREATED, made, seen.now_s)
        )
    if placeholder.node and status.condition(RESERVATION_SCHEDULED) is None:
        kept = f"a place is kept on node {placeholder.node}"
        scheduled = _condition(
            RESERVATION_SCHEDULED, "True", RESERVATION_SCHEDULED, kept, seen.now_s
        )
        return replace(status.with_condition(scheduled), node=placeholder.node)
    return status


def _begun(job: MigrationJob, modes: Modes, seen: Sight) -> JobStatus:
    """Return the status of a job that has not begun: it begins once its pod's uid is written."""
    status = job.status
    if not (job.pod.namespace and job.pod.name):
        return _failed(status, INVALID_POD_REF, "spec.podRef needs a namespace and a name")
    if not modes.can_carry_out(job):
        remedy = f"write spec.mode: {Mode.EVICT_DIRECTLY}, or migration.placeholder in the settings"
        return _failed(status, UNSUPPORTED_MODE, f"mode {modes.of(job)} is not there: {remedy}")
    if unsupported := _unsupported_options(job):
        return _failed(status, UNSUPPORTED_OPTIONS, unsupported)
    if seen.pod is None:
        if seen.now_s < job.created_s + MISSING_GRACE_S:
            return status
        return _failed(status, MISSING_POD, f'Pod "{job.pod}" does not exist')
    forbidden = seen.forbidden or _no_place_for(seen.pod) * modes.keeps_place(job)
    if forbidden:
        return _failed(
            status,
            FORBIDDEN,
            f'Pod "{job.pod}" is forbidden to migrate because it does not meet the requirements: '
            f"{forbidden}",
        )
    if job.has_passed and job.pod.uid:
        return replace(status, phase=Phase.RUNNING)
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


def _no_place_for(pod: Pod) -> str:
    """Say why a placeholder cannot stand in for a pod; empty where it can."""
    if controller_of(pod.owners) is None:
        return "it has no controller, so that no pod would take the place that is kept"
    if pod.pvc_names:
        return "it uses a PersistentVolumeClaim, which a placeholder cannot stand in for"
    return ""


def wants_eviction(job: MigrationJob, modes: Modes) -> bool:
    """Say whether the job's pod is to be evicted as soon as the gates let it go."""
    if job.is_paused or job.is_to_be_aborted or job.phase is not Phase.RUNNING:
        return False
    has_place = job.status.condition(RESERVATION_SCHEDULED) is not None
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


def next_change_at(job: MigrationJob, now_s: float) -> float:
    """Return when time alone changes what is to be written; a deletion is tried again."""
    times = (job.created_s + MISSING_GRACE_S, times_out_at(job), deleted_at(job))
    return min((time for time in times if time > now_s), default=now_s + DELETE_AGAIN_S)


def _failed(status: JobStatus, reason: str, message: str) -> JobStatus:
    return _ended(status, Phase.FAILED, reason, message)


def _ended(status: JobStatus, phase: Phase, reason: str, message: str, step: str = "") -> JobStatus:
    return replace(status, phase=phase, step=step or status.step, reason=reason, message=message)


def _condition(kind: str, status: str, reason: str, message: str, now_s: float) -> JobCondition:
    at = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return JobCondition(kind, status, reason, message, at)
