"""The life of a migration job, on one page: the arrows of the diagram in docs/explain/migration.md.

A job is in one state, which follows from its status at the API server. Its arrows are asked in the
order of the table: the first one whose rule holds is taken, and the job's status says its reason. A
job whose arrows do not hold waits, and its status says for what. Nothing is remembered in between,
so the next process goes on where this one ended. What is done at the API server for a job in each
state is in `actions.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.migration import rules as when
from reactive_desched.migration.job_state import (
    BOUND_POD_READY,
    EVICTION,
    POD_BOUND,
    POD_SCHEDULED,
    RESERVATION_BOUND,
    RESERVATION_CREATED,
    RESERVATION_SCHEDULED,
    JobState,
)
from reactive_desched.migration.rules import PLACE_DOES_NOT_FIT
from reactive_desched.model.migration_jobs import JobCondition, JobStatus, MigrationJob, Phase
from reactive_desched.text.times import format_second


class Stage(StrEnum):
    """The stage of a job: its phase, and while it runs the last condition that came true."""

    PENDING = "Pending"
    RUNNING = "Running"
    CREATED = "ReservationCreated"
    SCHEDULED = "ReservationScheduled"
    EVICTING = "Evicting"
    EVICTED = "EvictComplete"
    BOUND = "ReservationBound"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"


PENDING, RUNNING, CREATED, SCHEDULED, EVICTING, EVICTED, BOUND, SUCCEEDED, FAILED, ABORTED = Stage
BEFORE: Final = (RUNNING, CREATED, SCHEDULED)
"""The states of a job that runs, before its pod is evicted."""
OPEN: Final = (PENDING, *BEFORE, EVICTING, EVICTED, BOUND)

Rule = Callable[[JobState], str | None]


class Transition(Struct, frozen=True):
    """A job goes from one of `sources` to `target`, for `reason`, when `rule` has a message."""

    sources: tuple[Stage, ...]
    target: Stage
    reason: str
    rule: Rule


FAILED_CREATE: Final = "FailedCreateReservation"

TRANSITIONS: Final = (
    # Whatever it does:
    Transition((PENDING, *BEFORE), ABORTED, "AbortedByPerson", when.person_aborts),
    Transition(BEFORE, ABORTED, "FindingEnded", when.finding_has_ended),
    Transition(OPEN, FAILED, "Timeout", when.time_is_over),
    # It waits for arbitration.
    Transition((PENDING, *BEFORE), FAILED, "InvalidPodRef", when.names_no_pod),
    Transition((PENDING,), FAILED, "UnsupportedMode", when.mode_is_not_there),
    Transition((PENDING,), FAILED, "UnsupportedDeleteOptions", when.options_evict_nothing),
    Transition((PENDING,), FAILED, "MissingPod", when.pod_does_not_exist),
    Transition((PENDING,), FAILED, "ForbiddenMigratePod", when.is_forbidden),
    Transition((PENDING,), RUNNING, "PassedArbitration", when.arbitration_is_passed),
    # A place is kept, if there is to be one, and the gates let the pod be evicted.
    Transition(BEFORE, EVICTING, "Evicting", when.eviction_is_accepted),
    Transition(BEFORE, FAILED, "MissingPod", when.pod_left_by_itself),
    Transition((RUNNING,), RUNNING, FAILED_CREATE, when.place_cannot_be_made),
    Transition((RUNNING,), CREATED, "ReservationCreated", when.place_is_made),
    Transition((SCHEDULED,), RUNNING, PLACE_DOES_NOT_FIT.code, when.place_is_given_up),
    Transition((CREATED, SCHEDULED), FAILED, "MissingReservation", when.place_is_gone),
    Transition((CREATED,), SUCCEEDED, "Complete", when.pending_pod_has_node),
    Transition((CREATED, SCHEDULED), FAILED, "ReservationExpired", when.reservation_has_expired),
    Transition((CREATED, SCHEDULED), FAILED, "ForbiddenMigratePod", when.place_is_taken),
    Transition((CREATED,), CREATED, "Unschedulable", when.place_has_no_node_yet),
    Transition((CREATED,), CREATED, "Unschedulable", when.pending_pod_waits),
    Transition((CREATED, SCHEDULED), FAILED, "Unschedulable", when.place_gets_no_node),
    Transition((CREATED, SCHEDULED), FAILED, "ForbiddenMigratePod", when.place_is_on_the_pods_node),
    Transition((CREATED,), SCHEDULED, "ReservationScheduled", when.place_has_node),
    # The pod leaves; the place of a placeholder is given away.
    Transition((EVICTING,), SUCCEEDED, "Complete", when.pod_has_left_no_place),
    Transition((EVICTING,), EVICTED, "EvictComplete", when.pod_has_left),
    Transition((EVICTED,), SUCCEEDED, "Complete", when.place_is_given_away),
    # The replacement is followed into a Reservation until it is Ready, or to another node.
    Transition((EVICTED,), SUCCEEDED, "Complete", when.replacement_is_elsewhere),
    Transition((EVICTED,), EVICTED, "WaitForPodBindReservation", when.nothing_is_bound_yet),
    Transition((EVICTED,), BOUND, "ReservationBound", when.replacement_is_bound),
    Transition((BOUND,), BOUND, "WaitForBoundPodReady", when.replacement_is_not_ready),
    Transition((BOUND,), SUCCEEDED, "Complete", when.replacement_is_ready),
)
"""Every arrow, in the order in which they are asked."""

_FROM: Final = {
    state: tuple(each for each in TRANSITIONS if state in each.sources) for state in Stage
}


def stage_of(job: MigrationJob) -> Stage:
    """Return where a job is, by its status."""
    status = job.status
    if job.phase is not Phase.RUNNING:
        return PENDING if job.is_pending else Stage(job.phase)
    if (eviction := status.condition(EVICTION)) is not None:
        if eviction.status != "True":
            return EVICTING
        return EVICTED if status.condition(RESERVATION_BOUND) is None else BOUND
    if status.holds(RESERVATION_SCHEDULED):
        return SCHEDULED
    return CREATED if status.holds(RESERVATION_CREATED) else RUNNING


def next_transition(state: JobState) -> tuple[Transition, str] | None:
    """Return the arrow that a job takes now, and the message; None while it waits, and at its end.

    A job is held while the eviction of its pod is requested, for what follows may be seen before
    the answer, and until then while a person pauses it.
    """
    if not is_held(state):
        for transition in _FROM[stage_of(state.job)]:
            if (message := transition.rule(state)) is not None:
                return transition, message
    return None


def is_held(state: JobState) -> bool:
    """Say whether no arrow is asked."""
    job = state.job
    if job.phase is Phase.RUNNING and state.is_requested:
        return True
    return job.is_paused and not (job.is_to_be_aborted or state.is_evicting)


def next_status(state: JobState) -> JobStatus:
    """Return the status of a job as it is now: by the arrow that it takes, or what it waits for."""
    status, wait = state.job.status, state.wait
    if state.job.has_ended or is_held(state):
        return status
    if (taken := next_transition(state)) is not None:
        after = _status_after(*taken, state)
        if after != status:
            return after
    if wait is None or wait.reason == status.reason:  # its words are written once
        return status
    if state.now_s < wait.since_s + WAIT_WRITTEN_AFTER_S:
        return status
    return replace(status, reason=wait.reason, message=wait.message)


# --- what a status says of an arrow ---

WAIT_WRITTEN_AFTER_S: Final = 5.0
"""A job's status says what the job waits for once it has waited so long for that."""

COMPLETE: Final = "Complete"
"""What koordinator writes as the step of a job that has succeeded."""

_COMES_TRUE: Final[Mapping[Rule, Sequence[str]]] = {
    when.place_is_made: (RESERVATION_CREATED,),
    when.place_has_node: (RESERVATION_SCHEDULED,),
    when.pending_pod_has_node: (POD_SCHEDULED,),
    when.pod_has_left: (EVICTION,),
    when.pod_has_left_no_place: (EVICTION,),
    when.replacement_is_ready: (BOUND_POD_READY, POD_BOUND),
}
"""The conditions that hold once an arrow is taken."""

_NOT_TRUE: Final[Mapping[Rule, Sequence[str]]] = {
    when.eviction_is_accepted: (EVICTION,),
    when.place_cannot_be_made: (RESERVATION_CREATED,),
    when.place_is_given_up: (RESERVATION_CREATED, RESERVATION_SCHEDULED),
    when.place_has_no_node_yet: (RESERVATION_SCHEDULED,),
    when.pending_pod_waits: (POD_SCHEDULED,),
    when.nothing_is_bound_yet: (POD_BOUND,),
    when.replacement_is_not_ready: (BOUND_POD_READY,),
}
"""The conditions that do not hold yet, or no more, for the reason of an arrow."""


def _status_after(transition: Transition, message: str, state: JobState) -> JobStatus:
    """Return the status once an arrow is taken."""
    status, rule = state.job.status, transition.rule
    for kind in _NOT_TRUE.get(rule, ()):
        status = status.with_condition(
            condition(kind, "False", transition.reason, message, state.now_s)
        )
    for kind in _COMES_TRUE.get(rule, ()):
        reason = Stage.EVICTED if kind == EVICTION else kind
        status = status.with_condition(condition(kind, "True", reason, message, state.now_s))
    match transition.target:
        case Stage.RUNNING if transition.sources == (PENDING,):
            return replace(status, phase=Phase.RUNNING, reason="", message="")
        case Stage.RUNNING:
            return replace(status, node="")
        case Stage.SCHEDULED:
            return replace(status, node=when.node_of_place(state))
        case Stage.BOUND if status.condition(RESERVATION_BOUND) is None:
            bound = condition(RESERVATION_BOUND, "True", RESERVATION_BOUND, message, state.now_s)
            taker = when.taker_of_place(state)
            conditions = (*status.conditions, bound)  # the step stays, as with koordinator
            return replace(status, conditions=conditions, replacement=taker)
        case Stage.SUCCEEDED:
            node = status.node or ("" if state.pod is None else state.pod.node)
            replacement = status.replacement or when.replacement_of(state)
            done = replace(status, phase=Phase.SUCCEEDED, reason="", message=message, node=node)
            return replace(done, step=COMPLETE, replacement=replacement)
        case Stage.FAILED | Stage.ABORTED as target:
            return replace(status, phase=Phase(target), reason=transition.reason, message=message)
        case _:
            return status


def condition(kind: str, status: str, reason: str, message: str, now_s: float) -> JobCondition:
    """Return a condition as of now, in seconds since the epoch."""
    at = format_second(now_s)
    return JobCondition(kind, status, reason, message, at)
