"""How a job keeps a place: its status while a placeholder or a Reservation does, step by step.

    ReservationCreated -> ReservationScheduled -> (the pod is evicted) -> ReservationBound
    -> BoundPodReady

The first one is False, with why, while the placeholder or the Reservation cannot be made.
A placeholder has the first two: its place is given away when the replacement waits. With
koordinator's Reservation the job follows the replacement until it is Ready, as koordinator does.
"""

from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from reactive_desched.model.migration_jobs import (
    JobCondition,
    JobStatus,
    MigrationJob,
    Phase,
)
from reactive_desched.model.objects import Pod
from reactive_desched.model.reservations import Reservation, ReservationPhase

RESERVATION_CREATED: Final = "ReservationCreated"
RESERVATION_SCHEDULED: Final = "ReservationScheduled"
RESERVATION_BOUND: Final = "ReservationBound"
POD_BOUND: Final = "PodBoundReservation"
BOUND_POD_READY: Final = "BoundPodReady"
POD_SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"

FAILED_CREATE: Final = "FailedCreateReservation"

COMPLETE: Final = "Complete"
FORBIDDEN: Final = "ForbiddenMigratePod"
MISSING_POD: Final = "MissingPod"
MISSING_RESERVATION: Final = "MissingReservation"
RESERVATION_EXPIRED: Final = "ReservationExpired"


def with_placeholder(status: JobStatus, placeholder: Pod | None, now_s: float) -> JobStatus:
    """Return the status of a job that keeps a place by a placeholder, before the eviction."""
    if placeholder is None or placeholder.is_terminating or placeholder.has_ended:
        if not status.holds(RESERVATION_CREATED):
            return status
        return failed(status, MISSING_RESERVATION, "the placeholder is gone before the eviction")
    if not status.holds(RESERVATION_CREATED):
        made = f'placeholder "{placeholder}" keeps a place'
        return status.with_condition(is_true(RESERVATION_CREATED, made, now_s))
    if placeholder.node and status.condition(RESERVATION_SCHEDULED) is None:
        return _scheduled(status, placeholder.node, now_s)
    return status


def without_place(status: JobStatus, message: str, now_s: float) -> JobStatus:
    """Return the status of a job whose placeholder or Reservation could not be made so far."""
    return _waiting(status, RESERVATION_CREATED, FAILED_CREATE, message, now_s)


def with_reservation(
    job: MigrationJob, pod: Pod | None, kept: Reservation | None, now_s: float
) -> JobStatus:
    """Return the status of a job whose place a Reservation keeps, before the eviction."""
    status = job.status
    if kept is None or kept.is_terminating:
        if not status.holds(RESERVATION_CREATED):
            return status
        gone = f'Reservation "{job.reservation}" is gone before the eviction'
        return failed(status, MISSING_RESERVATION, gone)
    if not status.holds(RESERVATION_CREATED):
        made = f'Reservation "{kept.name}" keeps a place'
        return status.with_condition(is_true(RESERVATION_CREATED, made, now_s))
    if kept.is_for_pod:
        return _with_pending_pod(job, pod, kept, now_s)
    if kept.is_expired:
        return failed(status, RESERVATION_EXPIRED, _expired(kept))
    return _with_node(status, pod, kept, now_s)


def _with_node(status: JobStatus, pod: Pod | None, kept: Reservation, now_s: float) -> JobStatus:
    """Return the status of a job whose Reservation has a node, waits for one, or was used up."""
    if kept.phase is ReservationPhase.SUCCEEDED:
        return failed(status, FORBIDDEN, _taken(kept))
    if kept.is_pending:
        return _waiting(status, RESERVATION_SCHEDULED, UNSCHEDULABLE, kept.unschedulable, now_s)
    if not kept.is_scheduled:
        return failed(status, UNSCHEDULABLE, kept.unschedulable or "it has no node")
    if pod is not None and pod.node == kept.node:
        return failed(status, FORBIDDEN, f"the place is on node {kept.node}, where the pod is")
    return status if status.node else _scheduled(status, kept.node, now_s)


def _expired(kept: Reservation) -> str:
    return f'Reservation "{kept.name}" has expired'


def _taken(kept: Reservation) -> str:
    return f'Reservation "{kept.name}" is already bound by another Pod'


def _with_pending_pod(
    job: MigrationJob, pod: Pod | None, kept: Reservation, now_s: float
) -> JobStatus:
    """Return the status of a job whose pod waits for a node itself: nothing is evicted.

    A Reservation may be seen to have served, or to be over, before the pod is seen on its node.
    """
    status = job.status
    if pod is None:
        return failed(status, MISSING_POD, f'Pod "{job.pod}" is gone')
    if pod.node:
        done = f'Assign Pod "{job.pod}" to node "{pod.node}"'
        scheduled = is_true(POD_SCHEDULED, done, now_s)
        return succeeded(replace(status.with_condition(scheduled), node=pod.node), done)
    took_it = kept.taken_by is not None and kept.taken_by.uid == pod.uid
    if kept.phase is ReservationPhase.SUCCEEDED and not took_it:
        return failed(status, FORBIDDEN, _taken(kept))
    if kept.is_expired and not took_it:
        return failed(status, RESERVATION_EXPIRED, _expired(kept))
    words = kept.unschedulable or "the pod waits for a node"
    return _waiting(status, POD_SCHEDULED, UNSCHEDULABLE, words, now_s)


def with_replacement(
    job: MigrationJob, kept: Reservation | None, bound: Pod | None, now_s: float
) -> JobStatus:
    """Return the status of a job whose pod is gone, until its replacement is Ready.

    `bound` is the pod that took the place; one that is gone again counts as Ready.
    """
    status = job.status
    if kept is None or kept.taken_by is None:
        return _waiting(
            status, POD_BOUND, "WaitForPodBindReservation", "no pod has taken the place yet", now_s
        )
    taken_by = kept.taken_by
    if status.condition(RESERVATION_BOUND) is None:
        took = is_true(RESERVATION_BOUND, f'Pod "{taken_by}" took the place', now_s)
        return replace(status, conditions=(*status.conditions, took), replacement=taken_by)
    if bound is not None and not bound.status.is_ready:
        words = f'Pod "{taken_by}" is not Ready yet'
        return _waiting(status, BOUND_POD_READY, "WaitForBoundPodReady", words, now_s)
    done = f'Bind Pod "{taken_by}" in Reservation "{kept.name}"'
    status = status.with_condition(is_true(BOUND_POD_READY, f'Pod "{taken_by}" is Ready', now_s))
    return succeeded(status.with_condition(is_true(POD_BOUND, done, now_s)), done)


def _scheduled(status: JobStatus, node: str, now_s: float) -> JobStatus:
    kept = f"a place is kept on node {node}"
    return replace(status.with_condition(is_true(RESERVATION_SCHEDULED, kept, now_s)), node=node)


def _waiting(status: JobStatus, kind: str, reason: str, message: str, now_s: float) -> JobStatus:
    """Return the status with a condition that does not hold yet, as far as words say why."""
    if not message:
        return status
    return status.with_condition(condition(kind, "False", reason, message, now_s))


def succeeded(status: JobStatus, message: str) -> JobStatus:
    """Return the status of a job that has succeeded."""
    return replace(status, phase=Phase.SUCCEEDED, step=COMPLETE, reason="", message=message)


def failed(status: JobStatus, reason: str, message: str) -> JobStatus:
    """Return the status of a job that has failed."""
    return replace(status, phase=Phase.FAILED, reason=reason, message=message)


def is_true(kind: str, message: str, now_s: float) -> JobCondition:
    """Return a condition that holds, whose reason is its type."""
    return condition(kind, "True", kind, message, now_s)


def condition(kind: str, status: str, reason: str, message: str, now_s: float) -> JobCondition:
    """Return a condition as of now, in seconds since the epoch."""
    at = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return JobCondition(kind, status, reason, message, at)


def seconds_of(written: JobCondition) -> float:
    """Return since when a condition is as it is, in seconds since the epoch; 0 where unknown."""
    at = written.last_transition_time
    return datetime.fromisoformat(at).timestamp() if at else 0.0


def is_for_pending_pod(status: JobStatus) -> bool:
    """Say whether a job places a pod that waits for a node, and so evicts none."""
    return status.condition(POD_SCHEDULED) is not None
