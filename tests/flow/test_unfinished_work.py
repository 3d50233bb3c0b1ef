"""The guards of work that an eviction would end: which pods they hold, and what lets these go."""

import dataclasses
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.fit.unschedulable import RETRY_AFTER_S
from reactive_desched.gate.guards import Guards
from reactive_desched.gate.workloads import Workloads
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.devices import (
    Device,
    DeviceAllocation,
    DeviceAlternatives,
    DeviceClass,
    DeviceId,
    DeviceRequest,
    NodeScope,
    PoolName,
    ResourceClaim,
    ResourceSlice,
)
from reactive_desched.model.eviction_options import EvictionOptions
from reactive_desched.model.findings import Finding
from reactive_desched.model.job_tries import FailureRule, JobTries
from reactive_desched.model.objects import Annotations, ClusterObject, Job, OwnerReference, Pod
from reactive_desched.model.outcomes import Denied
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES
from reactive_desched.model.wakes import WakeOnDevices
from reactive_desched.plugins.failed_pods import FailedPodsArgs, FailedPodsPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.resources import JOBS
from reactive_desched.testing.builders import node, pod, pod_status, with_spec
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio

HOUR_S = 3600
TAINTED, FREE = node("n1", "repair:NoSchedule"), node("n2")
THESE = {
    GuardName.RESOURCE_CLAIMS,
    GuardName.UNREPLACED_PODS,
    GuardName.JOB_TRIES,
    GuardName.GANGS,
}
LET_GO = Annotations(evict="true")
IGNORES = FailureRule("Ignore", conditions=(("DisruptionTarget", "True"),))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def settings(**fields: object) -> GuardSettings:
    """Return settings with these four guards alone."""
    disabled = tuple(set(GuardName) - THESE)
    return GuardSettings.model_validate({"disabled": disabled, **fields})


def controller(guards: GuardSettings) -> FakeEdgesController:
    plugins = (
        NodeTaintsPlugin(NodeTaintsArgs()),
        FailedPodsPlugin(FailedPodsArgs(min_pod_lifetime_seconds=0)),
    )
    return FakeEdgesController(*plugins, guards=guards)


def owned(name: str, kind: str, version: str, restarts: str = "Never", **fields: Any) -> Pod:
    """Build a pod of a controller of any kind, whose name and uid are `owner`."""
    owner = OwnerReference(kind, "owner", "owner", controller=True, api_version=version)
    made: Pod = replace(pod(name, on="n1"), owners=(owner,), **fields)
    return with_spec(made, restart_policy=restarts)


def of_job(name: str = "report-1", **fields: Any) -> Pod:
    return owned(name, "Job", "batch/v1", **fields)


def job(tries: JobTries | None) -> Job:
    return Job("owner", tries=tries)


def check(finding_on: Pod, *others: ClusterObject, **fields: object) -> str:
    """Return the code of the reason that holds a pod; empty for none."""
    decision = guards_over(finding_on, *others, **fields).check(
        Finding(finding_on, "Any", "why"), 0.0
    )
    return "" if decision is None else decision.reason


def guards_over(*objects: ClusterObject, **fields: object) -> Guards:
    state = ClusterState()
    for each in objects:
        state.upsert(each)
    view = ClusterView(state, lambda: 10_000.0)
    return Guards(view, settings(**fields), Workloads(view, EvictionLedger(view), lambda: 0.0))


async def evicted(*objects: ClusterObject, then: ClusterObject | None = None) -> list[str]:
    """Return which pods go within an hour, and an hour after another object was seen."""
    async with controller(settings()).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, *objects)
        await anyio.sleep(HOUR_S)
        if then is not None:
            assert flow.evicted_names == []
            flow.deliver(then)
            await anyio.sleep(HOUR_S)
        return flow.evicted_names


async def test_the_last_try_of_a_job_is_held_until_evictions_cost_none() -> None:
    ignored = job(JobTries(0, rules=(IGNORES,)))

    assert await evicted(of_job(), job(JobTries(0))) == []
    assert await evicted(of_job(), job(JobTries(2, failed=2))) == []
    assert await evicted(of_job(), job(JobTries(2, failed=1))) == ["report-1"]
    assert await evicted(of_job(), job(JobTries(0)), then=ignored) == ["report-1"]


async def test_a_job_that_is_over_keeps_no_pod() -> None:
    over = job(JobTries(0, is_over=True))

    assert await evicted(of_job(), over) == ["report-1"]
    assert await evicted(of_job(), job(JobTries(0)), then=over) == ["report-1"]


async def test_of_several_pods_so_many_go_as_the_job_can_do_without() -> None:
    pods = [of_job(f"report-{number}") for number in range(4)]
    async with controller(settings()).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, job(JobTries(2)), *pods)
        await anyio.sleep(HOUR_S)
        first = list(flow.evicted_names)
        assert len(set(first)) == 2

        for name in first:
            flow.terminate(of_job(name))
        flow.deliver(job(JobTries(2, failed=2)))
        await anyio.sleep(HOUR_S)
        assert flow.evicted_names == first


async def test_a_pod_that_terminates_counts_as_a_failure_until_it_is_gone() -> None:
    leaving = of_job("report-0", deletion_s=1)
    async with controller(settings()).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, job(JobTries(1)), leaving, of_job())
        await anyio.sleep(HOUR_S)
        assert flow.evicted_names == []

        flow.delete(leaving)
        await anyio.sleep(HOUR_S)
        assert flow.evicted_names == ["report-1"]


async def test_a_pod_whose_eviction_failed_no_longer_counts_as_a_failure() -> None:
    async with controller(settings()).running() as flow:
        for name in ("report-0", "report-1"):
            flow.evictor.script[name] = [Denied(403, "no")]
        flow.sync_and_resume(TAINTED, FREE, job(JobTries(1)), of_job("report-0"), of_job())
        await anyio.sleep(30)

    assert {name for name, _ in flow.evictor.calls[:2]} == {"report-0", "report-1"}


async def test_a_reload_says_which_plugins_balance() -> None:
    async with controller(settings()).running() as flow:
        flow.sync_and_resume(FREE, job(JobTries(6)), of_job())
        policy = replace(
            flow.config.policy,
            profiles=(
                dataclasses.replace(
                    flow.config.policy.profiles[0], balance=(NodeTaintsPlugin.name,)
                ),
            ),
        )
        flow.reconfigure(replace(flow.config, policy=policy))
        flow.deliver(TAINTED)
        await anyio.sleep(HOUR_S)

    assert flow.evicted_names == []


@pytest.mark.parametrize("known", [[], [job(None)]], ids=["not there", "only its metadata"])
def test_a_pod_of_a_job_that_was_not_read_is_held(known: list[ClusterObject]) -> None:
    assert check(of_job(), *known) == "JobNotKnown"


def test_the_message_names_the_right_that_is_missing() -> None:
    state = ClusterState()
    state.set_readable(JOBS, readable=False)
    view = ClusterView(state, lambda: 0.0)
    guards = Guards(view, settings(), Workloads(view, EvictionLedger(view), lambda: 0.0))

    decision = guards.check(Finding(of_job(), "Any", "why"), 0.0)

    assert decision is not None
    assert "{apiGroups: [batch], resources: [jobs], verbs: [list, watch]}" in decision.message


def test_a_job_that_makes_no_new_pod_keeps_those_it_has() -> None:
    assert check(of_job(), job(JobTries(makes_no_pod="it is suspended"))) == "JobMakesNoPod"


@pytest.mark.parametrize(
    ("started_s", "deadline_s", "reason"),
    [
        (9_000, 11_001, ""),
        (9_000, 10_999, "JobDeadlineNear"),
        (9_000, 9_500, "JobDeadlineNear"),
        (None, 10_001, ""),
    ],
)
def test_a_deadline_that_leaves_a_new_pod_less_time_than_the_pod_has_run_holds_it(
    started_s: int | None, deadline_s: int, reason: str
) -> None:
    running = of_job(start_delay_s=started_s)

    assert check(running, job(JobTries(6, deadline_s=deadline_s))) == reason


@pytest.mark.parametrize(
    ("failed", "wanted", "reason"),
    [(0, 0, ""), (6, 0, ""), (5, 1, ""), (6, 1, "LastJobTry"), (0, 7, "LastJobTry"), (0, 6, "")],
)
def test_a_setting_says_how_many_tries_are_to_be_left(
    failed: int, wanted: int, reason: str
) -> None:
    tries = JobTries(6, failed=failed)

    assert check(of_job(), job(tries), minJobTriesLeft=wanted) == reason


@pytest.mark.parametrize(
    ("tries", "wanted", "reason"),
    [
        (JobTries(6), 1, "JobTryForBalance"),
        (JobTries(0), 1, "LastJobTry"),
        (JobTries(6, rules=(IGNORES,)), 1, ""),
        (JobTries(6, is_over=True), 1, ""),
        (JobTries(6), 0, ""),
    ],
)
def test_a_plugin_that_balances_costs_no_job_a_try(
    tries: JobTries, wanted: int, reason: str
) -> None:
    state = ClusterState()
    state.upsert(job(tries))
    view = ClusterView(state, lambda: 0.0)
    workloads = Workloads(view, EvictionLedger(view), lambda: 0.0)
    guards = Guards(view, settings(minJobTriesLeft=wanted), workloads, frozenset({"Balancing"}))

    decision = guards.check(Finding(of_job(), "Balancing", "why"), 0.0)

    assert ("" if decision is None else decision.reason) == reason
    if tries == JobTries(6):
        assert guards.check(Finding(of_job(), "Any", "why"), 0.0) is None


def test_a_job_whose_pod_would_be_deleted_and_not_evicted_counts_it_although_it_ignores_disruptions() -> (  # noqa: E501
    None
):
    guards = guards_over(of_job(), job(JobTries(0, rules=(IGNORES,))))
    deleting = EvictionOptions("Delete")

    assert guards.check(Finding(of_job(), "Any", "why"), 0.0) is None
    decision = guards.check(Finding(of_job(), "Any", "why", options=deleting), 0.0)
    assert decision is not None
    assert decision.reason == "LastJobTry"


@pytest.mark.parametrize("restarts", ["Never", "OnFailure"])
@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("TaskRun", "tekton.dev/v1"),
        ("Workflow", "argoproj.io/v1alpha1"),
        ("Job", "batch.volcano.sh/v1alpha1"),
        ("Pod", "v1"),
        ("Deployment", "apps/v1"),
    ],
)
def test_a_pod_that_is_run_once_by_another_owner_than_a_job_is_held(
    kind: str, version: str, restarts: str
) -> None:
    assert check(owned("step", kind, version, restarts)) == "OwnerMakesNoPod"


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("ReplicaSet", "apps/v1"),
        ("ReplicationController", "v1"),
        ("CloneSet", "apps.kruise.io/v1alpha1"),
        ("StrimziPodSet", "core.strimzi.io/v1beta2"),
    ],
)
def test_a_pod_that_is_restarted_without_end_is_let_go_whatever_owns_it(
    kind: str, version: str
) -> None:
    assert check(owned("web", kind, version, "Always")) == ""


def test_settings_name_the_owners_that_replace_pods_and_those_that_do_not() -> None:
    step = owned("step", "TaskRun", "tekton.dev/v1")
    game = owned("game", "GameServer", "agones.dev/v1", "Always")
    web = owned("web", "ReplicaSet", "apps/v1", "Always")
    claim = owned("web", "Plain", "storage.k8s.io/v1", "Always")

    for name in ("TaskRun", "TaskRun.tekton.dev"):
        assert check(step, replacingOwners=[name]) == ""
    assert check(step, replacingOwners=["TaskRun.example.com"]) == "OwnerMakesNoPod"
    assert check(game, nonReplacingOwners=["GameServer"]) == "OwnerMakesNoPod"
    assert check(game, nonReplacingOwners=["*"]) == "OwnerMakesNoPod"
    assert check(game, nonReplacingOwners=["*"], replacingOwners=["GameServer.agones.dev"]) == ""
    assert [check(each, nonReplacingOwners=["*"]) for each in (web, claim)] == ["", ""]


def test_a_pod_without_a_controller_is_held_also_one_that_has_another_owner() -> None:
    bare = pod("tool", on="n1", owner=None)
    helped = replace(bare, owners=(OwnerReference("ConfigMap", "c", "c", api_version="v1"),))

    assert check(bare) == check(helped) == "NothingReplacesPod"
    assert check(helped, replacingOwners=["ConfigMap"]) == ""


def test_a_pod_that_another_program_moves_is_not_lost() -> None:
    machine = owned("vm", "VirtualMachineInstance", "kubevirt.io/v1")
    moved = replace(machine, annotations=Annotations(request_evict_only=""))

    assert (check(machine), check(moved)) == ("OwnerMakesNoPod", "")


def member(name: str, **fields: Any) -> Pod:
    labels = {"scheduling.x-k8s.io/pod-group": "train"}
    made: Pod = replace(pod(name, on="n1"), labels=labels, **fields)
    return made


async def test_one_of_a_gang_is_held_until_no_other_pod_of_it_runs() -> None:
    other = member("b", node="n2")
    async with controller(settings()).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, member("a"), other)
        await anyio.sleep(HOUR_S)
        assert flow.evicted_names == []

        flow.terminate(other)
        await anyio.sleep(HOUR_S)
        assert flow.evicted_names == ["a"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(member("b", node=""), id="it waits for a node"),
        pytest.param(member("b", status=pod_status("Succeeded")), id="it has ended"),
        pytest.param(member("b", deletion_s=1), id="it terminates"),
        pytest.param(member("b", namespace="shop"), id="it is in another namespace"),
        pytest.param(pod("b", on="n1"), id="it is in no gang"),
    ],
)
def test_a_gang_of_which_no_other_pod_runs_holds_none(other: Pod) -> None:
    assert check(member("a"), other) == ""
    assert check(member("a"), member("c")) == "OneOfGang"


def test_the_message_says_how_many_pods_of_the_gang_run() -> None:
    guards = guards_over(member("a"), member("b"), member("c"))

    decision = guards.check(Finding(member("a"), "Any", "why"), 0.0)

    assert decision is not None
    assert "3" in decision.message


def test_a_pod_with_a_claim_is_held_also_where_the_scheduler_made_it() -> None:
    claims = with_spec(pod("llm", on="n1"), has_resource_claims=True)
    made = replace(pod("llm", on="n1"), status=replace(pod("x").status, has_extended_claim=True))

    assert check(claims) == check(made) == "ClaimsDevices"


def guards_that_fit(
    *things: ClusterObject, denied: tuple[str, ...] = (), watches_devices: bool = True
) -> Guards:
    state = ClusterState()
    for each in things:
        state.upsert(each)
    for resource in denied:
        state.set_readable(resource, readable=False)
    view = ClusterView(state, lambda: 10_000.0)
    profiles = replace(DEFAULT_PROFILES, watches_devices=watches_devices)
    fit = SchedulerNodeFit(view, lambda: 0.0, profiles)
    workloads = Workloads(view, EvictionLedger(view), lambda: 0.0)
    return Guards(view, settings(resourceClaims="fit"), workloads, node_fit=fit)


USES = with_spec(pod("llm", on="n1"), has_resource_claims=True, resource_claims=(("gpu", "gpu"),))
CLAIM = ResourceClaim("default", "gpu", users=(USES.uid,))
NEEDS = replace(CLAIM, requests=(DeviceAlternatives("r", (DeviceRequest("gpu"),)),))
TWO = (node("n1"), node("n2"), DeviceClass("gpu"))
ON_N2 = ResourceSlice("s", pool=PoolName("d", "n2"), scope=NodeScope("n2"), devices=(Device("g"),))


@pytest.mark.parametrize(
    ("things", "more", "reason"),
    [
        pytest.param([CLAIM], {}, "", id="a claim of nothing"),
        pytest.param([NEEDS], {}, "NoNodeForClaims", id="no device"),
        pytest.param([NEEDS, ON_N2], {}, "", id="a device on another node"),
        pytest.param([], {}, "NoNodeForClaims", id="no claim"),
        pytest.param(
            [NEEDS, ON_N2], {"denied": ("resourceslices",)}, "ClaimsDevices", id="not read"
        ),
        pytest.param(
            [NEEDS, ON_N2], {"watches_devices": False}, "ClaimsDevices", id="another scheduler"
        ),
    ],
)
def test_node_fit_decides_about_claims_where_the_settings_say_so(
    things: list[Any], more: dict[str, Any], reason: str
) -> None:
    guards = guards_that_fit(*TWO, USES, *things, **more)

    decision = guards.check(Finding(USES, "Any", "why"), 0.0)

    assert ("" if decision is None else decision.reason) == reason
    if reason == "NoNodeForClaims":
        assert decision is not None
        assert WakeOnDevices() in decision.wake_on
        assert decision.retry_at_s == RETRY_AFTER_S


async def test_a_pod_leaves_once_a_device_is_free_elsewhere() -> None:
    taken = ResourceClaim(
        "default", "x", allocation=DeviceAllocation((DeviceId("d", "n2", "g"),)), users=("x",)
    )
    freed = replace(taken, resource_version=2, allocation=None, users=())
    by_fit = settings(resourceClaims="fit")
    async with controller(by_fit).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, DeviceClass("gpu"), ON_N2, USES, NEEDS, taken)
        await anyio.sleep(60)
        assert flow.evicted_names == []
        flow.deliver(freed)
        await anyio.sleep(60)
        assert flow.evicted_names == ["llm"]


@pytest.mark.parametrize(
    ("things", "reason"),
    [
        pytest.param([ON_N2], "", id="a device on another node"),
        pytest.param([], "NoNodeForClaims", id="no device"),
    ],
)
def test_devices_for_extended_resources_are_sought_as_well(things: list[Any], reason: str) -> None:
    asking = pod("llm", on="n1", requests={"deviceclass.resource.kubernetes.io/gpu": "1"})
    made = replace(asking, status=replace(asking.status, has_extended_claim=True))

    decision = guards_that_fit(*TWO, made, *things).check(Finding(made, "Any", "why"), 0.0)

    assert ("" if decision is None else decision.reason) == reason


HELD = [
    pytest.param([of_job(), job(JobTries(0))], id="a Job's last try"),
    pytest.param([owned("step", "TaskRun", "tekton.dev/v1")], id="a pod that is run once"),
    pytest.param([pod("tool", on="n1", owner=None)], id="a bare pod"),
    pytest.param([member("a"), member("b")], id="one of a gang"),
    pytest.param([with_spec(pod("llm", on="n1"), has_resource_claims=True)], id="a claim"),
]


@pytest.mark.parametrize("objects", HELD)
def test_the_annotation_evict_lets_a_pod_go(objects: list[Any]) -> None:
    held, *others = objects

    assert check(held, *others) != ""
    assert check(replace(held, annotations=LET_GO), *others) == ""
    assert check(replace(held, annotations=Annotations(evict="false")), *others) != ""


@pytest.mark.parametrize("objects", HELD)
def test_a_pod_that_has_ended_loses_nothing(objects: list[Any]) -> None:
    held, *others = objects
    for phase in ("Failed", "Succeeded"):
        ended = replace(held, status=pod_status(phase))
        assert check(ended, *others) == ""


async def test_failed_pods_of_jobs_and_of_pipelines_are_cleared_away() -> None:
    failed = [
        of_job(status=pod_status("Failed")),
        owned("step", "TaskRun", "tekton.dev/v1", status=pod_status("Failed")),
    ]

    assert sorted(await evicted(*failed, job(JobTries(0)))) == ["report-1", "step"]


@pytest.mark.parametrize("objects", HELD)
def test_each_of_them_is_switched_off_by_name(objects: list[Any]) -> None:
    held, *others = objects
    reason = check(held, *others)
    [gate] = {
        guard
        for guard in THESE
        if check(held, *others, disabled=tuple(set(GuardName) - THESE | {guard})) != reason
    }

    assert check(held, *others, ignoredBy={"Any": [gate]}) == ""
    assert check(held, *others, ignoredBy={"Other": [gate]}) == reason
