"""The life of a migration job is the diagram of the documentation, and each arrow can be taken."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.migration.job_state import (
    EVICTION,
    RESERVATION_BOUND,
    RESERVATION_CREATED,
    RESERVATION_SCHEDULED,
    FailedAttempt,
    JobState,
    Modes,
    Wait,
)
from reactive_desched.migration.state_machine import (
    BEFORE,
    BOUND,
    CREATED,
    EVICTED,
    EVICTING,
    PENDING,
    RUNNING,
    SCHEDULED,
    TRANSITIONS,
    Stage,
    next_status,
    next_transition,
    stage_of,
)
from reactive_desched.model.eviction_options import DeleteOptions
from reactive_desched.model.migration_jobs import (
    JobCondition,
    JobStatus,
    MigrationJob,
    Mode,
    Phase,
    PodReference,
)
from reactive_desched.model.objects import OwnerReference, Pod, PodCondition, PodSpec, PodStatus
from reactive_desched.model.reservations import Reservation, ReservationPhase
from reactive_desched.testing.builders import READY

DIAGRAM = Path(__file__).parents[2] / "docs" / "explain" / "migration.md"
NOW = 1000.0
PLACEHOLDERS = Modes(Mode.RESERVATION_FIRST, has_placeholders=True)
RESERVATIONS = Modes(Mode.RESERVATION_FIRST, reserving=frozenset({"koord-scheduler"}))
DIRECTLY = Modes()
OWNERS = (OwnerReference("ReplicaSet", "web", "web", controller=True),)
POD = Pod(
    "shop",
    "web-0",
    "web-0",
    node="n1",
    owners=OWNERS,
    spec=PodSpec(scheduler_name="koord-scheduler"),
    status=READY,
)
WAITING = replace(POD, node="")
SUCCESSOR = replace(POD, name="web-1", uid="web-1", node="")
PLACEHOLDER = Pod("shop", "placeholder-job", "placeholder", node="n2")
UNSCHEDULABLE = replace(
    PLACEHOLDER,
    node="",
    status=PodStatus(conditions=(PodCondition("PodScheduled", "False", "Unschedulable"),)),
)
RESERVATION = Reservation(name="job", uid="r", phase=ReservationPhase.PENDING)
AVAILABLE = replace(
    RESERVATION, phase=ReservationPhase.AVAILABLE, node="n2", is_scheduled=True, is_ours=True
)
TAKEN = replace(
    AVAILABLE,
    phase=ReservationPhase.SUCCEEDED,
    taken_by=PodReference("shop", "web-1", "web-1"),
)
CONDITIONS = {
    RUNNING: (),
    CREATED: ((RESERVATION_CREATED, "True"),),
    SCHEDULED: ((RESERVATION_CREATED, "True"), (RESERVATION_SCHEDULED, "True")),
    EVICTING: ((EVICTION, "False"),),
    EVICTED: ((EVICTION, "True"),),
    BOUND: ((EVICTION, "True"), (RESERVATION_BOUND, "True")),
}


def job(state: Stage, **fields: Any) -> MigrationJob:
    """Return a job in a state, that arbitration let through if it runs."""
    phase = Phase.PENDING if state is PENDING else Phase.RUNNING
    written = tuple(JobCondition(*each) for each in CONDITIONS.get(state, ()))
    made = MigrationJob(
        name="job",
        uid="job",
        pod=PodReference("shop", "web-0", "web-0"),
        created_s=900,
        status=JobStatus(phase, conditions=written),
        has_passed=state is not PENDING,
        reservation="" if state in (PENDING, RUNNING) else "job",
    )
    return replace(made, **fields)


def sight(of: MigrationJob, modes: Modes, **known: Any) -> JobState:
    """Return what is known of a job; its pod is there."""
    return JobState(of, modes, NOW, **{"pod": POD, **known})


def test_the_diagram_has_the_arrows_of_the_code_in_their_order() -> None:
    transitions = re.findall(r"^    (\w.*) -- (\w+) --> (\w+)$", DIAGRAM.read_text(), re.MULTILINE)
    drawn = [
        (tuple(sources.split(" & ")), reason, target) for sources, reason, target in transitions
    ]

    written = [
        (transition.sources, transition.reason, transition.target) for transition in TRANSITIONS
    ]
    assert drawn == list(dict.fromkeys(written))


@pytest.mark.parametrize("state", [PENDING, *CONDITIONS])
def test_the_state_of_a_job_follows_from_its_status(state: Stage) -> None:
    assert stage_of(job(state)) is state


DOES_NOT_FIT = replace(job(SCHEDULED).status, reason="PlaceDoesNotFit", node="n2", message="full")
ABORT = {"is_to_be_aborted": True}
ANOTHER = PodReference("shop", "web-2")
TAKEN_TRANSITIONS = [
    *((sight(job(each, **ABORT), DIRECTLY), "AbortedByPerson") for each in (PENDING, *BEFORE)),
    *((sight(job(each), DIRECTLY, lapsed="its taint is off"), "FindingEnded") for each in BEFORE),
    *((sight(job(each, ttl_s=60.0), DIRECTLY), "Timeout") for each in (PENDING, *CONDITIONS)),
    (sight(job(PENDING, pod=PodReference("shop")), DIRECTLY), "InvalidPodRef"),
    *((sight(job(each, pod=ANOTHER), DIRECTLY), "InvalidPodRef") for each in BEFORE),
    (sight(job(PENDING, mode="ReservationFirst"), DIRECTLY), "UnsupportedMode"),
    (
        sight(job(PENDING, delete_options=DeleteOptions(dry_run=("All",))), DIRECTLY),
        "UnsupportedDeleteOptions",
    ),
    (sight(job(PENDING), DIRECTLY, pod=None), "MissingPod"),
    (sight(job(PENDING), DIRECTLY, forbidden="it is a DaemonSet's"), "ForbiddenMigratePod"),
    (sight(job(PENDING), PLACEHOLDERS, pod=replace(POD, owners=())), "ForbiddenMigratePod"),
    (sight(job(PENDING, has_passed=True), DIRECTLY), "PassedArbitration"),
    *((sight(job(each), DIRECTLY, is_evicted=True), "Evicting") for each in BEFORE),
    (sight(job(RUNNING), DIRECTLY, is_evicted=True, pod=None), "Evicting"),
    *((sight(job(each), DIRECTLY, pod=None), "MissingPod") for each in BEFORE),
    (
        sight(job(RUNNING), PLACEHOLDERS, failed_attempt=FailedAttempt("no", 1.0, NOW)),
        "FailedCreateReservation",
    ),
    (sight(job(RUNNING), PLACEHOLDERS, placeholder=PLACEHOLDER), "ReservationCreated"),
    (sight(job(RUNNING), RESERVATIONS, reservation=RESERVATION), "ReservationCreated"),
    (sight(job(SCHEDULED, status=DOES_NOT_FIT), PLACEHOLDERS), "PlaceDoesNotFit"),
    *((sight(job(each), PLACEHOLDERS), "MissingReservation") for each in (CREATED, SCHEDULED)),
    (
        sight(
            job(CREATED),
            RESERVATIONS,
            reservation=replace(AVAILABLE, is_for_pod=True),
        ),
        "Complete",
    ),
    *(
        (
            sight(job(each), RESERVATIONS, reservation=replace(AVAILABLE, is_expired=True)),
            "ReservationExpired",
        )
        for each in (CREATED, SCHEDULED)
    ),
    *(
        (sight(job(each), RESERVATIONS, reservation=TAKEN), "ForbiddenMigratePod")
        for each in (CREATED, SCHEDULED)
    ),
    (
        sight(job(CREATED), RESERVATIONS, reservation=replace(RESERVATION, unschedulable="full")),
        "Unschedulable",
    ),
    (sight(job(CREATED), PLACEHOLDERS, placeholder=UNSCHEDULABLE), "Unschedulable"),
    (
        sight(
            job(CREATED),
            RESERVATIONS,
            pod=WAITING,
            reservation=replace(RESERVATION, is_for_pod=True),
        ),
        "Unschedulable",
    ),
    *(
        (
            sight(
                job(each),
                RESERVATIONS,
                reservation=replace(RESERVATION, phase=ReservationPhase.FAILED),
            ),
            "Unschedulable",
        )
        for each in (CREATED, SCHEDULED)
    ),
    *(
        (
            sight(job(each), RESERVATIONS, reservation=replace(AVAILABLE, node="n1")),
            "ForbiddenMigratePod",
        )
        for each in (CREATED, SCHEDULED)
    ),
    (sight(job(CREATED), RESERVATIONS, reservation=AVAILABLE), "ReservationScheduled"),
    (sight(job(CREATED), PLACEHOLDERS, placeholder=PLACEHOLDER), "ReservationScheduled"),
    (sight(job(EVICTING, reservation=""), DIRECTLY, pod=None), "Complete"),
    (
        sight(job(EVICTING), PLACEHOLDERS, pod=None, placeholder=PLACEHOLDER),
        "EvictComplete",
    ),
    (sight(job(EVICTED, reservation=""), PLACEHOLDERS, pod=None), "Complete"),
    (
        sight(
            job(EVICTED, reservation=""),
            PLACEHOLDERS,
            pod=None,
            placeholder=PLACEHOLDER,
            successor=SUCCESSOR,
        ),
        "Complete",
    ),
    (
        sight(job(EVICTED), RESERVATIONS, pod=None, reservation=AVAILABLE),
        "WaitForPodBindReservation",
    ),
    (sight(job(EVICTED), RESERVATIONS, pod=None, reservation=TAKEN), "ReservationBound"),
    (
        sight(
            job(EVICTED),
            RESERVATIONS,
            pod=None,
            reservation=AVAILABLE,
            replacement=replace(SUCCESSOR, node="n1"),
        ),
        "Complete",
    ),
    (
        sight(job(EVICTED), RESERVATIONS, pod=None, reservation=AVAILABLE, replacement=SUCCESSOR),
        "WaitForPodBindReservation",
    ),
    (
        sight(job(EVICTED), RESERVATIONS, pod=None, reservation=AVAILABLE, is_not_replaced=True),
        "Complete",
    ),
    (
        sight(
            job(BOUND),
            RESERVATIONS,
            pod=None,
            reservation=TAKEN,
            bound=replace(SUCCESSOR, status=replace(READY, conditions=())),
        ),
        "WaitForBoundPodReady",
    ),
    (
        sight(
            job(BOUND),
            RESERVATIONS,
            pod=None,
            reservation=TAKEN,
            bound=replace(SUCCESSOR, status=READY),
        ),
        "Complete",
    ),
]
"""What is known of a job, and the reason of the arrow that it takes then."""


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        pytest.param(state, reason, id=f"{number}-{stage_of(state.job)}-{reason}")
        for number, (state, reason) in enumerate(TAKEN_TRANSITIONS)
    ],
)
def test_a_job_takes_the_arrow_of_what_is_known_and_its_status_leads_to_the_target(
    state: JobState, reason: str
) -> None:
    taken = next_transition(state)

    assert taken is not None
    transition, message = taken
    assert transition.reason == reason
    after = replace(state.job, status=next_status(state))
    assert stage_of(after) is transition.target
    if reason != "PassedArbitration":
        assert message in (
            after.status.message,
            *(each.message for each in after.status.conditions),
        )
    if transition.target is Stage.FAILED or transition.target in transition.sources:
        assert after.status.reason == reason


def test_every_arrow_of_the_life_is_taken_here_from_every_state_that_it_leaves() -> None:
    transitions = {
        (stage_of(state.job), transition)
        for state, _ in TAKEN_TRANSITIONS
        for transition, _ in taken(state)
    }

    assert transitions == {
        (source, transition) for transition in TRANSITIONS for source in transition.sources
    }


def taken(state: JobState) -> list[Any]:
    found = next_transition(state)
    return [] if found is None else [found]


def test_a_job_waits_while_the_eviction_of_its_pod_is_requested_or_a_person_pauses_it() -> None:
    requested = sight(job(RUNNING), DIRECTLY, pod=None, is_requested=True)
    paused = sight(job(PENDING, is_paused=True, has_passed=True), DIRECTLY)

    assert next_transition(requested) is None
    assert next_transition(paused) is None
    going_on = sight(job(EVICTING, is_paused=True, reservation=""), DIRECTLY, pod=None)
    assert next_transition(replace(going_on, is_evicted=True)) is not None


def test_the_status_of_a_job_that_waits_says_for_what_after_a_while_and_once() -> None:
    wait = Wait("MaxMigratingPerNode", "2 jobs are in progress", NOW - 5)
    of = job(PENDING)

    assert next_status(sight(of, DIRECTLY, wait=replace(wait, since_s=NOW - 4))) == of.status
    written = next_status(sight(of, DIRECTLY, wait=wait))
    assert (written.reason, written.message) == (wait.reason, wait.message)
    again = sight(replace(of, status=written), DIRECTLY, wait=replace(wait, message="3 jobs are"))
    assert next_status(again) == written
