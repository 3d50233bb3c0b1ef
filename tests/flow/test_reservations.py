"""Jobs whose place koordinator's Reservation keeps, through the whole pipeline in virtual time."""

from collections.abc import Callable
from itertools import pairwise

import anyio
import pytest
from msgspec.structs import replace

from reactive_desched.errors import RequestRejected
from reactive_desched.model.migration_jobs import Mode, Phase, PodReference
from reactive_desched.model.objects import Pod, PodSpec, PodStatus
from reactive_desched.model.reservations import Reservation, ReservationPhase
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.migration import MigrationJobSettings, PlaceholderSettings
from reactive_desched.testing.builders import READY, node, pod
from tests.support.golden import Golden
from tests.support.migrating import JobServer, MigratingController, available, job_on

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NODES = [node("n1"), node("n2"), node("n3")]
KOORDINATED = PodSpec(scheduler_name="koord-scheduler")
WEB = [
    replace(pod(f"web-{number}", on=f"n{number % 2 + 1}"), spec=KOORDINATED) for number in range(9)
]
RESERVING = MigrationJobSettings(
    default_job_mode=Mode.RESERVATION_FIRST, scheduler_names=("koord-scheduler",)
)
KEPT = "job-web-0"
NEXT = replace(WEB[0], name="web-next", uid="web-next", node="n3", status=PodStatus())


def served(*pods: Pod) -> JobServer:
    """Return a server that has these pods, or the nine of web."""
    server = JobServer()
    server.pods = {each.uid: each for each in pods or WEB}
    return server


def conditions(server: JobServer) -> list[tuple[str, str, str]]:
    """Return the conditions of the only job."""
    [job] = server.jobs.values()
    return [(each.type, each.status, each.reason) for each in job.status.conditions]


def ending(server: JobServer) -> tuple[Phase, str]:
    """Return how the only job ended."""
    [job] = server.jobs.values()
    return job.phase, job.status.reason


async def test_a_pod_is_evicted_into_a_reservation_and_followed_until_its_successor_is_ready() -> (
    None
):
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        process.fed.deliver(server.put(job_on(WEB[0])))
        await anyio.sleep(0.3)
        assert server.jobs["web-0"].reservation == KEPT
        assert server.evictions == [], "the Reservation has no node yet"
        await anyio.sleep(5)
        assert server.evictions == ["web-0"]
        assert server.jobs["web-0"].phase is Phase.RUNNING
        assert conditions(server)[-1][::2] == ("PodBoundReservation", "WaitForPodBindReservation")

        await process.bind(KEPT, NEXT)
        await anyio.sleep(1)

        done = server.jobs["web-0"].status
        assert (done.phase, done.step, done.reason) == (Phase.SUCCEEDED, "Complete", "")
        assert done.message == 'Bind Pod "default/web-next" in Reservation "job-web-0"'
        assert done.node == "n3"
        assert done.replacement == PodReference("default", "web-next", "web-next")
        assert conditions(server) == [
            ("ReservationCreated", "True", "ReservationCreated"),
            ("ReservationScheduled", "True", "ReservationScheduled"),
            ("Eviction", "True", "EvictComplete"),
            ("PodBoundReservation", "True", "PodBoundReservation"),
            ("ReservationBound", "True", "ReservationBound"),
            ("BoundPodReady", "True", "BoundPodReady"),
        ]
        assert KEPT in server.reservations, "koordinator collects the one that served"


async def test_a_reservation_may_have_its_pod_before_the_eviction_is_answered() -> None:
    server = served()
    server.answers_after_s = 5
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await anyio.sleep(3)
        assert server.evictions == ["web-0"]
        await process.bind(KEPT, NEXT)
        await anyio.sleep(3)

        assert ending(server) == (Phase.SUCCEEDED, "")
        assert server.jobs["web-0"].status.replacement == PodReference(
            "default", "web-next", "web-next"
        )


async def test_the_job_says_why_its_reservation_waits_and_a_full_cluster_keeps_its_pods() -> None:
    server = served()
    server.has_room = False
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0], ttl_s=60.0))
        why = "0/3 nodes are available: 3 Insufficient cpu."
        process.reserve(replace(server.reservations[KEPT], unschedulable=why))
        await anyio.sleep(1)
        assert conditions(server)[-1] == ("ReservationScheduled", "False", "Unschedulable")
        assert server.jobs["web-0"].status.message == why
        await anyio.sleep(70)

        assert ending(server) == (Phase.FAILED, "Timeout")
        assert server.evictions == []
        assert server.reservations == {}


FAILURES: dict[str, tuple[Callable[[Reservation], Reservation], str]] = {
    "expired": (
        lambda kept: replace(kept, phase=ReservationPhase.FAILED, is_expired=True),
        "ReservationExpired",
    ),
    "failed": (lambda kept: replace(kept, phase=ReservationPhase.FAILED), "Unschedulable"),
    "taken": (lambda kept: replace(kept, phase=ReservationPhase.SUCCEEDED), "ForbiddenMigratePod"),
    "own node": (lambda kept: replace(available(kept), node="n1"), "ForbiddenMigratePod"),
}


@pytest.mark.parametrize("how", FAILURES)
async def test_a_reservation_that_comes_to_nothing_fails_the_job_and_is_deleted(how: str) -> None:
    change, reason = FAILURES[how]
    server = served()
    server.has_room = False
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        process.reserve(change(server.reservations[KEPT]))
        await anyio.sleep(5)

        assert ending(server) == (Phase.FAILED, reason)
        assert server.evictions == []
        assert server.reservations == {}


class Refusing:
    """Refuses the requests that make a place, until `is_over`, and notes when they came."""

    def __init__(self, *steps: str, lost: bool = False) -> None:
        self.times: list[float] = []
        self.is_over = False
        self._point = "after" if lost else "before"
        self._steps = {f"{self._point} {step}" for step in steps}

    async def __call__(self, point: str) -> None:
        """Raise RequestRejected for a place."""
        if point in self._steps and not self.is_over:
            self.times.append(anyio.current_time())
            raise RequestRejected("reservations: 403 no right to make them", retryable=False)


PLACES = pytest.mark.parametrize(
    "spec", [pytest.param(WEB[0].spec, id="Reservation"), pytest.param(PodSpec(), id="placeholder")]
)
BOTH = RESERVING.model_copy(update={"placeholder": PlaceholderSettings()})


@PLACES
async def test_a_place_that_cannot_be_made_is_said_in_the_job_and_tried_at_longer_and_longer_waits(
    spec: PodSpec,
    golden: Golden,
) -> None:
    first = replace(WEB[0], spec=spec)
    server = served(first, *WEB[1:])
    server.on_request = refusing = Refusing("CreateReservation", "CreatePlaceholder")
    async with MigratingController(server, BOTH).running(*NODES) as process:
        began = anyio.current_time()
        await process.make(job_on(first, ttl_s=0.0))
        await anyio.sleep(10)

        waits = [round(at - began) for at in refusing.times]
        assert waits == [0, 1, 3, 7]
        failed = ("ReservationCreated", "False", "FailedCreateReservation")
        assert conditions(server) == [failed]
        assert server.jobs["web-0"].phase is Phase.RUNNING
        assert server.jobs["web-0"].status.message == golden()
        warnings = [each.reason for each in process.events if each.is_warning]
        assert warnings == ["FailedCreateReservation"], "once, as long as the words are the same"

        refusing.is_over = True
        await anyio.sleep(8)
        assert conditions(server)[0] == ("ReservationCreated", "True", "ReservationCreated")
        assert server.evictions == ["web-0"]


@PLACES
async def test_a_place_is_tried_every_minute_at_the_least_until_the_time_is_over(
    spec: PodSpec,
) -> None:
    first = replace(WEB[0], spec=spec)
    server = served(first, *WEB[1:])
    server.on_request = refusing = Refusing("CreateReservation", "CreatePlaceholder")
    async with MigratingController(server, BOTH).running(*NODES) as process:
        await process.make(job_on(first, ttl_s=300.0))
        await anyio.sleep(299)
        waits = [after - at for at, after in pairwise(refusing.times)]
        assert [round(each) for each in waits] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        await anyio.sleep(100)

        assert ending(server) == (Phase.FAILED, "Timeout")
        assert server.evictions == []
        assert len(refusing.times) == 10, "a job that ended has no place made"


@PLACES
async def test_a_new_process_tries_at_once_to_make_a_place_that_could_not_be_made(
    spec: PodSpec,
) -> None:
    first = replace(WEB[0], spec=spec)
    server = served(first, *WEB[1:])
    server.on_request = refusing = Refusing("CreateReservation", "CreatePlaceholder")
    async with MigratingController(server, BOTH).running(*NODES) as process:
        await process.make(job_on(first))
        await anyio.sleep(3)
        assert conditions(server)[0][1] == "False"
    refusing.is_over = True
    async with MigratingController(server, BOTH).running(*NODES):
        await anyio.sleep(2)

        assert conditions(server)[0][1] == "True"
        assert server.evictions == ["web-0"]


@PLACES
async def test_a_place_that_was_made_in_the_end_and_is_gone_fails_the_job(spec: PodSpec) -> None:
    first = replace(WEB[0], spec=spec)
    server = served(first, *WEB[1:])
    server.has_room = False
    server.on_request = refusing = Refusing("CreateReservation", "CreatePlaceholder")
    async with MigratingController(server, BOTH).running(*NODES) as process:
        await process.make(job_on(first))
        refusing.is_over = True
        await anyio.sleep(5)
        assert conditions(server)[0][1] == "True"
        for name in server.placeholders:
            process.delete_pod(server.pods[name])
        for kept in tuple(server.reservations.values()):
            process.fed.delete(server.reservations.pop(kept.name))
        await anyio.sleep(5)

        assert ending(server) == (Phase.FAILED, "MissingReservation")
        assert server.evictions == []


async def test_a_place_whose_answer_was_lost_is_taken_in_as_soon_as_it_is_seen() -> None:
    first = replace(WEB[0], spec=PodSpec())
    server = served(first, *WEB[1:])
    server.on_request = Refusing("CreatePlaceholder", lost=True)
    async with MigratingController(server, BOTH).running(*NODES) as process:
        await process.make(job_on(first))
        await anyio.sleep(1)

        assert conditions(server)[0] == ("ReservationCreated", "True", "ReservationCreated")
        assert server.evictions == ["web-0"]


async def test_a_reservation_that_is_deleted_before_the_eviction_fails_the_job() -> None:
    server = served()
    server.has_room = False
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        process.fed.delete(server.reservations.pop(KEPT))
        await anyio.sleep(5)

        assert ending(server) == (Phase.FAILED, "MissingReservation")
        assert server.evictions == []


async def test_a_job_that_is_aborted_gives_its_place_up() -> None:
    server = served()
    server.has_room = False
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        process.edit("web-0", is_to_be_aborted=True)
        await anyio.sleep(5)

        assert ending(server) == (Phase.ABORTED, "AbortedByPerson")
        assert (server.evictions, server.reservations) == ([], {})


async def test_a_reservation_of_a_person_is_used_ordered_and_never_deleted() -> None:
    server = served()
    theirs = available(Reservation(name="theirs", uid="theirs"))
    server.reservations["theirs"] = theirs
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0], reservation="theirs", ttl_s=60.0))
        await anyio.sleep(5)
        assert server.evictions == ["web-0"]
        assert server.reservations["theirs"].has_order
        await anyio.sleep(70)

        assert ending(server) == (Phase.FAILED, "Timeout")
        assert "theirs" in server.reservations


@pytest.mark.parametrize(
    ("name", "is_kept"), [("", False), ("theirs", True)], ids=["ours", "a person's"]
)
async def test_a_job_whose_replacement_runs_elsewhere_ends_and_gives_its_place_up(
    name: str,
    is_kept: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    server = served()
    server.reservations["theirs"] = available(Reservation(name="theirs", uid="theirs"))
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0], reservation=name))
        await anyio.sleep(5)
        assert server.evictions == ["web-0"]
        kept = server.reservations[name or KEPT]
        elsewhere = replace(NEXT, node="n1" if kept.node != "n1" else "n2")
        process.fed.deliver(replace(elsewhere, created_s=int(anyio.current_time())))
        await anyio.sleep(1)
        assert ending(server) == (Phase.RUNNING, "WaitForPodBindReservation")
        await anyio.sleep(5)

        done = server.jobs["web-0"].status
        assert (done.phase, done.step) == (Phase.SUCCEEDED, "Complete")
        assert done.replacement == PodReference("default", "web-next", "web-next")
        assert f'"default/web-next" replaces it on node {elsewhere.node}' in done.message
        assert (kept.name in server.reservations) is is_kept


async def test_a_job_whose_pod_is_not_replaced_ends_with_its_eviction_and_gives_its_place_up() -> (
    None
):
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0], ttl_s=7200.0))
        await anyio.sleep(1000)

        assert ending(server) == (Phase.SUCCEEDED, "")
        assert server.jobs["web-0"].status.message.endswith("; no pod replaces it")
        assert server.reservations == {}


def taken_by_next(name: str, pod: Pod = NEXT) -> Reservation:
    """Return a Reservation whose place a pod has."""
    taken_by = PodReference(pod.namespace, pod.name, pod.uid)
    other = available(Reservation(name=name, uid=name))
    return replace(other, phase=ReservationPhase.SUCCEEDED, taken_by=taken_by)


async def test_a_job_whose_replacement_took_another_place_ends_and_gives_its_own_up() -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await anyio.sleep(5)
        process.reserve(taken_by_next("other"))
        process.fed.deliver(replace(NEXT, node="n3", created_s=int(anyio.current_time())))
        await anyio.sleep(5)

        done = server.jobs["web-0"].status
        assert (done.phase, done.step) == (Phase.SUCCEEDED, "Complete")
        assert done.message.endswith('"default/web-next" replaces it in Reservation "other"')
        assert KEPT not in server.reservations


async def test_a_place_is_kept_for_the_pod_whose_own_place_the_replacement_took() -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await process.make(job_on(WEB[1]))
        await anyio.sleep(5)
        assert set(server.evictions) == {"web-0", "web-1"}
        other = server.reservations["job-web-1"]
        first = replace(NEXT, node=other.node, created_s=int(anyio.current_time()))
        process.reserve(replace(taken_by_next(other.name), node=other.node))
        process.fed.deliver(first)
        await anyio.sleep(20)
        assert server.jobs["web-0"].phase is Phase.RUNNING, "the pod after web-1 may take its place"
        assert KEPT in server.reservations

        second = replace(first, name="web-last", uid="web-last", node="n2", status=READY)
        process.fed.deliver(replace(second, created_s=int(anyio.current_time())))
        await anyio.sleep(20)
        assert server.jobs["web-0"].has_ended
        assert KEPT not in server.reservations


@pytest.mark.parametrize(("status", "ends"), [(READY, True), (PodStatus(), False)])
async def test_a_replacement_beside_its_place_on_the_same_node_ends_the_job_once_it_is_ready(
    status: PodStatus, *, ends: bool
) -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await anyio.sleep(5)
        kept = server.reservations[KEPT]
        came = replace(NEXT, node=kept.node, status=status, created_s=int(anyio.current_time()))
        process.fed.deliver(came)
        await anyio.sleep(20)
        assert ending(server) == (Phase.RUNNING, "WaitForPodBindReservation")
        await anyio.sleep(20)

        assert (server.jobs["web-0"].phase is Phase.SUCCEEDED) is ends
        assert (KEPT not in server.reservations) is ends


async def test_a_pod_that_waits_for_a_node_gets_the_place_itself_and_none_is_evicted() -> None:
    waiting = replace(WEB[0], node="")
    server = served(waiting, *WEB[1:])
    server.has_room = False
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(waiting))
        process.reserve(replace(server.reservations[KEPT], is_for_pod=True))
        await anyio.sleep(1)
        assert conditions(server)[-1] == ("PodScheduled", "False", "Unschedulable")
        process.reserve(available(server.reservations[KEPT]))
        await anyio.sleep(1)
        assert server.jobs["web-0"].phase is Phase.RUNNING
        process.fed.deliver(replace(waiting, node="n3"))
        await anyio.sleep(1)

        assert ending(server) == (Phase.SUCCEEDED, "")
        assert server.jobs["web-0"].status.message == 'Assign Pod "default/web-0" to node "n3"'
        assert server.evictions == []


@pytest.mark.parametrize(
    ("taker", "ended"),
    [("web-0", (Phase.SUCCEEDED, "")), ("web-1", (Phase.FAILED, "ForbiddenMigratePod"))],
)
async def test_the_reservation_may_be_seen_to_have_served_before_its_pod_is_seen_on_the_node(
    taker: str, ended: tuple[Phase, str]
) -> None:
    waiting = replace(WEB[0], node="")
    server = served(waiting, *WEB[1:])
    server.has_room = False
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(waiting))
        kept = replace(available(server.reservations[KEPT]), is_for_pod=True)
        taken_by = PodReference("default", taker, taker)
        process.reserve(replace(kept, phase=ReservationPhase.SUCCEEDED, taken_by=taken_by))
        await anyio.sleep(1)
        process.fed.deliver(replace(waiting, node="n3"))
        await anyio.sleep(1)

        assert ending(server) == ended
        assert server.evictions == []


@pytest.mark.parametrize(
    ("taker", "has_node", "ended"),
    [
        ("", False, (Phase.FAILED, "ReservationExpired")),
        ("", True, (Phase.SUCCEEDED, "")),
        ("web-0", False, (Phase.SUCCEEDED, "")),
    ],
)
async def test_a_reservation_that_is_over_fails_only_the_job_of_a_pod_that_has_no_node(
    taker: str, ended: tuple[Phase, str], *, has_node: bool
) -> None:
    waiting = replace(WEB[0], node="")
    server = served(waiting, *WEB[1:])
    server.has_room = False
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(waiting))
        kept = replace(server.reservations[KEPT], is_for_pod=True)
        taken_by = PodReference("default", taker, taker) if taker else None
        over = replace(kept, phase=ReservationPhase.FAILED, is_expired=True, taken_by=taken_by)
        placed = replace(waiting, node="n3")
        process.fed.deliver(placed if has_node else waiting)
        process.reserve(over)
        await anyio.sleep(1)
        process.fed.deliver(placed)
        await anyio.sleep(1)

        assert ending(server) == ended
        assert server.evictions == []


@pytest.mark.parametrize(
    ("placeholder", "ended"),
    [(None, (Phase.FAILED, "ForbiddenMigratePod")), (PlaceholderSettings(), (Phase.SUCCEEDED, ""))],
)
async def test_pods_of_other_schedulers_stay_or_have_a_placeholder(
    placeholder: PlaceholderSettings | None, ended: tuple[Phase, str]
) -> None:
    other = replace(WEB[0], spec=PodSpec())
    server = served(other, *WEB[1:])
    settings = RESERVING.model_copy(update={"placeholder": placeholder})
    async with MigratingController(server, settings).running(*NODES) as process:
        await process.make(job_on(other))
        await anyio.sleep(45)

        assert ending(server) == ended
        assert server.reservations == {}


async def test_no_job_is_made_of_a_finding_for_whose_pod_no_place_can_be_kept() -> None:
    koordinated = replace(WEB[0], node="n1")
    other = replace(koordinated, name="other", uid="other", spec=PodSpec())
    server = served(koordinated, other, *WEB[1:])
    tainted = [node("n1", "gpu:NoSchedule"), node("n2"), node("n3")]
    plugin = NodeTaintsPlugin(NodeTaintsArgs())
    async with MigratingController(server, RESERVING, plugin).running(*tainted) as process:
        await anyio.sleep(5)

        assert {job.pod.name for job in server.jobs.values()} >= {"web-0"}
        assert "other" not in {job.pod.name for job in server.jobs.values()}
        reasons = {
            getattr(decision, "reason", "")
            for _, decision in process.fed.intent_store.decisions
            if decision.finding.pod.name == "other"
        }
        assert reasons == {"NoPlaceKept"}


def test_the_settings_need_something_that_keeps_a_place() -> None:
    with pytest.raises(ValueError, match="schedulerNames"):
        MigrationJobSettings.model_validate({"defaultJobMode": "ReservationFirst"})


async def test_what_is_made_and_deleted_for_a_job_and_its_end_are_recorded() -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0], ttl_s=60.0))
        await anyio.sleep(5)
        await process.bind(KEPT, NEXT)
        await anyio.sleep(1)

    steps = [(step.action, step.object.kind, step.result) for step in process.steps]
    assert steps == [
        ("create", "Reservation", "done"),
        ("end", "PodMigrationJob", "Succeeded"),
    ]
    assert {(step.job, step.pod.name) for step in process.steps} == {("web-0", "web-0")}
    assert process.steps[0].object.name == KEPT


async def test_a_place_that_cannot_be_kept_is_recorded_once_for_each_error() -> None:
    server = served()
    server.on_request = Refusing("CreateReservation", "CreatePlaceholder")
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0], ttl_s=600.0))
        await anyio.sleep(120)

    failed = [step for step in process.steps if step.result == "failed"]
    assert [(step.action, step.object.kind) for step in failed] == [("create", "Reservation")]
    assert failed[0].message
