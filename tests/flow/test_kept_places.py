"""Whether the place that a placeholder keeps serves the replacement, whatever happens meanwhile."""

from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from reactive_desched.migration.answers import RETRY_S
from reactive_desched.migration.cleanup import ORPHAN_GRACE_S
from reactive_desched.model.labels import LabelSelector, Requirement
from reactive_desched.model.migration_jobs import Mode, Phase, PodReference
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
    PodStatus,
    TopologySpreadConstraint,
)
from reactive_desched.model.outcomes import PdbRefused
from reactive_desched.model.reservations import Reservation, ReservationPhase
from reactive_desched.policy.settings.migration import MigrationJobSettings, PlaceholderSettings
from reactive_desched.testing.builders import affinity, node, pod, with_spec
from tests.support.golden import Golden
from tests.support.migrating import JobServer, MigratingController, available, job_on

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NODES = [node("n1"), node("n2"), node("n3")]
WEB = [pod(f"web-{number}", on=f"n{number % 2 + 1}") for number in range(20)]
RESERVING = MigrationJobSettings(
    default_job_mode=Mode.RESERVATION_FIRST,
    placeholder=PlaceholderSettings(),
    scheduler_names=("koord-scheduler",),
    max_migrating_per_workload=9,
    max_unavailable_per_workload=9,
    skip_check_expected_replicas=True,
)
PLACE = "placeholder-job-web-0"


def served(*pods: Pod) -> JobServer:
    """Return a server that has these pods, or the twenty of web."""
    server = JobServer()
    server.pods = {each.uid: each for each in pods or WEB}
    return server


async def held_up(process: MigratingController, **job: Any) -> None:  # any field of a job
    """Make a job whose place is kept, and whose eviction a PodDisruptionBudget refuses."""
    process.evictor.script["web-0"] = [PdbRefused("no disruptions allowed")]
    await process.make(job_on(WEB[0], **job))
    await anyio.sleep(1)
    assert process.server.jobs["web-0"].status.node == "n3"
    assert len(process.evictor.requests) == 1


def reasons(process: MigratingController) -> set[str]:
    """Return the reasons for which pods were not evicted."""
    decisions = (decision for _, decision in process.fed.intent_store.decisions)
    return {getattr(decision, "reason", "") for decision in decisions}


async def test_no_pod_is_evicted_whose_placeholder_is_gone_while_no_status_is_written() -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await held_up(process)
        server.is_down = True
        process.delete_pod(server.pods[PLACE])
        await anyio.sleep(60)
        assert server.jobs["web-0"].phase is Phase.RUNNING
        assert "PlaceLost" in reasons(process)
        server.is_down = False
        await anyio.sleep(2 * RETRY_S)

        assert server.jobs["web-0"].status.reason == "MissingReservation"
        assert server.evictions == []


async def test_no_pod_is_evicted_whose_reservation_is_gone_while_no_status_is_written() -> None:
    web = with_spec(WEB[0], scheduler_name="koord-scheduler")
    server = served(web, *WEB[1:])
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await held_up(process)
        server.is_down = True
        [kept] = server.reservations.values()
        process.reserve(replace(kept, phase=ReservationPhase.SUCCEEDED))
        await anyio.sleep(60)

        assert "PlaceLost" in reasons(process)
        assert server.evictions == []


@pytest.mark.parametrize("scheduler", ["default-scheduler", "koord-scheduler"])
@pytest.mark.parametrize("spoiled", ["gpu:NoSchedule", "cordon", "not ready", "being deleted"])
async def test_a_pod_waits_while_the_node_of_its_place_would_not_take_the_replacement(
    spoiled: str, scheduler: str
) -> None:
    server = served(with_spec(WEB[0], scheduler_name=scheduler), *WEB[1:])
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await held_up(process)
        changed = {
            "cordon": replace(NODES[2], unschedulable=True),
            "not ready": node("n3", ready="False"),
            "being deleted": replace(NODES[2], is_terminating=True),
        }
        process.fed.deliver(changed.get(spoiled) or node("n3", spoiled))
        await anyio.sleep(60)
        assert server.evictions == []
        assert server.jobs["web-0"].status.reason == "PlaceDoesNotFit"
        process.fed.deliver(NODES[2])
        await anyio.sleep(1)

        assert server.evictions == ["web-0"]


async def test_another_place_is_found_where_the_node_of_the_first_has_not_fitted_for_a_minute() -> (
    None
):
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await held_up(process)
        process.fed.deliver(replace(NODES[2], unschedulable=True))
        process.fed.deliver(node("n4"))
        server.free_node = "n4"
        await anyio.sleep(50)
        assert server.placeholders == [PLACE]
        await anyio.sleep(20)

        assert server.placeholders == [PLACE, PLACE]
        assert server.jobs["web-0"].status.node == "n4"
        assert server.evictions == ["web-0"]
        ways = [(phase, reason) for _, phase, reason in server.history]
        assert (Phase.RUNNING, "PlaceDoesNotFit") in ways
        assert Phase.FAILED not in {phase for phase, _ in ways}
        made = [(step.action, step.object.name, step.result) for step in process.steps]
        assert made == [
            ("create", PLACE, "done"),
            ("delete", PLACE, "done"),
            ("create", PLACE, "done"),
            ("delete", PLACE, "done"),
            ("end", "web-0", "Succeeded"),
        ]
        assert process.fed.intent_store.disruptions == []


async def test_no_pod_is_evicted_while_its_placeholder_is_being_deleted_for_another_place() -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await held_up(process)
        process.fed.deliver(replace(NODES[2], unschedulable=True))

        async def hold_up_deletion(request: str) -> None:
            if request == "before DeletePlaceholder" and len(server.placeholders) == 1:
                process.fed.deliver(NODES[2])
                await anyio.sleep(4)
                assert server.evictions == []

        server.on_request = hold_up_deletion
        await anyio.sleep(80)

        assert server.placeholders == [PLACE, PLACE]
        assert server.evictions == ["web-0"]


@pytest.mark.parametrize("scheduler", ["default-scheduler", "koord-scheduler"])
async def test_the_room_that_is_kept_counts_as_free_for_its_pod(scheduler: str) -> None:
    room = {"cpu": "1"}
    nodes = [node(name, allocatable={**room, "pods": "9"}) for name in ("n1", "n2", "n3")]
    spec = with_spec(pod("x", requests=room), scheduler_name=scheduler).spec
    web = [replace(each, spec=spec) for each in WEB[:2]]
    server = served(*web)
    async with MigratingController(server, RESERVING).running(*nodes) as process:
        await process.make(job_on(web[0]))
        await anyio.sleep(1)

        assert server.evictions == ["web-0"]


@pytest.mark.parametrize("named", [PodReference("default", "web-1"), PodReference("default")])
async def test_a_job_that_names_another_pod_in_the_middle_evicts_none(named: PodReference) -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await held_up(process)
        server.is_down = True  # so that the job cannot fail yet
        process.edit("web-0", pod=named)
        await anyio.sleep(60)
        assert server.evictions == []
        server.is_down = False
        await anyio.sleep(2 * RETRY_S)

        assert server.jobs["web-0"].status.reason == "InvalidPodRef"
        assert PLACE not in server.pods


CLAIM = PersistentVolumeClaim("default", "data", volume_name="disk")
DISK = PersistentVolume("disk")


async def test_a_pod_with_a_volume_is_moved_once_its_claim_is_bound() -> None:
    web = replace(WEB[0], pvc_names=("data",))
    server = served(web, *WEB[1:])
    async with MigratingController(server, RESERVING).running(*NODES, CLAIM, DISK) as process:
        await process.make(job_on(web))
        await anyio.sleep(1)

        assert server.evictions == ["web-0"]


async def test_a_pod_with_a_volume_waits_while_the_volume_cannot_be_reached_from_its_place() -> (
    None
):
    web = replace(WEB[0], pvc_names=("data",))
    server = served(web, *WEB[1:])
    async with MigratingController(server, RESERVING).running(*NODES, CLAIM, DISK) as process:
        process.evictor.script["web-0"] = [PdbRefused("no disruptions allowed")]
        await process.make(job_on(web))
        await anyio.sleep(1)
        zone = affinity("zone in (a)").required
        process.fed.deliver(replace(DISK, required_node_affinity=zone))
        await anyio.sleep(60)

        assert server.evictions == []
        assert server.jobs["web-0"].status.reason == "PlaceDoesNotFit"


async def test_the_job_says_that_its_placeholder_finds_no_node_and_goes_on_when_it_does(
    golden: Golden,
) -> None:
    server = served()
    server.has_room = False
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        full = PodStatus(conditions=(PodCondition("PodScheduled", "False", "Unschedulable"),))
        process.fed.deliver(replace(server.pods[PLACE], status=full))
        await anyio.sleep(1)
        waiting = server.jobs["web-0"].status
        assert (waiting.phase, waiting.reason) == (Phase.RUNNING, "Unschedulable")
        assert waiting.message.startswith(golden(place=PLACE))
        server.has_room = True
        await anyio.sleep(2)

        assert server.evictions == ["web-0"]


async def test_a_placeholder_avoids_the_zones_that_are_closed_to_the_replacement() -> None:
    even = TopologySpreadConstraint(1, ZONE_LABEL, label_selector=LabelSelector({"app": "web"}))
    web = [
        replace(
            with_spec(each, topology_spread_constraints=(even,)),
            labels={"app": "web"},
        )
        for each in WEB[:4]
    ]
    nodes = [node("n1", zone="a"), node("n2", zone="b"), node("n3", zone="a")]
    server = served(*web)
    async with MigratingController(server, RESERVING).running(*nodes) as process:
        await process.make(job_on(web[0]))
        await anyio.sleep(1)

        [kept] = process.kept_places
        [[term]] = [each.node_selector_terms for each in kept.selectors]
        assert term.match_expressions == (Requirement(ZONE_LABEL, "NotIn", ("b",)),)
        assert kept.spread_keys == (HOSTNAME_LABEL, ZONE_LABEL)
        assert server.evictions == ["web-0"]


async def test_a_place_is_kept_on_no_node_that_is_being_deleted() -> None:
    server = served()
    going = replace(node("n4"), is_terminating=True)
    async with MigratingController(server, RESERVING).running(*NODES, going) as process:
        await process.make(job_on(WEB[0]))
        await anyio.sleep(1)

        [kept] = process.kept_places
        assert kept.avoided == ("n4",)
        assert server.evictions == ["web-0"]


def successor(of: Pod, name: str) -> Pod:
    no_node = PodCondition("PodScheduled", "False", "Unschedulable")
    status = PodStatus("Pending", conditions=(no_node,))
    return replace(of, name=name, uid=name, node="", status=status)


async def test_a_pod_is_promised_one_place_though_its_nomination_is_not_seen_yet() -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        process.fed.deliver(server.put(job_on(WEB[0])))
        process.fed.deliver(server.put(job_on(WEB[1])))
        await anyio.sleep(1)
        assert sorted(server.evictions) == ["web-0", "web-1"]
        process.fed.deliver(successor(WEB[0], "first"))
        await anyio.sleep(0.5)
        left = {PLACE, "placeholder-job-web-1"} & server.pods.keys()
        assert len(left) == 1, "the other place waits for a pod of its own"
        process.fed.deliver(successor(WEB[1], "second"))
        await anyio.sleep(0.5)

        assert not {PLACE, "placeholder-job-web-1"} & server.pods.keys()


async def test_a_placeholder_is_deleted_whose_job_is_gone() -> None:
    server = served()
    server.has_room = False
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        _orphan(server, process)
        await anyio.sleep(ORPHAN_GRACE_S - 5)
        assert PLACE in server.pods, "the garbage collector may delete it"
        await anyio.sleep(10)

        assert PLACE not in server.pods


async def test_an_orphan_of_an_earlier_process_is_deleted_after_the_start() -> None:
    server = served()
    orphan = _unowned(pod(PLACE, labels={"reactive-desched/placeholder-of": "job-web-0"}))
    server.pods[orphan.uid] = orphan
    async with MigratingController(server, RESERVING).running(*NODES):
        await anyio.sleep(ORPHAN_GRACE_S + 10)

        assert server.pods.keys() == {each.uid for each in WEB}


def _orphan(server: JobServer, process: MigratingController) -> None:
    """Delete a job as `kubectl delete --cascade=orphan` does: what it owns stays."""
    kept = _unowned(server.pods[PLACE])
    server.pods[PLACE] = kept
    process.fed.deliver(kept)
    process.delete_job("web-0")


def _unowned(kept: Pod) -> Pod:
    owners: tuple[OwnerReference, ...] = ()
    return replace(kept, owners=owners)


async def test_a_reservation_whose_node_has_not_fitted_for_a_minute_is_replaced() -> None:
    web = with_spec(WEB[0], scheduler_name="koord-scheduler")
    server = served(web, *WEB[1:])
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await held_up(process)
        process.fed.deliver(replace(NODES[2], unschedulable=True))
        process.fed.deliver(node("n4"))
        server.free_node = "n4"
        await anyio.sleep(50)
        [kept] = server.reservations.values()
        assert kept.node == "n3"
        await anyio.sleep(20)

        [kept] = server.reservations.values()
        assert kept.node == server.jobs["web-0"].status.node == "n4"
        assert server.evictions == ["web-0"]
        ways = [(phase, reason) for _, phase, reason in server.history]
        assert (Phase.RUNNING, "PlaceDoesNotFit") in ways
        assert Phase.FAILED not in {phase for phase, _ in ways}
        made = [(step.action, step.object.name) for step in process.steps]
        assert made == [("create", kept.name), ("delete", kept.name), ("create", kept.name)]


async def test_the_reservation_of_a_person_is_not_deleted_where_its_node_fits_no_more() -> None:
    web = with_spec(WEB[0], scheduler_name="koord-scheduler")
    server = served(web, *WEB[1:])
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        theirs = Reservation(name="theirs", uid="theirs", has_order=True)
        process.reserve(available(theirs))
        await held_up(process, reservation="theirs")
        process.fed.deliver(replace(NODES[2], unschedulable=True))
        await anyio.sleep(120)

        assert list(server.reservations) == ["theirs"]
        assert server.jobs["web-0"].status.reason == "PlaceDoesNotFit"
        assert server.evictions == []
