"""Every guard of reactive mode: what it holds, and that its end evicts the pod without polling."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.gate.guards import GUARDS, Guards
from reactive_desched.gate.workloads import Workloads
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction, PastFollowUp
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    Annotations,
    ClusterObject,
    ContainerStatus,
    DaemonSet,
    Deployment,
    Job,
    Namespace,
    Node,
    OwnerReference,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    PodStatus,
    ReplicaSet,
    StatefulSet,
)
from reactive_desched.model.outcomes import Denied
from reactive_desched.plugins.failed_pods import FailedPodsArgs, FailedPodsPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.policy.settings.moves import MaxMovingSettings, MoveSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import READY, node, pod
from tests.support.configurations import PROMPT
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

HOUR_S = 3600
UNREADY = PodStatus("Running", conditions=(PodCondition("Ready", "False"),))
TAINTED, FREE = node("n1", "gpu:NoSchedule"), node("n2")
DEPLOYMENT = OwnerReference("Deployment", "web", "d-web", controller=True)
SET = ReplicaSet("owner-web", controller=DEPLOYMENT)
WEB = pod("web", on="n1")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def only(*names: GuardName, **settings: object) -> GuardSettings:
    """Return settings with these guards alone."""
    disabled = tuple(set(GuardName) - set(names))
    return GuardSettings.model_validate({"disabled": disabled, **settings})


def controller(
    guards: GuardSettings,
    rates: Mapping[str, TokenRate | None] | None = None,
    moves: MoveSettings | None = None,
) -> FakeEdgesController:
    plugins = (
        NodeTaintsPlugin(NodeTaintsArgs()),
        FailedPodsPlugin(FailedPodsArgs(min_pod_lifetime_seconds=0)),
    )
    evictor_args = DefaultEvictorArgs(evict_daemon_set_pods=True)
    return FakeEdgesController(
        *plugins, guards=guards, rates=rates, moves=moves, evictor_args=evictor_args
    )


async def held_until(
    guards: GuardSettings, held: list[ClusterObject], free: ClusterObject | None, reason: str
) -> None:
    """Check that the only pod is held for an hour, by one decision, until an object differs."""
    async with controller(guards).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, *held)
        await anyio.sleep(HOUR_S)
        assert flow.evicted_names == []
        decisions = [each.decision for each in flow.observer.evaluations]
        assert [getattr(each, "reason", "") for each in decisions] == [reason]

        if free is None:
            return
        flow.deliver(free)
        await anyio.sleep(1)

    assert len(flow.evicted_names) == 1


def evicted_at(flow: FakeEdgesController) -> float:
    """Return when the only pod was evicted."""
    [(_, at)] = flow.evictor.calls
    return at


def change(thing: Any, **fields: object) -> Any:  # any object
    return msgspec.structs.replace(thing, **fields)


def annotated(**annotations: Any) -> Pod:  # the value of any field
    changed: Pod = change(WEB, annotations=Annotations(**annotations))
    return changed


SPACE = Namespace("default")
CRON_JOB = OwnerReference("CronJob", "nightly", "c-nightly", controller=True)
IN_JOB = pod("web", on="n1", owner="Job/nightly")
IN_STATEFUL_SET = pod("web-0", on="n1", owner="StatefulSet/web")
STATEFUL_SET = StatefulSet("default", "web", "owner-web")
WEB_DEPLOYMENT = Deployment("default", "web", "d-web")
DO_NOT_EVICT = only(GuardName.DO_NOT_EVICT)


@pytest.mark.parametrize(
    ("around", "carrier"),
    [
        pytest.param([], WEB, id="a pod"),
        pytest.param([WEB, SET], WEB_DEPLOYMENT, id="its Deployment"),
        pytest.param([WEB], ReplicaSet("owner-web"), id="its ReplicaSet alone"),
        pytest.param([WEB], SET, id="its ReplicaSet, whose Deployment is not known"),
        pytest.param([IN_JOB], Job("owner-nightly", controller=CRON_JOB), id="its Job"),
        pytest.param([IN_STATEFUL_SET], STATEFUL_SET, id="its StatefulSet"),
        pytest.param(
            [pod("web", on="n1", owner="DaemonSet/web")],
            DaemonSet("default", "web", "owner-web"),
            id="its DaemonSet",
        ),
        pytest.param([WEB], SPACE, id="its namespace"),
    ],
)
async def test_a_pod_its_workload_or_its_namespace_may_ask_for_no_eviction_until_it_asks_no_more(
    around: list[ClusterObject], carrier: ClusterObject
) -> None:
    def asking(value: str | None) -> ClusterObject:
        if isinstance(carrier, Pod):
            return annotated(do_not_evict=value) if value is not None else WEB
        changed: ClusterObject = change(carrier, do_not_evict=value)
        return changed

    await held_until(DO_NOT_EVICT, [*around, asking("true")], asking(None), "DoNotEvict")
    await held_until(DO_NOT_EVICT, [*around, asking("true")], asking("false"), "DoNotEvict")


async def test_a_replica_sets_copy_of_an_annotation_that_its_deployment_lost_counts_not() -> None:
    copied = change(SET, do_not_evict="true")
    async with controller(DO_NOT_EVICT).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, WEB, copied, WEB_DEPLOYMENT)
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


@pytest.mark.parametrize(
    ("value", "created_s", "ends_s"),
    [
        pytest.param("1970-01-01T00:30:00Z", 0, 1800, id="a time"),
        pytest.param("1970-01-01T02:30:00+02:00", 0, 1800, id="a time of a zone"),
        pytest.param("40m", 600, 3000, id="a duration since the pod's creation"),
        pytest.param("1969-12-24T18:00:00Z", 0, 0, id="a time that is over"),
    ],
)
async def test_an_opt_out_ends_by_itself(value: str, created_s: int, ends_s: float) -> None:
    asks = pod("web", on="n1", do_not_evict=value, created=created_s)
    async with controller(DO_NOT_EVICT).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, asks)
        await anyio.sleep(HOUR_S)

    assert evicted_at(flow) == pytest.approx(ends_s, abs=0.1)
    assert len(flow.observer.decisions) == (2 if ends_s else 1)


NEAREST_FIRST = [
    pytest.param("false", "true", None, [], id="the pod may go in a workload that stays"),
    pytest.param("true", "false", None, ["DoNotEvict"], id="the pod stays"),
    pytest.param(None, "false", "true", [], id="the Deployment may go in a namespace that stays"),
    pytest.param(None, "no", "true", [], id="whatever the word for no"),
    pytest.param(None, "true", "false", ["DoNotEvict"], id="the Deployment stays"),
    pytest.param(None, "1970-01-01T00:00:00Z", "true", ["DoNotEvict"], id="a time that is over"),
    pytest.param("false", None, "true", [], id="the pod may go in a namespace that stays"),
    pytest.param("maybe", "false", None, ["DoNotEvictUnreadable"], id="what cannot be read"),
]


@pytest.mark.parametrize(("on_pod", "on_deployment", "on_namespace", "reasons"), NEAREST_FIRST)
async def test_the_nearest_of_pod_workload_and_namespace_that_says_something_decides(
    on_pod: str | None, on_deployment: str | None, on_namespace: str | None, reasons: list[str]
) -> None:
    carriers = [
        change(WEB, annotations=Annotations(do_not_evict=on_pod)),
        SET,
        change(WEB_DEPLOYMENT, do_not_evict=on_deployment),
        change(SPACE, do_not_evict=on_namespace),
    ]
    if reasons:
        await held_until(DO_NOT_EVICT, carriers, None, reasons[0])
    else:
        assert await evicted_with(*carriers) == ["web"]


async def test_a_pod_that_its_namespace_holds_goes_once_its_deployment_says_no() -> None:
    held = [WEB, SET, WEB_DEPLOYMENT, change(SPACE, do_not_evict="true")]
    released = change(WEB_DEPLOYMENT, do_not_evict="false")

    await held_until(DO_NOT_EVICT, held, released, "DoNotEvict")


async def test_a_node_that_keeps_its_pods_keeps_those_too_that_say_no() -> None:
    held: Node = change(TAINTED, do_not_evict="true")

    await held_until(DO_NOT_EVICT, [held, annotated(do_not_evict="false")], TAINTED, "DoNotEvict")


def test_why_names_the_annotation_that_overrides_another_one() -> None:
    state = ClusterState()
    for each in (WEB, SET, change(WEB_DEPLOYMENT, do_not_evict="false")):
        state.upsert(each)
    view = ClusterView(state, lambda: 0.0)
    guards = Guards(view, GuardSettings(), Workloads(view, EvictionLedger(view), lambda: 0.0))
    finding = Finding(WEB, "Any", "why")
    assert guards.remark(finding) == ""

    state.upsert(change(SPACE, do_not_evict="true"))

    remark = guards.remark(finding)
    assert "Deployment default/web" in remark
    assert "namespace default" in remark


@pytest.mark.parametrize("value", ["", "maybe", "2026-12-24", "2026-12-24T18:00:00", "3 days"])
async def test_an_opt_out_that_cannot_be_read_protects_and_says_so_once(value: str) -> None:
    asks = annotated(do_not_evict=value)

    await held_until(DO_NOT_EVICT, [asks], WEB, "DoNotEvictUnreadable")


async def test_a_pod_that_cluster_autoscaler_must_not_evict_is_held() -> None:
    guards = only(GuardName.SAFE_TO_EVICT)

    for no in ("false", "False", "no"):
        await held_until(guards, [annotated(safe_to_evict=no)], WEB, "NotSafeToEvict")
    both = annotated(safe_to_evict="false", evict="false")
    await held_until(guards, [both], annotated(evict="true"), "EvictFalse")


@pytest.mark.parametrize(
    "annotations",
    [
        {"safe_to_evict": "true"},
        {"safe_to_evict": ""},
        {"do_not_disrupt": "false"},
        {"do_not_disrupt": "no"},
        {"do_not_evict": "False"},
    ],
)
async def test_marks_that_allow_an_eviction_hold_nothing(annotations: dict[str, str]) -> None:
    assert await evicted_with(annotated(**annotations)) == ["web"]


@pytest.mark.parametrize(
    "annotations", [{"safe_to_evict": "false"}, {"do_not_disrupt": "true"}], ids=str
)
async def test_the_evict_annotation_overrides_the_marks_for_other_tools(
    annotations: dict[str, str],
) -> None:
    assert await evicted_with(annotated(evict="true", **annotations)) == ["web"]


async def evicted_with(*objects: ClusterObject) -> list[str]:
    async with controller(PROMPT).running() as flow:
        await anyio.sleep(100)
        flow.sync_and_resume(TAINTED, FREE, *objects)
        await anyio.sleep(1)
    return flow.evicted_names


async def test_a_pod_that_karpenter_must_not_disrupt_is_held() -> None:
    guards = only(GuardName.DO_NOT_DISRUPT)

    for yes in ("true", "True"):
        await held_until(guards, [annotated(do_not_disrupt=yes)], WEB, "DoNotDisrupt")


async def test_karpenters_mark_may_be_a_duration() -> None:
    async with controller(only(GuardName.DO_NOT_DISRUPT)).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, annotated(do_not_disrupt="30m"))
        await anyio.sleep(HOUR_S)

    assert evicted_at(flow) == pytest.approx(1800, abs=0.1)


async def test_a_node_that_karpenter_must_not_disrupt_keeps_its_pods() -> None:
    guards = only(GuardName.DO_NOT_DISRUPT)
    held: Node = change(TAINTED, do_not_disrupt="true")

    await held_until(guards, [held, WEB], TAINTED, "DoNotDisrupt")


async def test_a_node_with_our_annotation_keeps_its_pods_until_it_is_removed() -> None:
    held: Node = change(TAINTED, do_not_evict="true")

    await held_until(only(GuardName.DO_NOT_EVICT), [held, WEB], TAINTED, "DoNotEvict")


async def test_a_node_with_our_annotation_keeps_its_pods_until_a_time() -> None:
    held: Node = change(TAINTED, do_not_evict="1970-01-01T00:30:00Z")
    async with controller(only(GuardName.DO_NOT_EVICT)).running() as flow:
        flow.sync_and_resume(held, FREE, WEB)
        await anyio.sleep(HOUR_S)

    assert evicted_at(flow) == pytest.approx(1800, abs=0.1)


async def test_a_node_that_is_being_deleted_keeps_its_pods_for_what_deletes_it() -> None:
    deleted: Node = change(TAINTED, is_terminating=True)

    await held_until(only(GuardName.DRAINED_NODES), [deleted, WEB], None, "NodeDrainedByOthers")


async def test_a_pod_that_was_nominated_for_a_node_and_is_not_bound_is_held() -> None:
    state = ClusterState()
    view = ClusterView(state, lambda: 100.0)
    guards = Guards(view, GuardSettings(), Workloads(view, EvictionLedger(view), lambda: 0.0))
    waiting = pod("web", status=PodStatus("Pending", nominated_node="n1"))

    decision = guards.check(Finding(waiting, "Any", "why"), 0.0)

    assert decision is not None
    assert decision.reason == "PodNominated"
    bound = change(waiting, node="n1")
    assert guards.check(Finding(bound, "Any", "why"), 0.0) is None


@pytest.mark.parametrize(
    ("guards", "young", "reason", "at_s"),
    [
        pytest.param(
            only(GuardName.YOUNG_PODS),
            pod("web", on="n1", created=100),
            "PodTooYoung",
            110,
            id="created",
        ),
        pytest.param(
            only(GuardName.YOUNG_PODS, min_pod_age_s=60),
            change(pod("web", on="n1", created=1), start_delay_s=99),
            "PodTooYoung",
            160,
            id="started",
        ),
        pytest.param(
            only(GuardName.NEWLY_READY_PODS),
            pod("web", on="n1", changed={"Ready": 102}),
            "ReadyTooRecently",
            107,
            id="Ready",
        ),
    ],
)
async def test_a_pod_that_started_or_became_ready_a_moment_ago_is_evicted_a_moment_later(
    guards: GuardSettings, young: Pod, reason: str, at_s: float
) -> None:
    async with controller(guards).running() as flow:
        await anyio.sleep(103)
        flow.sync_and_resume(TAINTED, FREE, young)
        await anyio.sleep(HOUR_S)

    assert evicted_at(flow) == pytest.approx(at_s, abs=0.1)
    reasons = [getattr(each.decision, "reason", "") for each in flow.observer.evaluations]
    assert reasons == [reason, ""]


async def test_a_pod_that_has_ended_may_be_of_any_age_and_of_any_workload() -> None:
    ended = pod("web", on="n1", created=100, status=PodStatus("Failed"))
    rolling_out = change(WEB_DEPLOYMENT, rollout="half of it")
    async with controller(PROMPT.model_copy(update={"min_ended_time_s": 0})).running() as flow:
        await anyio.sleep(103)
        flow.sync_and_resume(node("n1"), FREE, ended, SET, rolling_out)
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


async def test_a_rollout_holds_the_pods_until_it_is_over() -> None:
    rolling_out = change(WEB_DEPLOYMENT, rollout="2 pods of an older template are left")

    await held_until(
        only(GuardName.ROLLOUTS), [WEB, SET, rolling_out], WEB_DEPLOYMENT, "RollingOut"
    )


def three(*, ready: bool) -> list[ClusterObject]:
    sibling = pod("c", on="n2", status=READY if ready else UNREADY)
    return [WEB, pod("b", on="n2"), sibling]


@pytest.mark.parametrize(
    ("lacking", "whole"),
    [
        pytest.param([*three(ready=False)], three(ready=True)[-1], id="one that is not Ready"),
        pytest.param(
            [*three(ready=True), SET, change(WEB_DEPLOYMENT, replicas=4)],
            change(WEB_DEPLOYMENT, replicas=3),
            id="fewer than the Deployment wants",
        ),
        pytest.param(
            [*three(ready=True), SET, change(WEB_DEPLOYMENT, replicas=4)],
            pod("d", on="n2"),
            id="until there is one more",
        ),
        pytest.param(
            [*three(ready=False)],
            change(three(ready=False)[-1], deletion_s=1),
            id="until the one that is not Ready goes",
        ),
        pytest.param(
            [
                *three(ready=False),
                *(SET, change(WEB_DEPLOYMENT, replicas=3)),
                pod("d", on="n2", namespace="tenant"),
            ],
            three(ready=True)[-1],
            id="whatever pod of another namespace names the uid of its controller",
        ),
    ],
)
async def test_a_workload_that_lacks_ready_pods_keeps_those_it_has(
    lacking: list[ClusterObject], whole: ClusterObject
) -> None:
    without_end = only(GuardName.UNREADY_WORKLOADS, unreadyTimeout="0s")

    await held_until(without_end, lacking, whole, "TooFewReadyPods")


def of_five(*broken: Pod, wanted: int = 5, **more: Any) -> list[ClusterObject]:
    """Return a Deployment of which one pod is on a wrong node and these are not Ready."""
    made: list[Pod] = [WEB, *broken]
    made += [pod(f"w{n}", on="n2") for n in range(wanted - len(made))]
    return [SET, Deployment("default", "web", "d-web", replicas=wanted, **more), *made]


def unready_since(at_s: int, name: str = "broken", **fields: Any) -> Pod:
    made = pod(name, on="n2", status=UNREADY)
    changed: Pod = change(made, condition_transitions=(at_s,), **fields)
    return changed


BUDGET = PodDisruptionBudget("default", "web", selector=LabelSelector(), disruptions_allowed=1)
LOOPING = PodStatus(
    "Running",
    conditions=(PodCondition("Ready", "False"),),
    containers=(ContainerStatus("main", restart_count=9, waiting_reason="CrashLoopBackOff"),),
)


@pytest.mark.parametrize(
    ("objects", "at_s"),
    [
        pytest.param(of_five(unready_since(0)), 600, id="one of five, from ten minutes on"),
        pytest.param(of_five(unready_since(300)), 900, id="it counts from when it ceased to be"),
        pytest.param(of_five(unready_since(0), wanted=3), 600, id="one of three"),
        pytest.param(of_five(unready_since(0), wanted=2), None, id="one of two: one would be left"),
        pytest.param([BUDGET, *of_five(unready_since(0), wanted=2)], 600, id="its budget decides"),
        pytest.param(
            of_five(unready_since(0), unready_since(60, "b2"), unready_since(0, "b3")),
            None,
            id="three of five",
        ),
        pytest.param(
            of_five(unready_since(0), unready_since(60, "b2")), 660, id="two of five, both lost"
        ),
        pytest.param(
            of_five(change(pod("waits"), status=PodStatus("Pending"))), 600, id="one has no node"
        ),
        pytest.param(of_five(wanted=5)[:-1], 600, id="one was never made"),
        pytest.param(
            of_five(unready_since(595, status=LOOPING)), 600, id="one that fails again and again"
        ),
    ],
)
async def test_what_is_missing_for_long_is_lost_and_holds_no_others_while_most_are_there(
    objects: list[ClusterObject], at_s: float | None
) -> None:
    async with controller(only(GuardName.UNREADY_WORKLOADS)).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, *objects)
        await anyio.sleep(HOUR_S)

    assert [at for _, at in flow.evictor.calls] == ([] if at_s is None else [approx(at_s)])


def on_wrong_node(count: int) -> list[ClusterObject]:
    """Return a Deployment of six pods of which so many have to leave."""
    made = [pod(f"p{n}", on="n1" if n < count else "n2") for n in range(6)]
    return [SET, Deployment("default", "web", "d-web", replicas=6), *made]


async def let_go(flow: FakeEdgesController, hours: int, *, replaced: bool = False) -> None:
    """Delete what is evicted, minute by minute."""
    gone: set[str] = set()
    for _ in range(60 * hours):
        await anyio.sleep(60)
        for name in set(flow.evicted_names) - gone:
            flow.delete(pod(name, on="n1"))
            gone.add(name)
            if replaced:
                created = int(anyio.current_time())
                flow.deliver(pod(f"{name}-new", on="n2", created=created))


async def test_where_no_pod_is_created_for_an_evicted_one_no_other_follows() -> None:
    """As where a quota is used up, or the PriorityClass of the pods is gone."""
    one = MoveSettings(max_moving=MaxMovingSettings(owner=1))
    async with controller(only(GuardName.UNREADY_WORKLOADS), moves=one).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, *on_wrong_node(4))
        await let_go(flow, 5)
        assert len(flow.evicted_names) == 1

        flow.deliver(pod("at-last", on="n2", created=int(anyio.current_time())))
        await let_go(flow, 1, replaced=True)

    assert sorted(flow.evicted_names) == ["p0", "p1", "p2", "p3"]


async def test_after_a_restart_a_workload_that_got_no_pod_for_an_evicted_one_is_still_held(
    golden: Golden,
) -> None:
    async with controller(only(GuardName.UNREADY_WORKLOADS)).running() as flow:
        await anyio.sleep(HOUR_S)
        past = PastEviction(
            *("", 50.0, "p0", "default", "p0", "n1"),
            owner_uid="d-web",
            owner_kind="Deployment",
            owner_name="web",
            replacing_uid="d-web",
            replacing_kind="Deployment",
            ended_s=51.0,
            result="evicted",
            follow_up=PastFollowUp(700.0, "not_replaced"),
        )
        flow.controller.restore([past])
        flow.sync_and_resume(
            TAINTED, FREE, *(each for each in on_wrong_node(2) if each.uid != "p0")
        )
        await anyio.sleep(HOUR_S)
        assert flow.evicted_names == []
        held = flow.observer.evaluations[-1].decision
        assert isinstance(held, Defer | Refuse)
        assert held.message == golden()

        flow.deliver(pod("at-last", on="n2", created=8000))
        await anyio.sleep(1)

    assert flow.evicted_names == ["p1"]


def approx(seconds: float) -> Any:  # pytest's class has no public name
    return pytest.approx(seconds, abs=2)


def restarted(times: int, ready_at: int) -> Pod:
    main = ContainerStatus("main", restart_count=times)
    made = change(READY, containers=(main,))
    return unready_since(ready_at, status=made)


@pytest.mark.parametrize(
    ("sibling", "at_s"),
    [
        pytest.param(restarted(5, 95), 155, id="it fails again and again"),
        pytest.param(restarted(5, 10), 100, id="it is Ready for longer than a minute"),
        pytest.param(restarted(1, 95), 100, id="it was restarted once"),
    ],
)
async def test_a_pod_that_is_ready_between_two_failures_lets_no_other_go(
    sibling: Pod, at_s: float
) -> None:
    async with controller(only(GuardName.UNREADY_WORKLOADS)).running() as flow:
        await anyio.sleep(100)
        flow.sync_and_resume(TAINTED, FREE, *of_five(sibling, wanted=2))
        await anyio.sleep(HOUR_S)

    assert evicted_at(flow) == approx(at_s)


async def test_of_a_stateful_set_a_lost_pod_holds_the_others_until_it_is_gone() -> None:
    broken = change(numbered(0, "n2"), status=UNREADY)
    db = StatefulSet("default", "db", "owner-db", replicas=3)
    guards = only(GuardName.UNREADY_WORKLOADS)

    held = [db, broken, numbered(1, "n2"), numbered(2)]
    await held_until(guards, held, numbered(0, "n2"), "TooFewReadyPods")


async def test_a_pod_that_is_not_ready_for_long_may_leave_a_rollout_that_it_holds_up() -> None:
    stuck = change(WEB_DEPLOYMENT, rollout="2 pods of an older template are left")
    async with controller(only(GuardName.ROLLOUTS)).running() as flow:
        broken = pod("broken", on="n1", status=UNREADY)
        flow.sync_and_resume(TAINTED, FREE, WEB, broken, SET, stuck)
        await anyio.sleep(HOUR_S)

    assert [(name, round(at)) for name, at in flow.evictor.calls] == [("broken", 600)]


def test_a_rollout_that_is_stuck_names_the_pod_that_holds_it_up() -> None:
    state = ClusterState()
    db = StatefulSet("default", "db", "owner-db", replicas=2, rollout="one is left")
    broken = change(numbered(1), status=UNREADY)
    for each in (db, numbered(0), broken):
        state.upsert(each)
    view = ClusterView(state, lambda: HOUR_S)
    workloads = Workloads(view, EvictionLedger(view), lambda: 0.0)
    guards = Guards(view, only(GuardName.ROLLOUTS), workloads)

    decision = guards.check(Finding(numbered(0), "Any", "why"), 0.0)

    assert decision is not None
    assert "default/db-1 is not Ready since" in decision.message
    assert "`kubectl rollout undo statefulset -n default db`" in decision.message


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param(of_five(unready_since(90)), id="not Ready yet"),
        pytest.param(of_five(unready_since(-900), wanted=2), id="lost, half of two"),
        pytest.param(of_five()[:-1], id="missing altogether"),
    ],
)
def test_the_message_names_the_pod_that_is_missing_and_what_ends_the_wait(
    objects: list[ClusterObject], golden: Golden
) -> None:
    state = ClusterState()
    for each in objects:
        state.upsert(each)
    view = ClusterView(state, lambda: 100.0)
    workloads = Workloads(view, EvictionLedger(view), lambda: 0.0)
    settings = only(GuardName.UNREADY_WORKLOADS)

    decision = Guards(view, settings, workloads).check(Finding(WEB, "Any", "why"), 0.0)

    assert decision is not None
    assert decision.message == golden()


def test_the_message_about_pods_that_are_not_there_names_what_shows_why(golden: Golden) -> None:
    state = ClusterState()
    for each in (StatefulSet("default", "db", "owner-db", replicas=4), numbered(0), numbered(1)):
        state.upsert(each)
    view = ClusterView(state, lambda: 100.0)
    workloads = Workloads(view, EvictionLedger(view), lambda: 0.0)
    settings = only(GuardName.UNREADY_WORKLOADS)

    decision = Guards(view, settings, workloads).check(Finding(numbered(1), "Any", "why"), 0.0)

    assert decision is not None
    assert decision.message == golden()


async def test_a_pod_that_is_not_ready_may_leave_whatever_its_workload_lacks() -> None:
    async with controller(only(GuardName.UNREADY_WORKLOADS)).running() as flow:
        unready = pod("a", on="n1", status=UNREADY)
        flow.sync_and_resume(TAINTED, FREE, unready, pod("b", on="n1"))
        await anyio.sleep(1)

    assert flow.evicted_names == ["a"]


async def test_our_own_moves_hold_no_other_pod_and_what_else_is_missing_does() -> None:
    async with controller(only(GuardName.UNREADY_WORKLOADS)).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, WEB, *(pod(name, on="n2") for name in "bcd"))
        await anyio.sleep(1)
        assert flow.evicted_names == ["web"]
        flow.terminate(WEB)
        flow.deliver(pod("replacement", on="n2", status=UNREADY, created=1))

        flow.deliver(pod("d", on="n2", status=UNREADY), node("n3", "gpu:NoSchedule"))
        flow.deliver(pod("e", on="n3"), pod("f", on="n3"))
        await anyio.sleep(60)
        assert flow.evicted_names == ["web"]

        flow.deliver(pod("d", on="n2"))
        await anyio.sleep(1)

    assert set(flow.evicted_names) == {"web", "e", "f"}


def numbered(ordinal: int, on: str = "n1") -> Pod:
    return pod(f"db-{ordinal}", uid=f"db-{ordinal}@{on}", on=on, owner="StatefulSet/db")


async def test_no_pod_of_a_stateful_set_is_said_to_wait_for_a_higher_one_that_there_is_not(
    golden: Golden,
) -> None:
    db = StatefulSet("default", "db", "owner-db", replicas=12)
    guards = only(GuardName.STATEFUL_SET_ORDER)
    async with controller(guards).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, db, *map(numbered, (2, 9, 10)))
        await anyio.sleep(600)

    said: dict[str, list[str]] = {}
    for each in flow.observer.evaluations:
        if message := getattr(each.decision, "message", ""):
            said.setdefault(each.finding.pod.name, []).append(message)
    assert flow.evicted_names[0] == "db-10"
    [of_the_highest] = set(said["db-10"])
    assert of_the_highest == golden("gathered")
    assert golden("higher") in set(said["db-2"])


async def test_pods_of_a_stateful_set_leave_from_the_highest_ordinal_to_the_lowest() -> None:
    db = StatefulSet("default", "db", "owner-db", replicas=12)
    guards = only(GuardName.UNREADY_WORKLOADS, GuardName.STATEFUL_SET_ORDER)
    leaving = [2, 10, 9]
    async with controller(guards).running() as flow:
        others = [numbered(each, "n2") for each in range(12) if each not in leaving]
        flow.sync_and_resume(TAINTED, FREE, db, *others, *map(numbered, leaving))
        for ordinal in (10, 9, 2):
            await anyio.sleep(600)
            assert flow.evicted_names[-1] == f"db-{ordinal}"
            flow.delete(numbered(ordinal))
            flow.deliver(numbered(ordinal, "n2"))

    assert flow.evicted_names == ["db-10", "db-9", "db-2"]


def test_while_everything_is_looked_at_a_lower_ordinal_waits_for_what_may_be_found_yet() -> None:
    state, now = ClusterState(), [0.0]
    low, high = numbered(1), numbered(2)
    state.upsert(StatefulSet("default", "db", "owner-db", replicas=2))
    for each in (low, high):
        state.upsert(each)
    view = ClusterView(state, lambda: 0.0)
    workloads = Workloads(view, EvictionLedger(view), lambda: now[0])
    [wl] = {workloads.of(each) for each in (low, high)}
    assert wl is not None

    workloads.is_resyncing = True
    for now[0] in range(30):
        assert workloads.turn_of(low, wl).wait_s > 0
    assert workloads.turn_of(high, wl).wait_s > 0

    workloads.is_resyncing = False
    now[0] += 1.0
    assert workloads.turn_of(low, wl).wait_s > 0
    assert workloads.turn_of(high, wl).wait_s == 0


async def test_a_higher_ordinal_that_does_not_leave_holds_up_no_lower_one() -> None:
    guards = only(GuardName.STATEFUL_SET_ORDER, GuardName.DO_NOT_EVICT)
    stays = change(numbered(5), annotations=Annotations(do_not_evict="1s"))
    async with controller(guards).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, stays, numbered(1))
        await anyio.sleep(1.5)
        flow.deliver(change(stays, annotations=Annotations(do_not_evict="true")))
        await anyio.sleep(60)

    assert flow.evicted_names[-1] == "db-1"


def on_two_nodes() -> list[ClusterObject]:
    """Return two wrong nodes, of which the one of the highest ordinal has another pod as well."""
    tainted = [node(name, "gpu:NoSchedule") for name in ("n1", "n3")]
    return [*tainted, FREE, WEB, numbered(2), numbered(1, "n3"), numbered(0, "n3")]


async def test_a_higher_ordinal_that_waits_for_a_limit_alone_keeps_its_turn() -> None:
    guards, once_a_minute = only(GuardName.STATEFUL_SET_ORDER), {"node": TokenRate(1 / 60, 1)}
    async with controller(guards, once_a_minute).running() as flow:
        flow.sync_and_resume(*on_two_nodes())
        await anyio.sleep(600)

    assert flow.evicted_names == ["web", "db-2", "db-1", "db-0"]


async def test_the_turn_of_a_pod_that_need_not_leave_any_more_ends_with_the_limits_wait() -> None:
    guards, once_a_minute = only(GuardName.STATEFUL_SET_ORDER), {"node": TokenRate(1 / 60, 1)}
    async with controller(guards, once_a_minute).running() as flow:
        flow.sync_and_resume(*on_two_nodes())
        await anyio.sleep(30)
        assert flow.evicted_names == ["web"]
        flow.deliver(node("n1"))
        await anyio.sleep(60)
        assert flow.evicted_names == ["web", "db-1"]


def single(name: str) -> list[ClusterObject]:
    return [
        Deployment("default", name, f"d-{name}"),
        ReplicaSet(
            f"owner-{name}",
            controller=OwnerReference("Deployment", name, f"d-{name}", controller=True),
        ),
        pod(name, on="n1", owner=f"ReplicaSet/{name}"),
    ]


async def test_workloads_of_a_single_replica_leave_one_after_the_other() -> None:
    async with controller(only(GuardName.SINGLE_REPLICAS)).running() as flow:
        flow.sync_and_resume(
            TAINTED, FREE, *single("a"), *single("b"), *(pod(name, on="n1") for name in "xy")
        )
        await anyio.sleep(60)
        first, second = sorted(set("ab") - set(flow.evicted_names)), sorted("ab")
        [waits] = first
        [left] = set(second) - {waits}
        assert set(flow.evicted_names) == {left, "x", "y"}

        flow.terminate(pod(left, on="n1", owner=f"ReplicaSet/{left}"))
        flow.deliver(pod("new", on="n2", owner=f"ReplicaSet/{left}", status=UNREADY))
        await anyio.sleep(60)
        assert waits not in flow.evicted_names

        flow.deliver(pod("new", on="n2", owner=f"ReplicaSet/{left}"))
        await anyio.sleep(1)

    assert waits in flow.evicted_names


def rolled_out(name: str) -> list[ClusterObject]:
    of = OwnerReference("Deployment", name, f"d-{name}", controller=True)
    set_ = ReplicaSet("owner-next", controller=of)
    return [set_, pod("next", on="n2", owner="ReplicaSet/next", created=2)]


@pytest.mark.parametrize("end", ["deleted", "scaled", "rolled out"])
async def test_a_single_replica_waits_for_another_no_longer_than_that_is_one_and_moves(
    end: str,
) -> None:
    async with controller(only(GuardName.SINGLE_REPLICAS)).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, *single("a"), *single("b"))
        await anyio.sleep(1)
        [left] = flow.evicted_names
        flow.terminate(pod(left, on="n1", owner=f"ReplicaSet/{left}"))
        flow.delete(pod(left, on="n1", owner=f"ReplicaSet/{left}"))
        await anyio.sleep(60)
        assert flow.evicted_names == [left]

        deployment = Deployment("default", left, f"d-{left}")
        if end == "deleted":
            flow.delete(deployment)
        elif end == "scaled":
            flow.deliver(change(deployment, replicas=0))
        else:
            flow.deliver(*rolled_out(left))
        await anyio.sleep(12)

    assert sorted(flow.evicted_names) == ["a", "b"]


@pytest.mark.parametrize("template", ["same", "next"])
async def test_a_single_replica_waits_for_another_one_whose_move_was_given_up_until_it_is_ready(
    template: str,
) -> None:
    given_up = MoveSettings(ready_timeout_s=30)
    async with controller(only(GuardName.SINGLE_REPLICAS), moves=given_up).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, *single("a"), *single("b"))
        await anyio.sleep(1)
        [left] = flow.evicted_names
        flow.delete(pod(left, on="n1", owner=f"ReplicaSet/{left}"))
        replica_set, ready = rolled_out(left)
        if template == "same":
            ready = pod("new", on="n2", owner=f"ReplicaSet/{left}", created=2)
        flow.deliver(replica_set, change(ready, status=UNREADY))
        await anyio.sleep(60)
        assert flow.evicted_names == [left]
        [end] = flow.intent_store.follow_ups
        assert end.result in {"not_ready", "not_replaced"}

        flow.deliver(ready)
        await anyio.sleep(0.1)

    assert sorted(flow.evicted_names) == ["a", "b"]


async def test_a_single_replica_that_is_not_ready_waits_for_no_other() -> None:
    async with controller(only(GuardName.SINGLE_REPLICAS)).running() as flow:
        broken = change(single("b")[-1], status=UNREADY)
        flow.sync_and_resume(TAINTED, FREE, *single("a"), *single("b")[:-1], broken)
        await anyio.sleep(1)

    assert sorted(flow.evicted_names) == ["a", "b"]


async def test_a_single_replica_that_is_not_ready_again_within_five_minutes_holds_up_no_other() -> (
    None
):
    async with controller(only(GuardName.SINGLE_REPLICAS)).running() as flow:
        flow.sync_and_resume(TAINTED, FREE, *single("a"), *single("b"))
        await anyio.sleep(1)
        [left] = flow.evicted_names
        flow.delete(pod(left, on="n1", owner=f"ReplicaSet/{left}"))
        await anyio.sleep(HOUR_S)

    assert [round(at / 60) for _, at in flow.evictor.calls] == [0, 5]


async def test_after_a_restart_a_single_replica_is_still_waited_for() -> None:
    guards, given_up = only(GuardName.SINGLE_REPLICAS), MoveSettings(ready_timeout_s=30)
    async with controller(guards, moves=given_up).running() as flow:
        await anyio.sleep(60)
        past = PastEviction(
            *("", 50.0, "a", "default", "a", "n1"),
            owner_uid="d-a",
            owner_kind="Deployment",
            owner_name="a",
            replacing_uid="d-a",
            replacing_kind="Deployment",
            ended_s=51.0,
            result="evicted",
        )
        flow.controller.restore([past])
        a_without_pod = single("a")[:2]
        flow.sync_and_resume(TAINTED, FREE, *a_without_pod, *single("b"))
        await anyio.sleep(120)
        assert flow.evicted_names == []

        flow.deliver(pod("new", on="n2", owner="ReplicaSet/a", created=100))
        await anyio.sleep(0.1)

    assert flow.evicted_names == ["b"]


async def test_a_failed_eviction_holds_up_nothing() -> None:
    guards = only(GuardName.SINGLE_REPLICAS, GuardName.UNREADY_WORKLOADS)
    flow = controller(guards)
    flow.evictor.script = {name: [Denied(403, "no")] * 99 for name in ("a", "c")}
    async with flow.running():
        flow.sync_and_resume(TAINTED, FREE, *single("a"), *single("b"), pod("c", on="n1"), WEB)
        await anyio.sleep(60)

    assert {"b", "web"} <= set(flow.evicted_names)


def test_every_guard_of_the_settings_exists_once() -> None:
    assert [guard.name for guard in GUARDS] == list(GuardName)


@pytest.mark.parametrize("name", GuardName)
async def test_each_guard_can_be_switched_off_and_ignored(name: GuardName) -> None:
    view = ClusterView(ClusterState(), lambda: 0.0)
    workloads = Workloads(view, EvictionLedger(view), lambda: 0.0)
    active: Callable[[GuardSettings, str], set[GuardName]] = lambda settings, plugin: {  # noqa: E731
        guard.name for guard in Guards(view, settings, workloads)._active(plugin)
    }

    assert active(GuardSettings(disabled=(name,)), "A") == set(GuardName) - {name}
    ignoring = GuardSettings(ignored_by={"A": (name,)})
    assert active(ignoring, "A") == set(GuardName) - {name}
    assert active(ignoring, "B") == set(GuardName)
