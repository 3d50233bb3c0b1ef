"""The next write of a migration job to the API server, and when time changes it.

Whatever became of a job, a placeholder that serves no more is deleted, and so is a Reservation of
ours when its job has failed or was aborted.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.migration.job_state import (
    EVICTION,
    RESERVATION_BOUND,
    RESERVATION_CREATED,
    RESERVATION_SCHEDULED,
    JobState,
    Modes,
    is_for_pending_pod,
)
from reactive_desched.migration.rules import (
    LAG_GRACE_S,
    MISSING_GRACE_S,
    PLACE_DOES_NOT_FIT,
    PLACE_GRACE_S,
    SUCCESSOR_GRACE_S,
    awaits_first_attempt,
    may_be_replaced,
    place_fits_no_more,
    seconds_of,
    times_out_at,
)
from reactive_desched.migration.state_machine import WAIT_WRITTEN_AFTER_S, next_status
from reactive_desched.model.migration_jobs import JobStatus, MigrationJob, Phase
from reactive_desched.model.node_affinity import NodeSelector
from reactive_desched.model.objects import Pod
from reactive_desched.model.reservations import Reservation

KEPT_AFTER_TTL_S: Final = 300.0
KEPT_WITHOUT_TTL_S: Final = 1800.0
"""How long a job is kept after its time to live, and from its creation where it has none."""

DELETE_AGAIN_S: Final = 60.0

LOOK_AGAIN_S: Final = 5.0
"""After so long a job looks again whether other pods of its workload are still awaited."""


class PassArbitration(Struct, frozen=True, gc=False):
    """Write that arbitration let the job through, and the uid of its pod."""

    job: MigrationJob
    uid: str


class SetStatus(Struct, frozen=True, gc=False):
    """Write a status."""

    job: MigrationJob
    status: JobStatus


class CreatePlaceholder(Struct, frozen=True, gc=False):
    """Make a placeholder for the replacement of the job's pod; its node matches each selector.

    `spread_keys` are the labels of nodes by which the kube-scheduler spreads pods that have no
    constraint of their own. The place is on none of the `avoided` nodes.
    """

    job: MigrationJob
    pod: Pod
    selectors: tuple[NodeSelector, ...] = ()
    spread_keys: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()


class CreateReservation(Struct, frozen=True, gc=False):
    """Make a Reservation for the replacement of the job's pod, and name it in the job.

    It is on none of the `avoided` nodes. A Reservation beside the pod cannot have the claims
    `without`, which are for one pod at a time: each of the `selectors` says where these are.
    """

    job: MigrationJob
    pod: Pod
    avoided: tuple[str, ...] = ()
    selectors: tuple[NodeSelector, ...] = ()
    without: tuple[str, ...] = ()


class SetReservationOrder(Struct, frozen=True, gc=False):
    """Write koordinator's order label on the Reservation that a job names."""

    job: MigrationJob
    reservation: Reservation


class DeleteReservation(Struct, frozen=True, gc=False):
    """Delete the job's Reservation: the job has failed, or looks for another place."""

    job: MigrationJob
    reservation: Reservation


class DeletePlaceholder(Struct, frozen=True, gc=False):
    """Delete the job's placeholder; its node is meant for the successor, where one waits."""

    job: MigrationJob
    placeholder: Pod
    successor: Pod | None = None


class DeleteJob(Struct, frozen=True, gc=False):
    """Delete the job: it is old, or one ended job too many."""

    job: MigrationJob


Action = (
    PassArbitration
    | SetStatus
    | CreatePlaceholder
    | CreateReservation
    | SetReservationOrder
    | DeletePlaceholder
    | DeleteReservation
    | DeleteJob
)


def step_name(action: Action | None) -> str:
    """Return a step as a recording has it; empty for none, and for other words of a status."""
    if action is None:
        return ""
    name = type(action).__name__
    if not isinstance(action, SetStatus):
        return name
    before, after = action.job.status, action.status
    if _without_words(after) == _without_words(before):
        return ""
    return f"{name} {after.phase}/{after.step}/{after.reason}"


def _without_words(status: JobStatus) -> JobStatus:
    conditions = tuple(replace(each, message="") for each in status.conditions)
    return replace(status, message="", conditions=conditions)


def next_action(state: JobState) -> Action | None:
    """Return what is to be written of a job next; None while it waits, or for good."""
    job = state.job
    if (placeholder := state.placeholder) is not None and _may_make_room(state):
        return (
            None
            if placeholder.is_terminating
            else DeletePlaceholder(job, placeholder, state.successor)
        )
    if (kept := state.reservation) is not None and kept.is_ours and _is_given_up(state, kept):
        return None if kept.is_terminating else DeleteReservation(job, kept)
    if state.now_s >= deleted_at(job) or state.is_surplus:
        return DeleteJob(job)
    if (status := next_status(state)) != job.status:
        return SetStatus(job, status)
    if job.is_paused or job.has_ended or state.pod is None:
        return None
    may_begin = job.is_pending and (state.may_begin or job.has_passed)
    if may_begin and not (job.has_passed and job.pod.uid):
        return PassArbitration(job, state.pod.uid)
    keeps_place = state.modes.keeps_place(job) and job.phase is Phase.RUNNING
    return _placeholder_action(state, state.pod) if keeps_place and not state.is_evicting else None


def _placeholder_action(state: JobState, pod: Pod) -> Action | None:
    """Return what is to be done for the place of a job that runs; what failed is tried later."""
    job = state.job
    if state.failed_attempt is not None and state.now_s < state.failed_attempt.next_at_s:
        return None
    if not state.reserves:
        is_made = state.placeholder is not None or bool(state.reach.error)
        return None if is_made else CreatePlaceholder(job, pod, state.reach.selectors)
    kept = state.reservation
    is_lost = job.names_own_reservation and kept is None and _lost_its_place(job.status)
    if not job.reservation or is_lost:
        reach = state.reach
        where = reach.selectors if reach.exclusive else ()
        return CreateReservation(job, pod, selectors=where, without=reach.exclusive)
    return SetReservationOrder(job, kept) if kept is not None and not kept.has_order else None


def _is_given_up(state: JobState, kept: Reservation) -> bool:
    """Say whether a Reservation serves no more: its job has ended, or its node fits no more.

    Where the job has succeeded it stays with the pod that took it, if one did.
    """
    job = state.job
    if job.phase in (Phase.FAILED, Phase.ABORTED):
        return True
    if job.phase is Phase.SUCCEEDED and job.status.condition(EVICTION) is not None:
        return kept.keeps_room and job.status.condition(RESERVATION_BOUND) is None
    fits_no_more = place_fits_no_more(state) and not state.is_evicting
    return fits_no_more and kept.keeps_room and job.names_own_reservation


def _lost_its_place(status: JobStatus) -> bool:
    """Say whether another place is looked for, as the first one did not fit."""
    made = status.condition(RESERVATION_CREATED)
    return made is not None and made.reason == PLACE_DOES_NOT_FIT.code


def _may_make_room(state: JobState) -> bool:
    """Say whether a placeholder serves no more: a replacement can take its place, or none can."""
    if state.job.has_ended or state.now_s >= deleted_at(state.job):
        return True
    if place_fits_no_more(state):
        return True
    if not state.is_evicting or awaits_first_attempt(state):
        return False
    return state.successor is not None or not may_be_replaced(state)


def wants_eviction(job: MigrationJob, modes: Modes) -> bool:
    """Say whether the job's pod is to be evicted as soon as the gates let it go."""
    if job.is_paused or job.is_to_be_aborted or job.phase is not Phase.RUNNING:
        return False
    if not job.pod.uid:  # by now it names a pod that it did not begin with
        return False
    if is_for_pending_pod(job.status):
        return False
    has_place = job.status.holds(RESERVATION_SCHEDULED)
    is_evicting = job.status.condition(EVICTION) is not None
    return not is_evicting and (has_place or not modes.keeps_place(job))


def awaits_arbitration(job: MigrationJob) -> bool:
    """Say whether arbitration has to decide about the job."""
    return job.is_pending and not (job.has_passed or job.is_paused)


def deleted_at(job: MigrationJob) -> float:
    """Return when the job is deleted, whatever became of it."""
    kept_s = job.ttl_s + KEPT_AFTER_TTL_S if job.ttl_s else KEPT_WITHOUT_TTL_S
    return job.created_s + kept_s


def next_change_at(state: JobState) -> float:
    """Return when time alone changes what is to be written; a deletion is tried again."""
    job = state.job
    times = [job.created_s + MISSING_GRACE_S, times_out_at(job), deleted_at(job)]
    if state.wait is not None:
        since_s = state.wait.since_s
        times += (since_s + WAIT_WRITTEN_AFTER_S, since_s + PLACE_GRACE_S)
    if state.failed_attempt is not None:
        times.append(state.failed_attempt.next_at_s)
    if state.successor is not None:
        times.append(state.successor.created_s + LAG_GRACE_S)
    if state.replacement is not None:
        created_s = state.replacement.created_s
        times += (created_s + LAG_GRACE_S, created_s + SUCCESSOR_GRACE_S)
        if state.others_come:
            times.append(state.now_s + LOOK_AGAIN_S)
    if (evicted := job.status.condition(EVICTION)) is not None and evicted.status == "True":
        gone_s = seconds_of(evicted)
        times += (gone_s + LAG_GRACE_S, gone_s + SUCCESSOR_GRACE_S)
    return min((time for time in times if time > state.now_s), default=state.now_s + DELETE_AGAIN_S)
