"""The life of a migration job, on one page: what is to be written next, given all that is known.

                  a person aborts it, or its time to live is over
                 .----------------.------------------------.
                 |                |                        v
    (made) --> Pending --------> Running ------------> Aborted, Failed
                 |  arbitration   |  | the gates           ^
                 |  lets it       |  v let it be evicted   |
                 |  through       |  Evicting              |
                 |                |  | the pod is gone     |
                 |                |  v                     |
                 |                |  Succeeded             |
                 '-- forbidden ---'- the pod is gone, and --'
                                     not by this eviction

Nothing is remembered between two steps: each follows from the job as the API server has it, its
pod, and whether an eviction of that pod was accepted, which the journal knows after a restart too.
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
from reactive_desched.model.objects import Pod

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

MISSING_GRACE_S: Final = 3.0
"""So long after its creation a job waits for its pod: the watch may show the job first."""

KEPT_AFTER_TTL_S: Final = 300.0
KEPT_WITHOUT_TTL_S: Final = 1800.0
"""How long a job is kept after its time to live, and from its creation where it has none."""

DELETE_AGAIN_S: Final = 60.0


class Sight(Struct, frozen=True, gc=False):
    """What is known about a job besides itself; `now_s` is seconds since the epoch.

    `pod` is the pod that it names, None where there is none. `is_evicted` says that the API server
    accepted the pod's eviction, and `forbidden` why arbitration forbids the move.
    """

    now_s: float
    pod: Pod | None = None
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


class Delete(Struct, frozen=True, gc=False):
    """Delete the job: it is old."""

    job: MigrationJob


Step = Admit | SetStatus | Delete


def next_step(job: MigrationJob, default_mode: Mode, seen: Sight) -> Step | None:
    """Return what is to be written next; None while the job waits, or for good."""
    if seen.now_s >= deleted_at(job):
        return Delete(job)
    status = _next_status(job, default_mode, seen)
    if status != job.status:
        return SetStatus(job, status)
    may_begin = job.is_pending and (seen.may_begin or job.has_passed) and not job.is_paused
    if may_begin and seen.pod is not None and not (job.has_passed and job.pod.uid):
        return Admit(job, seen.pod.uid)
    return None


def _next_status(job: MigrationJob, default_mode: Mode, seen: Sight) -> JobStatus:
    status, pod = job.status, job.pod
    is_evicting = seen.is_evicted or status.condition(EVICTION) is not None
    if job.has_ended:
        return status
    if job.is_to_be_aborted and not is_evicting:
        return _ended(status, Phase.ABORTED, ABORTED, "a person aborted the job")
    if job.is_paused and not is_evicting:
        return status
    if seen.now_s >= times_out_at(job):
        return _failed(status, TIMEOUT, f"the job has not ended within its ttl of {job.ttl_s:g} s")
    if job.is_pending:
        return _begun(job, default_mode, seen)
    if seen.pod is None and not is_evicting:
        return _failed(status, MISSING_POD, f'Pod "{pod}" is gone, and this job did not evict it')
    if seen.pod is None:
        done = f'Pod "{pod}" has been evicted'
        gone = _condition("True", EVICT_COMPLETE, done, seen.now_s)
        return _ended(status.with_condition(gone), Phase.SUCCEEDED, "", done, COMPLETE)
    if is_evicting and status.condition(EVICTION) is None:
        why = job.cause or job.trigger or "a person asked for it"
        moved = f'Pod "{pod}" evicted from node "{seen.pod.node}" by the reason "{why}"'
        return status.with_condition(_condition("False", EVICTING, moved, seen.now_s))
    return status


def _begun(job: MigrationJob, default_mode: Mode, seen: Sight) -> JobStatus:
    """Return the status of a job that has not begun: it begins once its pod's uid is written."""
    status = job.status
    mode = job.mode or default_mode
    if not (job.pod.namespace and job.pod.name):
        return _failed(status, INVALID_POD_REF, "spec.podRef needs a namespace and a name")
    if mode != Mode.EVICT_DIRECTLY:
        remedy = f"write spec.mode: {Mode.EVICT_DIRECTLY}"
        return _failed(status, UNSUPPORTED_MODE, f"mode {mode} is not implemented: {remedy}")
    if seen.pod is None:
        if seen.now_s < job.created_s + MISSING_GRACE_S:
            return status
        return _failed(status, MISSING_POD, f'Pod "{job.pod}" does not exist')
    if seen.forbidden:
        return _failed(
            status,
            FORBIDDEN,
            f'Pod "{job.pod}" is forbidden to migrate because it does not meet the requirements: '
            f"{seen.forbidden}",
        )
    if job.has_passed and job.pod.uid:
        return replace(status, phase=Phase.RUNNING)
    return status


def wants_eviction(job: MigrationJob) -> bool:
    """Say whether the job's pod is to be evicted as soon as the gates let it go."""
    is_waiting = job.phase is Phase.RUNNING and job.status.condition(EVICTION) is None
    return is_waiting and not (job.is_paused or job.is_to_be_aborted)


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


def _condition(status: str, reason: str, message: str, now_s: float) -> JobCondition:
    at = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return JobCondition(EVICTION, status, reason, message, at)
