"""What was found has to hold still when the request leaves, whatever plugin found it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import anyio
import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.api.plugin import View
from reactive_desched.controller import worker
from reactive_desched.gate.gang_moves import GATHER_S
from reactive_desched.model.evaluation import EvictionResult
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import parse_label_selector
from reactive_desched.model.objects import (
    ClusterObject,
    Namespace,
    Node,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    PriorityClass,
)
from reactive_desched.model.outcomes import DECISION_OUTDATED, EvictionRequest, EvictionResponse
from reactive_desched.model.subjects import NodeOrPod
from reactive_desched.model.usage import NODE_METRIC, NodeMetric
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.policy.settings.limits import EvictionSchedule
from reactive_desched.testing.anti_affinity import anti_affinity_term, with_anti_affinity
from reactive_desched.testing.builders import container, node, pod, pod_status
from reactive_desched.testing.topology_spread import spread_pods
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController, FakeEvictor
from tests.support.golden import Golden

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

WRITE_S: Final = 2.0
"""So long the disk takes for an intent."""

TAINTED: Final = node("n1", "repair:NoSchedule")
SPACE: Final = Namespace("default", labels={"move": "yes"})
PLACES: Final = tuple(map(node, ("n2", "n3")))
WEB: Final = pod("web", on="n1")


class Case(NamedTuple):
    """Objects of which a plugin wants `web` to leave, and what ends the reason for it.

    `ends` has objects as they are then, and `gone` those that are gone.
    """

    plugin: str
    args: dict[str, Any]
    objects: tuple[ClusterObject, ...]
    ends: tuple[ClusterObject, ...] = ()
    gone: tuple[ClusterObject, ...] = ()


def asking(name: str, on: str, cpu: str, memory: str = "0", **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, "memory": memory}, **more)


def of(pool: str, name: str) -> Node:
    return node(name, labels={"pool": pool})


def sick(name: str, status: str) -> Node:
    made = node(name, unschedulable=True)
    return replace(made, conditions=(("Sick", status),), conditions_changed_s=(0,))


def excluding(name: str, **more: Any) -> Pod:
    made = pod(name, on="n1", labels={"app": "web"}, **more)
    return with_anti_affinity(made, anti_affinity_term("app=web"))


def restarted(times: int) -> Pod:
    return pod("web", on="n1", status=pod_status("Running", container(restarts=times)))


def measured(name: str, cpu: int, at_s: float = 0.0) -> NodeMetric:
    used = {"cpu": cpu, "memory": 0}
    pods = {"default/web": {"cpu": min(cpu, 500), "memory": 0}} if name == "n1" else {}
    return NodeMetric(NODE_METRIC, name, used, at_s, pods)


def level(name: str) -> dict[str, Any]:
    return {"name": name, "nodeSelector": {"matchLabels": {"pool": name}}}


LEADER = excluding("leader", priority=9)
TWO = node("n1"), node("n2")
ZONES = node("n1", zone="a"), node("n2", zone="b")
SPREAD = [replace(each, name="web", uid="web") if n else each
          for n, each in enumerate(spread_pods(2))]  # fmt: skip
LOAD_ARGS = {
    "anomalyCondition": {"consecutiveAbnormalities": 1},
    "lowThresholds": {"cpu": 40},
    "highThresholds": {"cpu": 60},
}
UNEVEN = asking("k", "n1", "2", "1Gi", owner=None)
CASES: Final = {
    "a taint": Case(
        "RemovePodsViolatingNodeTaints", {}, (TAINTED, *PLACES, WEB), (node("n1"),)
    ),
    "a node that is not Ready": Case(
        "RemovePodsViolatingNodeTaints", {}, (TAINTED, *PLACES, WEB),
        (node("n1", "repair:NoSchedule", ready="False"),),
    ),
    "a label": Case(
        "RemovePodsViolatingNodeAffinity",
        {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]},
        (node("n1"), of("a", "n2"), pod("web", on="n1", requires="pool=a")),
        (of("a", "n1"),),
    ),
    "restarts": Case(
        "RemovePodsHavingTooManyRestarts",
        {"podRestartThreshold": 3},
        (node("n1"), *PLACES, restarted(3)),
        (restarted(0),),
    ),
    "a state": Case(
        "PodLifeTime",
        {"maxPodLifeTimeSeconds": 0, "states": ["Pending"]},
        (node("n1"), *PLACES, pod("web", on="n1", created=-9, status=pod_status("Pending"))),
        (pod("web", on="n1", created=-9, version=2),),
    ),
    "a condition of the node": Case(
        "RemovePodsViolatingNodeConditions",
        {"conditions": [{"type": "Sick", "for": "0s"}]},
        (sick("n1", "True"), *PLACES, WEB),
        (sick("n1", "False"),),
    ),
    "a drain": Case(
        "DrainNodes",
        {},
        (replace(node("n1", unschedulable=True), drain="ada: a kernel"), *PLACES, WEB),
        (node("n1", unschedulable=True),),
    ),
    "a pod nearby": Case(
        "RemovePodsViolatingInterPodAntiAffinity",
        {},
        (node("n1"), *PLACES, excluding("web"), LEADER),
        gone=(LEADER,),
    ),
    "a pod nearby that leaves": Case(
        "RemovePodsViolatingInterPodAntiAffinity",
        {},
        (node("n1"), *PLACES, excluding("web"), LEADER),
        (replace(LEADER, deletion_s=1, resource_version=2),),
    ),
    "a skew": Case(
        "RemovePodsViolatingTopologySpreadConstraint",
        {},
        (*ZONES, *SPREAD),
        (replace(spread_pods(0, 1)[0], name="p09", uid="p09"),),
    ),
    "a duplicate": Case(
        "RemoveDuplicates",
        {},
        (*TWO, pod("first", on="n1"), pod("web", on="n1", created=1)),
        gone=(pod("first", on="n1"),),
    ),
    "a share": Case(
        "RemoveDuplicates",
        {},
        (*TWO, pod("first", on="n1"), pod("web", on="n1", created=1)),
        (pod("a", on="n2"), pod("b", on="n2")),
    ),
    "use": Case(
        "LowNodeUtilization",
        {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 50}},
        (*TWO, asking("k", "n1", "2", owner=None), asking("web", "n1", "1")),
        gone=(asking("k", "n1", "2", owner=None),),
    ),
    "little use": Case(
        "HighNodeUtilization",
        {"thresholds": {"cpu": 30}},
        (*TWO, asking("k", "n2", "2", owner=None), asking("web", "n1", "500m")),
        (asking("new", "n1", "2"),),
    ),
    "measured use": Case(
        "LowNodeLoad",
        LOAD_ARGS,
        (*TWO, asking("web", "n1", "500m"), measured("n1", 3000), measured("n2", 0)),
        (measured("n1", 2000, 1.0),),
    ),
    "uneven shares": Case(
        "FragmentationAware",
        {},
        (*TWO, UNEVEN, asking("web", "n1", "1500m")),
        (asking("m", "n1", "10m", "6Gi", owner=None),),
    ),
    "a level": Case(
        "CustomPriority",
        {"evictionOrder": [level("dear"), level("cheap")]},
        (of("dear", "n1"), of("cheap", "n2"), WEB),
        (of("cheap", "n1"),),
    ),
}  # fmt: skip


def made(name: str, args: dict[str, Any]) -> AnyPlugin:
    spec = plugin_registry()[name]
    return spec.make(spec.args.model_validate(args, strict=False))


def flow_of(case: Case, **parts: Any) -> FakeEdgesController:
    flow = FakeEdgesController(made(case.plugin, case.args), moves=UNLIMITED_MOVES, **parts)
    flow.intent_store.slow_s = WRITE_S
    return flow


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_pod_whose_reason_to_leave_has_gone_stays(case: Case) -> None:
    async with flow_of(case).running() as flow:
        flow.sync_and_resume(*case.objects)
        await anyio.sleep(WRITE_S / 2)
        assert flow.intent_store.begun == ["web"]
        flow.deliver(*case.ends)
        flow.delete(*case.gone)
        await anyio.sleep(WRITE_S * 2)

        assert flow.evicted_names == []
        assert flow.observer.outcomes == [("web", "cancelled")]
        assert flow.intent_store.lines[-1] == ("outcome", "web", "cancelled")
        assert len(flow.controller.ledger) == 0


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_pod_whose_reason_to_leave_lasts_leaves_whatever_else_changes(case: Case) -> None:
    async with flow_of(case).running() as flow:
        flow.sync_and_resume(*case.objects)
        await anyio.sleep(WRITE_S / 2)
        flow.deliver(node("n9"), pod("other", on="n9", namespace="others", owner=None))
        await anyio.sleep(WRITE_S * 2)

        assert flow.evicted_names == ["web"]
        assert flow.observer.outcomes == [("web", "evicted")]


def holding(*guards: GuardName, **settings: Any) -> GuardSettings:
    """Return settings with these guards alone."""
    disabled = sorted(set(GuardName) - set(guards))
    return GuardSettings.model_validate({"disabled": disabled, **settings}, strict=False)


@pytest.mark.parametrize(
    ("is_taken_off", "evicted"),
    [pytest.param(True, [], id="meanwhile"), pytest.param(False, ["web"], id="never")],
)
async def test_a_taint_that_was_taken_off_and_set_again_has_to_stand_anew(
    *, is_taken_off: bool, evicted: list[str]
) -> None:
    guards = holding(GuardName.STANDING_TIME, standingTimes={"otherTaints": "5s"})
    async with flow_of(CASES["a taint"], guards=guards).running() as flow:
        flow.sync_and_resume(*CASES["a taint"].objects)
        await anyio.sleep(5 + WRITE_S / 2)
        assert flow.intent_store.begun == ["web"]
        if is_taken_off:
            flow.deliver(node("n1"), TAINTED)
        await anyio.sleep(WRITE_S)
        assert flow.evicted_names == evicted


async def test_an_annotation_on_the_node_keeps_a_pod_that_was_to_leave() -> None:
    guards = holding(GuardName.DO_NOT_DISRUPT)
    async with flow_of(CASES["a taint"], guards=guards).running() as flow:
        flow.sync_and_resume(*CASES["a taint"].objects)
        await anyio.sleep(WRITE_S / 2)
        assert flow.intent_store.begun == ["web"]
        flow.deliver(replace(TAINTED, do_not_disrupt="true"))
        await anyio.sleep(WRITE_S)
        assert flow.evicted_names == []


async def test_the_record_says_what_was_found_and_holds_no_more(golden: Golden) -> None:
    case, results = CASES["a taint"], list[EvictionResult]()
    flow = flow_of(case)
    follow = flow.pipeline.evictions.followed_by(lambda *_: None, results.append)
    async with flow.running():
        with follow:
            flow.sync_and_resume(*case.objects)
            await anyio.sleep(WRITE_S / 2)
            flow.deliver(*case.ends)
            await anyio.sleep(WRITE_S * 2)

    [result] = results
    assert result.outcome.reason == DECISION_OUTDATED.code
    assert result.outcome.message == golden()


class Counting(NodeTaintsPlugin):
    """Counts how often it is asked whether what it found holds still."""

    asked = 0

    def still_found(self, finding: Finding, subject: NodeOrPod, view: View) -> Finding | None:
        """Count, and judge again."""
        self.asked += 1
        return super().still_found(finding, subject, view)


@pytest.mark.parametrize(
    ("others", "asked"),
    [pytest.param((), 0, id="nothing comes"), pytest.param((node("n9"),), 1, id="a node comes")],
)
async def test_a_plugin_is_asked_again_only_where_something_came_since(
    others: tuple[Node, ...], asked: int
) -> None:
    plugin = Counting(NodeTaintsArgs())
    flow = FakeEdgesController(plugin, moves=UNLIMITED_MOVES)
    flow.intent_store.slow_s = WRITE_S
    async with flow.running():
        flow.sync_and_resume(TAINTED, *PLACES, WEB)
        await anyio.sleep(WRITE_S / 2)
        assert (plugin.asked, flow.intent_store.begun) == (0, ["web"])
        flow.deliver(*others)
        await anyio.sleep(WRITE_S * 2)
        assert (plugin.asked, flow.evicted_names) == (asked, ["web"])


async def test_what_was_found_before_a_change_is_asked_about_though_it_was_decided_on_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "TIME_SLICE_S", 0.0)  # each ends with its first decision
    flow = FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()), moves=UNLIMITED_MOVES)
    flow.intent_store.slow_s = WRITE_S
    pods = [pod(f"web-{n}", on="n1") for n in range(20)]
    async with flow.running():
        flow.sync_and_resume(TAINTED, *PLACES, *pods)
        while not flow.observer.decisions:
            await anyio.lowlevel.checkpoint()
        flow.deliver(node("n1"))
        before = len(flow.observer.decisions)
        await anyio.sleep(WRITE_S * 2)

    assert 0 < before < len(flow.observer.decisions)
    assert flow.evicted_names == []
    assert {name for name, _ in flow.observer.outcomes} == {each.name for each in pods}


class Forgetful(NodeTaintsPlugin):
    """Fails from a moment on."""

    fails = False

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding]:
        """Find what the plugin finds, or fail."""
        if self.fails:
            raise ValueError("not again")
        return super().judge(subject, view)


async def test_a_plugin_that_fails_when_it_is_asked_again_lets_no_pod_leave() -> None:
    plugin = Forgetful(NodeTaintsArgs())
    flow = FakeEdgesController(plugin)
    flow.intent_store.slow_s = WRITE_S
    async with flow.running():
        flow.sync_and_resume(TAINTED, *PLACES, WEB)
        await anyio.sleep(WRITE_S / 2)
        plugin.fails = True
        flow.deliver(node("n9"))
        await anyio.sleep(WRITE_S * 2)
        assert flow.evicted_names == []
        [fault] = flow.observer.plugin_faults[:1]
        assert fault == (plugin.name, "ValueError: not again")

        plugin.fails = False
        await anyio.sleep(600)
        assert flow.evicted_names == ["web"]


CLASS: Final = PriorityClass("batch", value=5)
BUDGET: Final = PodDisruptionBudget(
    "default",
    "web",
    "pdb",
    selector=parse_label_selector({"matchLabels": {"app": "web"}}),
    disruptions_allowed=1,
)
COVERED: Final = pod("web", on="n1", priority=3, labels={"app": "web"})
KEPT: Final = {
    "a label of its namespace": (
        {"namespaceLabelSelector": {"matchLabels": {"move": "yes"}}},
        replace(SPACE, labels={"move": "no"}),
    ),
    "the priority that protects": (
        {"priorityThreshold": {"name": "batch"}},
        replace(CLASS, value=2, resource_version=1),
    ),
    "the end of its PodDisruptionBudget": (
        {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}},
        BUDGET,
    ),
}


@pytest.mark.parametrize(("args", "then"), KEPT.values(), ids=KEPT.keys())
@pytest.mark.parametrize("comes", [True, False])
async def test_what_the_policy_protects_by_now_stays(
    args: dict[str, Any], then: ClusterObject, *, comes: bool
) -> None:
    evictor_args = DefaultEvictorArgs.model_validate(args, strict=False)
    async with flow_of(CASES["a taint"], evictor_args=evictor_args).running() as flow:
        flow.sync_and_resume(TAINTED, *PLACES, SPACE, CLASS, BUDGET, COVERED)
        await anyio.sleep(WRITE_S / 2)
        assert flow.intent_store.begun == ["web"]
        if not comes:
            flow.deliver(node("n9"))
        elif then is BUDGET:
            flow.delete(then)
        else:
            flow.deliver(then)
        await anyio.sleep(WRITE_S)
        assert flow.evicted_names == ([] if comes else ["web"])


SOON: Final = {"evictions": 0, "schedule": "1 0 * * *", "duration": "1h"}
UNTIL_THEN: Final = {"allow": ["thu 00:00-00:01"], "timeZone": "UTC"}
COUNTED: Final = {"evictions": 1, "schedule": "0 0 * * *", "duration": "1h"}


@pytest.mark.parametrize(
    ("schedule", "evicted"),
    [(SOON, []), (UNTIL_THEN, []), (COUNTED, ["web"]), ({**SOON, "namespaces": ["x"]}, ["web"])],
    ids=["a window that closes", "one that allowed", "one that counts it", "another namespace's"],
)
async def test_a_schedule_that_closes_stops_what_was_decided_before(
    schedule: dict[str, Any], evicted: list[str]
) -> None:
    flow = flow_of(CASES["a taint"])
    flow.controller.gates.schedules.reconfigure([EvictionSchedule.model_validate(schedule)], ())
    async with flow.running():
        flow.wall_offset_s = 60 - WRITE_S / 2 - anyio.current_time()  # 1970 began on a Thursday
        flow.sync_and_resume(*CASES["a taint"].objects)
        await anyio.sleep(WRITE_S / 4)
        assert flow.intent_store.begun == ["web"]
        await anyio.sleep(WRITE_S)
        assert flow.evicted_names == evicted


def gang(size: int = 3) -> list[Pod]:
    """Build the pods of a Volcano job, one on each node."""
    labels = {"volcano.sh/job-name": "train"}
    return [pod(f"train-{n}", on=f"n{n + 1}", labels=labels) for n in range(size)]


GANGS: Final = {"gangs": "together"}


async def test_no_pod_of_a_gang_leaves_once_the_reason_for_the_first_has_gone() -> None:
    guards = holding(GuardName.GANGS, **GANGS)
    async with flow_of(CASES["a taint"], guards=guards).running() as flow:
        flow.sync_and_resume(TAINTED, *PLACES, *gang())
        await anyio.sleep(GATHER_S + WRITE_S / 2)
        assert sorted(flow.intent_store.begun) == ["train-0", "train-1", "train-2"]
        flow.deliver(node("n1"))
        await anyio.sleep(60)
        assert flow.evicted_names == []


async def test_once_a_pod_of_a_gang_was_asked_to_leave_the_others_follow_it() -> None:
    guards = holding(GuardName.GANGS, **GANGS)
    flow = flow_of(CASES["a taint"], guards=guards, max_concurrent=1)
    flow.intent_store.slow_s = 0.5
    async with flow.running():
        flow.sync_and_resume(TAINTED, *PLACES, *gang())
        await flow.evictor.called.wait()
        flow.deliver(node("n1"))
        await anyio.sleep(60)
        assert sorted(flow.evicted_names) == ["train-0", "train-1", "train-2"]


LATE_S: Final = 15.0


class Late(FakeEvictor):
    """Lets decisions wait until watches have caught up, if they do."""

    shows = True

    async def caught_up(self) -> bool:
        """Wait three times as long as a decision counts."""
        await anyio.sleep(LATE_S)
        return self.shows


@asynccontextmanager
async def late(
    *pods: Pod,
    guard: GuardName = GuardName.UNREADY_WORKLOADS,
    shows: bool = True,
    slow_s: float = 0,
) -> AsyncIterator[FakeEdgesController]:
    """Run a controller that has decided to evict the pods of n1, and waits for watches."""
    evictor = Late()
    evictor.shows = shows
    plugin = made("RemovePodsViolatingNodeTaints", {})
    flow = FakeEdgesController(plugin, evictor=evictor, guards=holding(guard))
    flow.intent_store.slow_s = slow_s
    async with flow.running():
        flow.sync_and_resume(TAINTED, *PLACES, *(pods or (WEB,)))
        await anyio.sleep(LATE_S / 2)
        yield flow


@pytest.mark.parametrize(("shows", "evicted"), [(True, ["web"]), (False, [])])
async def test_what_waited_for_watches_is_requested_once_they_show_what_came_before(
    *, shows: bool, evicted: list[str]
) -> None:
    async with late(shows=shows) as flow:
        await anyio.sleep(LATE_S)
        assert flow.evicted_names == evicted
        assert len(flow.observer.outcomes) == 1


async def test_what_waited_for_watches_waits_no_five_seconds_more() -> None:
    async with late(slow_s=5.5) as flow:
        await anyio.sleep(LATE_S / 2 + 5)
        assert flow.observer.outcomes == []
        await anyio.sleep(7)
        assert (flow.evicted_names, flow.observer.outcomes) == ([], [("web", "cancelled")])


OF_SET: Final = [
    replace(pod(f"db-{n}", on=on, owner="StatefulSet/db", changed={"Ready": -900}), uid=f"db-{n}")
    for n, on in enumerate(("n2", "n3", "n1"))
]


@pytest.mark.parametrize("pods", [(WEB, pod("web-1", on="n2")), tuple(OF_SET)])
async def test_its_own_eviction_does_not_hold_a_pod_that_waited(pods: tuple[Pod, ...]) -> None:
    async with late(*pods) as flow:
        await anyio.sleep(LATE_S)
        assert flow.evicted_names == [each.name for each in pods if each.node == "n1"]


@pytest.mark.parametrize(("pods", "other"), [((WEB, pod("web-1", on="n2")), 1), (tuple(OF_SET), 0)])
async def test_a_pod_stays_whose_workload_loses_another_while_it_waits(
    pods: tuple[Pod, ...], other: int
) -> None:
    async with late(*pods) as flow:
        failed = pod_status("Running", conditions=(PodCondition("Ready", "False"),))
        flow.deliver(replace(pods[other], status=failed, resource_version=2))
        await anyio.sleep(LATE_S)
        assert flow.evicted_names == []


async def test_a_node_that_an_autoscaler_begins_to_empty_keeps_its_pods() -> None:
    taints = ("repair:NoSchedule", "ToBeDeletedByClusterAutoscaler:NoSchedule")
    async with late(guard=GuardName.DRAINED_NODES) as flow:
        flow.deliver(node("n1", *taints))
        await anyio.sleep(LATE_S)
        assert flow.evicted_names == []


MOMENTS: Final = st.lists(
    st.tuples(st.sampled_from(["n1", "n2"]), st.booleans(), st.integers(0, 30)), max_size=12
)


class Watching(FakeEvictor):
    """Notes which pods were requested whose nodes had no taint, as the controller had them."""

    flow: FakeEdgesController

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Look at the node of the pod at the moment of the request."""
        view = self.flow.controller.view
        found = view.pod(request.uid)
        info = None if found is None else view.node_info(found.node)
        if info is None or info.node is None or not info.node.taints:
            self.wrong.append(request.name)
        return await super().evict(request)


@given(st.integers(1, 3), st.integers(0, 25), st.integers(0, 25), MOMENTS)
def test_at_the_moment_of_each_request_the_taint_is_there(
    at_once: int, write_tenths: int, answer_tenths: int, moments: list[tuple[str, bool, int]]
) -> None:
    async def play() -> list[str]:
        evictor = Watching()
        flow = FakeEdgesController(
            made("RemovePodsViolatingNodeTaints", {}), evictor=evictor, max_concurrent=at_once
        )
        evictor.flow, evictor.slow_s = flow, answer_tenths / 10
        flow.intent_store.slow_s = write_tenths / 10
        pods = [pod(f"{on}-{n}", on=on) for on in ("n1", "n2") for n in range(3)]
        async with flow.running():
            flow.sync_and_resume(*TWO, node("n3"), *pods)
            for version, (name, is_tainted, tenths) in enumerate(moments, 1):
                taints = ("repair:NoSchedule",) if is_tainted else ()
                flow.deliver(node(name, *taints, version=version))
                await anyio.sleep(tenths / 10)
            await anyio.sleep(60)
        return evictor.wrong

    clock = trio.testing.MockClock(autojump_threshold=0)
    assert anyio.run(play, backend="trio", backend_options={"clock": clock}) == []
