"""A true cluster, its links to a core, and an API server that checks every call made to it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import hypothesis
import msgspec
import pytest
from anyio.abc import TaskGroup

from reactive_desched.api.event import EventData
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.pipeline import Pipeline, build_pipeline
from reactive_desched.controller.readiness import MANUAL, STARTUP
from reactive_desched.errors import ClusterError, JournalUnavailable
from reactive_desched.eviction.client import EvictionClient
from reactive_desched.model.brakes import BrakeNotice
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Decision, Evict
from reactive_desched.model.disruptions import EndedPod
from reactive_desched.model.evaluation import DecisionContext, Evaluation, Intent
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import FutileClearing, MoveEnd
from reactive_desched.model.objects import (
    ClusterObject,
    Node,
    Pod,
    PodDisruptionBudget,
)
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import (
    BY_EVICTION_API,
    Accepted,
    Conflict,
    Denied,
    EffectUnknown,
    EvictionRequest,
    EvictionResponse,
    NotFound,
    Outcome,
    PdbRefused,
    PodFound,
    PodLookup,
    PodNotFound,
    ServerError,
    TooManyRequests,
)
from reactive_desched.policy.configuration import Configuration
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.resources import RESOURCES
from reactive_desched.testing.builders import node, pod
from tests.support.flow import RecordingObserver, never_suspended, resource_of
from tests.support.trio_order import task_order

# The order of tasks is trio's choice: drawn from the example, or failures would not repeat.
hypothesis.register_random(task_order())

NO: Mapping[str, EvictionResponse] = {
    "overloaded": TooManyRequests("slow down", 7.0),
    "denied": Denied(403, "no"),
    "failed": ServerError(500, "two budgets"),
    "replaced": Conflict("conflict"),
}
Story = Iterable[tuple[Any, ...]]  # verbs of World with their arguments
POOLS = {"n1": "a", "n2": "a", "n3": "b"}
FIRST_RETRY_S, LAG_S, DELETION_S, LONG_ENOUGH_S = 5.0, 0.2, 3.0, 4 * 3600.0
SLACK = 1e-6


class FailingIntentStore:
    """A ledger whose disk fails and heals while evictions are under way; outcomes wait it out.

    It remembers intents by the pod's uid, and outcomes; a second outcome is an error.

    `recovered` is notified when the disk works again.
    """

    def __init__(self, recovered: Wakeup) -> None:
        self.intents: dict[str, str] = {}
        self.outcomes: dict[str, str] = {}
        self.fault = ""
        self.slow_s = 0.0
        self._recovered = recovered

    def record(self, data: EventData, subject: str, *, version: str = "", cause: str = "") -> None:
        """Record no other events."""

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Record no decisions."""

    def record_brake(self, notice: BrakeNotice) -> None:
        """Remember no brakes."""

    def set_fault(self, fault: str, slow_s: float) -> None:
        """Fail, or work again."""
        self.fault, self.slow_s = fault, slow_s
        self._recovered.notify()

    async def record_intent(self, intent: Intent) -> str:
        """Write an intent."""
        await anyio.sleep(self.slow_s)
        if self.fault:
            raise JournalUnavailable(self.fault)
        intent_id = f"i{len(self.intents)}"
        self.intents[intent_id] = intent.pod.uid
        return intent_id

    def case_of(self, intent_id: str) -> str:
        """Return a name of its own for the case of each intent."""
        return f"case-of-{intent_id}"

    async def record_outcome(self, intent_id: str, outcome: Outcome) -> None:
        """Write an outcome as soon as the disk is well."""
        await anyio.sleep(self.slow_s)
        while self.fault:
            await self._recovered.wait()
        assert intent_id in self.intents
        assert intent_id not in self.outcomes, "a second outcome"
        self.outcomes[intent_id] = outcome.result

    async def record_futile_cleared(self, clearing: FutileClearing) -> None:
        """Remember nothing."""

    async def written(self) -> None:
        """Return at once: nothing waits to be written."""

    def record_follow_up(self, intent_id: str, end: MoveEnd) -> None:
        """Remember nothing: nobody waits for it."""

    def record_correction(self, intent_id: str, outcome: Outcome) -> None:
        """Remember nothing."""

    def record_disruption(self, ended: EndedPod) -> None:
        """Remember nothing."""

    def open_uids(self) -> list[str]:
        """Return the pods whose intent has no outcome yet."""
        return [uid for key, uid in self.intents.items() if key not in self.outcomes]


class Watcher(RecordingObserver):
    """Checks every decision to evict: the finding must stand in the picture of that moment."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self.world = world

    def on_decision(self, evaluation: Evaluation) -> None:
        if isinstance(evaluation.decision, Evict):
            assert evaluation.finding.pod.uid in flagged(self.world.core), "the finding is gone"


class World(EvictionClient):
    """The true cluster; what may happen to it are the verbs of a story."""

    group: TaskGroup

    def __init__(self, plan: Configuration, replies: Iterable[tuple[str, float]]) -> None:
        self.plan = plan
        self.replies = list(replies)
        self.truth: dict[tuple[str, str], ClusterObject] = {}
        self.lost: dict[str, list[tuple[str, ClusterObject]]] = {}
        self.work_available = Wakeup()
        self.disk = FailingIntentStore(self.work_available)
        self.under_way: set[str] = set()
        self.accepted: set[str] = set()
        self.not_before: dict[str, float] = {}
        self.evicted: list[tuple[float, Pod]] = []
        self.unreadable = 0
        self.pause_reason: str | None = "not begun"
        self._version = 0
        self.pipeline = self._build_pipeline()
        self.core = self.pipeline.controller
        self.feeds = self.pipeline.event_handlers

    def observer(self) -> Observer:
        return Watcher(self)

    def _build_pipeline(self) -> Pipeline:
        return build_pipeline(
            self.plan,
            recorder=self.disk,
            evictor=self,
            observer=self.observer(),
            work_available=self.work_available,
            suspend=never_suspended(),
            clock=anyio.current_time,
            wall_clock=anyio.current_time,
        )

    async def live(self, start: Story, story: Story) -> None:
        """Begin with the nodes and what `start` makes, live through the story, and calm down."""
        async with anyio.create_task_group() as self.group:
            await self.group.start(self.pipeline.evictions.run)
            self.group.start_soon(self.pipeline.worker.run)
            for name, pool in POOLS.items():
                await self.node(name, {"labels": {"pool": pool}, "zone": f"zone-{pool}"})
            await self.run_story(start)
            for resource in RESOURCES:
                await self.relist(resource)
            await self.hold(None)
            await self.run_story(story)
            await self.calm_down()
            self.group.cancel_scope.cancel()

    async def run_story(self, story: Story) -> None:
        for verb, *arguments in story:
            await getattr(self, verb)(*arguments)

    # --- the verbs ---

    async def wait(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def node(self, name: str, fields: Mapping[str, Any]) -> None:  # as node() takes them
        rest = {key: value for key, value in fields.items() if key != "taints"}
        self.put(node(name, *fields.get("taints", ()), **rest))

    async def taint(self, name: str, *taints: str) -> None:
        """Give a node these taints and leave everything else as it is."""
        if isinstance(old := self.truth.get(("nodes", name)), Node):
            self.put(msgspec.structs.replace(old, taints=node(name, *taints).taints))

    async def pod(self, name: str, fields: Mapping[str, Any]) -> None:  # as pod() takes them
        """Make a pod, or change what may change of the one that has the name."""
        old = self.named(name)
        if old is None:
            new = pod(name, uid=f"{name}-{self._version}", **fields)
            started = int(anyio.current_time())
            self.put(
                msgspec.structs.replace(
                    new, start_delay_s=started - new.created_s, pvc_names=("data",)
                )
            )
        elif not old.is_terminating:  # who is leaving changes no more
            new = pod(name, uid=old.uid, **{**fields, "on": old.node})
            delay_s = (old.started_s or 0) - new.created_s
            self.put(msgspec.structs.replace(new, start_delay_s=delay_s, pvc_names=old.pvc_names))

    async def drop(self, resource: str, key: str) -> None:
        """Delete an object at once; of pods, whoever has the name."""
        found = self.named(key) if resource == "pods" else self.truth.get((resource, key))
        if found is not None:
            self.take_away(found)

    async def terminate(self, name: str) -> None:
        if (found := self.named(name)) is not None and not found.is_terminating:
            self.begin_deletion(found)

    async def thing(self, thing: ClusterObject) -> None:
        self.put(thing)

    async def lose(self, resource: str) -> None:
        self.lost.setdefault(resource, [])
        self.feeds[resource].mark_stale("link lost")

    async def resume(self, resource: str) -> None:
        """Hear what was missed, then be live again."""
        for verb, thing in self.lost.pop(resource, []):
            getattr(self.feeds[resource], verb)(thing)
        self.feeds[resource].mark_synced()

    async def relist(self, resource: str) -> None:
        """Take in a whole new list, not all at once, then what happened meanwhile."""
        listed = [thing for (kind, _), thing in self.truth.items() if kind == resource]
        self.lost[resource] = []
        feed = self.feeds[resource]
        feed.begin_replace()
        for thing in listed:
            feed.upsert(thing)
        await anyio.sleep(0.1)
        feed.end_replace()
        await self.resume(resource)

    async def hold(self, reason: str | None) -> None:
        self.pause_reason = reason
        readiness = self.core.readiness
        if reason is None:
            readiness.resume(STARTUP)
            readiness.resume(MANUAL)
        else:
            readiness.pause(MANUAL, reason)
        self.pipeline.worker.wake()

    async def reconfigure(self, plan: Configuration) -> None:
        """Let another policy be in force from now on."""
        self.plan = plan
        self.core.reconfigure(plan)
        self.pipeline.worker.wake()

    async def fail(self, fault: str, slow_s: float) -> None:
        """Let the disk fail or heal, and be as slow as that."""
        self.disk.set_fault(fault, slow_s)

    async def hide(self, times: int) -> None:
        """Let reading pods back fail so many times."""
        self.unreadable = times

    async def calm_down(self) -> None:
        """End every trouble, and leave enough time for all that is due."""
        self.replies.clear()
        self.unreadable = 0
        for resource in RESOURCES:
            await self.resume(resource)
        for thing in list(self.truth.values()):
            if isinstance(thing, PodDisruptionBudget):
                self.put(msgspec.structs.replace(thing, disruptions_allowed=100))
        await self.hold(None)
        await anyio.sleep(1)
        self.disk.set_fault("", 0)
        await anyio.sleep(LONG_ENOUGH_S)

    # --- the true cluster ---

    def named(self, name: str) -> Pod | None:
        things = self.truth.values()
        return next((t for t in things if isinstance(t, Pod) and t.name == name), None)

    def put(self, thing: ClusterObject) -> None:
        self._version += 1
        assert isinstance(thing, msgspec.Struct)
        thing = msgspec.structs.replace(thing, resource_version=self._version)
        self.truth[resource_of(thing), thing.key] = thing
        self._tell("upsert", thing)

    def take_away(self, thing: ClusterObject) -> None:
        if self.truth.pop((resource_of(thing), thing.key), None) is not None:
            self._tell("remove", thing)

    async def _delete_soon(self, uid: str) -> None:
        """Let the watch tell of an accepted eviction a little later than the answer."""
        await anyio.sleep(LAG_S)
        found = self.truth.get(("pods", uid))
        if isinstance(found, Pod) and not found.is_terminating:
            self.begin_deletion(found)

    def begin_deletion(self, found: Pod) -> None:
        leaving = msgspec.structs.replace(found, deletion_s=int(anyio.current_time()))
        self.put(leaving)
        self.group.start_soon(self._bury, leaving)

    async def _bury(self, leaving: Pod) -> None:
        await anyio.sleep(DELETION_S)
        self.take_away(leaving)

    def _tell(self, verb: str, thing: ClusterObject) -> None:
        resource = resource_of(thing)
        if resource in self.lost:
            self.lost[resource].append((verb, thing))
        else:
            getattr(self.feeds[resource], verb)(thing)

    # --- the API server ---

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        self._check(request.uid)
        asked_at = anyio.current_time()
        self.under_way.add(request.uid)
        kind, delay_s = self.replies.pop(0) if self.replies else ("accepted", 0.0)
        await anyio.sleep(delay_s)
        answer = self._answer(kind, request, asked_at)
        self.under_way.discard(request.uid)
        if kind in NO:
            wait_s = getattr(answer, "retry_after_s", None) or FIRST_RETRY_S
            self.not_before[request.uid] = anyio.current_time() + wait_s
        return answer

    def _check(self, uid: str) -> None:
        """Fail when nobody may call now."""
        assert not self.lost, "called on a picture that is not live"
        assert self.pause_reason is None, "called while held back"
        assert not self.disk.fault, "called while nothing can be written down"
        assert uid not in self.under_way, "two calls for one pod"
        assert uid not in self.accepted, "asked to leave again"
        assert self.disk.open_uids().count(uid) == 1, "not written down before"
        assert anyio.current_time() >= self.not_before.get(uid, 0) - SLACK, "asked again too soon"

    def _answer(self, kind: str, request: EvictionRequest, asked_at: float) -> EvictionResponse:
        if kind in NO:
            return NO[kind]
        if kind == "budget":
            return PdbRefused("needs more healthy pods")
        if kind == "lost before":
            return EffectUnknown("connection reset")
        found = self.named(request.name)
        if found is None:
            return NotFound()
        if found.uid != request.uid:
            return Conflict("the uid differs")
        if not found.is_terminating and found.uid not in self.accepted:
            self.group.start_soon(self._delete_soon, found.uid)
            self.evicted.append((asked_at, found))
            self.accepted.add(found.uid)
        return Accepted() if kind == "accepted" else EffectUnknown("connection reset")

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        await anyio.lowlevel.checkpoint()
        if self.unreadable:
            self.unreadable -= 1
            raise ClusterError("unreachable")
        found = self.named(name)
        if found is None:
            return PodNotFound()
        leaving = found.is_terminating or found.uid in self.accepted
        mark = BY_EVICTION_API if found.uid in self.accepted else ""
        return PodFound(found.uid, leaving, disruption=mark)

    # --- what must be so in the end ---

    def known(self) -> dict[tuple[str, str], ClusterObject | None]:
        """Return all that the core's picture holds."""
        get, keys = self.core.state.get, self.core.state.keys
        return {(kind, key): get(kind, key) for kind in RESOURCES for key in keys(kind)}

    def flagged_afresh(self) -> set[tuple[str, str, str]]:
        """Name profile, plugin and uid of all that a fresh sweep of the true cluster flags."""
        return {(i.profile, i.name, f.pod.uid) for i, f in findings(self._fresh())}

    def allowed_afresh(self) -> set[str]:
        """Name the pods that a fresh sweep flags and every gate lets go."""
        now = anyio.current_time()
        return {
            finding.pod.name
            for instance, finding in findings(self._fresh())
            if all(step.check(finding, now) is None for step in instance.gate.filters)  # type: ignore[attr-defined]  # a Gate
        }

    def waiting(self) -> set[tuple[str, str, str]]:
        """Name what is parked, but for pods on nodes that do not count any more: they linger."""
        keys = self.core.evaluator.queue._blocked._blocked
        placed = self.core.view.active_pod
        return {(i.profile, i.name, uid) for i, _, uid in keys if placed(uid) is not None}

    def _fresh(self) -> Controller:
        """Another core that sees the true cluster for the first time."""
        core = self._build_pipeline().controller
        for thing in self.truth.values():
            core.state.upsert(thing)
        return core


def findings(core: Controller) -> Iterator[tuple[PluginInstance, Finding]]:
    """Judge everything in what a core sees, afresh."""
    for instance in core.evaluator.instances:
        for subject in instance.plugin.subjects(Resynced(), instance.view):
            for opinion in instance.plugin.evaluate(subject, instance.view):
                if isinstance(opinion, Finding):
                    yield instance, opinion


def flagged(core: Controller) -> set[str]:
    return {finding.pod.uid for _, finding in findings(core)}


@pytest.fixture(scope="session")
def make_world() -> type[World]:
    return World
