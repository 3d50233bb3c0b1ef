"""The whole pipeline in memory: a fake cluster edge, a fake ledger, and the real rest."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Self

import anyio
import msgspec

from reactive_desched.controller.controller import Core, Plan, ProfilePlan
from reactive_desched.controller.evaluation import Judgement
from reactive_desched.controller.subscriptions import AnyPlugin
from reactive_desched.errors import JournalUnavailable, Malformed
from reactive_desched.fit.upstream import SCHEDULER
from reactive_desched.gate.rate_limits import Rate
from reactive_desched.model.accounts import Account
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Decision, Defer, Refuse
from reactive_desched.model.intents import Intent
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.outcomes import (
    Accepted,
    Answer,
    EvictionRequest,
    Outcome,
    PodAbsent,
    PodNow,
    PodPresent,
)
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.primitives.debounce import Pause
from reactive_desched.state.cluster import RESOURCES


def resource_of(thing: ClusterObject) -> str:
    """Name an object's API resource: its kind, small and many."""
    kind = type(thing).__name__.lower()
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


class MemoryLedger:
    """Keeps intents and outcomes in memory, in the order they were written.

    It can take `slow_s` to write, or refuse intents for a `fault`.
    """

    def __init__(self) -> None:
        self.fault = ""
        self.slow_s = 0.0
        self.intents: list[Intent] = []
        self.lines: list[tuple[str, str, str]] = []
        self.verdicts: list[tuple[Account, Decision]] = []
        self._names: dict[str, str] = {}

    def decided(self, account: Account, decision: Decision) -> None:
        """Write a verdict."""
        self.verdicts.append((account, decision))

    async def begin(self, intent: Intent) -> str:
        """Write an intent."""
        await anyio.sleep(self.slow_s)
        if self.fault:
            raise JournalUnavailable(self.fault)
        self.intents.append(intent)
        intent_id = f"i{len(self._names) + 1}"
        self._names[intent_id] = intent.pod.name
        self.lines.append(("intent", intent.pod.name, str(intent.account.trigger)))
        return intent_id

    async def end(self, intent_id: str, outcome: Outcome) -> None:
        """Write an outcome."""
        await anyio.sleep(self.slow_s)
        self.lines.append(("outcome", self._names[intent_id], outcome.result))


class FakeEvictor:
    """Answers from a script per pod name, then with Accepted; remembers what it was asked.

    An answer takes `slow_s`; `open` calls have none yet, and there were `most_open` at once.
    """

    def __init__(self) -> None:
        self.script: dict[str, list[Answer]] = {}
        self.slow_s = 0.0
        self.requests: list[EvictionRequest] = []
        self.asked: list[tuple[str, float]] = []
        self.open, self.most_open = 0, 0
        self.pods: dict[str, Pod] = {}

    async def evict(self, request: EvictionRequest) -> Answer:
        """Answer one request."""
        await anyio.lowlevel.checkpoint()
        self.requests.append(request)
        self.asked.append((request.name, anyio.current_time()))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        await anyio.sleep(self.slow_s)
        self.open -= 1
        script = self.script.get(request.name)
        return script.pop(0) if script else Accepted()

    async def look(self, namespace: str, name: str) -> PodNow:
        """Read a pod that a test has put here."""
        await anyio.lowlevel.checkpoint()
        pod = self.pods.get(f"{namespace}/{name}")
        return PodPresent(pod.uid, pod.is_terminating) if pod is not None else PodAbsent()


class Diary:
    """Remembers every decision and outcome as short tuples."""

    def __init__(self) -> None:
        self.decisions: list[tuple[str, str, str]] = []
        self.outcomes: list[tuple[str, str]] = []
        self.judgements: list[Judgement] = []

    def changed(self, changes: Iterable[Change]) -> None:
        """Take no notice."""

    def held_back(self, reason: str | None) -> None:
        """Take no notice."""

    def malformed(self, resource: str, error: Malformed, /) -> None:
        """Fail: a test's objects are whole."""
        raise AssertionError(f"{resource}: {error}")

    def judged(self, judgement: Judgement) -> None:
        """Note the decision."""
        decision = judgement.decision
        gate = decision.gate if isinstance(decision, Defer | Refuse) else ""
        self.judgements.append(judgement)
        self.decisions.append((type(decision).__name__, judgement.finding.pod.name, gate))

    def ended(self, judgement: Judgement, outcome: Outcome, _: float, /) -> None:
        """Note the outcome."""
        self.outcomes.append((judgement.finding.pod.name, outcome.result))


class FedCore:
    """A core that is fed by hand, and runs on the test's own clock."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.feeds = {resource: core.feed(resource) for resource in RESOURCES}

    def list_all(self, *things: ClusterObject) -> None:
        """Deliver a whole picture."""
        for feed in self.feeds.values():
            feed.begin_replace()
        self.deliver(*things)
        for feed in self.feeds.values():
            feed.end_replace()
            feed.fresh()

    def sync(self, *things: ClusterObject) -> None:
        """Deliver the first whole picture and let the core begin."""
        self.list_all(*things)
        self.core.hold_back(None)

    def deliver(self, *things: ClusterObject) -> None:
        """Deliver objects as they are now."""
        for thing in things:
            self.feeds[resource_of(thing)].upsert(thing)

    def delete(self, *things: ClusterObject) -> None:
        """Deliver deletions."""
        for thing in things:
            self.feeds[resource_of(thing)].remove(thing)

    def terminate(self, pod: Pod) -> None:
        """Deliver a pod with its deletion begun."""
        self.deliver(msgspec.structs.replace(pod, deletion_s=1))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run the stages while the block lasts."""
        async with anyio.create_task_group() as group:
            await group.start(self.core.evictions.run)
            group.start_soon(self.core.stage.run)
            yield self
            group.cancel_scope.cancel()


class Flow(FedCore):
    """A core of one profile with fakes at its edges."""

    def __init__(
        self,
        *plugins: AnyPlugin,
        evictor_args: DefaultEvictorArgs | None = None,
        pause: Pause = Pause(0, 0),  # noqa: B008 -- frozen
        rates: Mapping[str, Rate | None] | None = None,
        limits: Mapping[str, int | None] | None = None,
        node_fit: str = SCHEDULER,
    ) -> None:
        self.ledger = MemoryLedger()
        self.evictor = FakeEvictor()
        self.diary = Diary()
        self.plan = Plan(
            (ProfilePlan("test", plugins, evictor_args or DefaultEvictorArgs()),),
            EVERYTHING,
            rates or {},
            limits or {},
            lambda _: pause,
            node_fit=node_fit,
        )
        core = Core(
            self.plan,
            ledger=self.ledger,
            evictor=self.evictor,
            listener=self.diary,
            clock=anyio.current_time,
            wall_clock=anyio.current_time,
        )
        super().__init__(core)

    @property
    def asked(self) -> list[str]:
        """The names the evictor was asked for, in order."""
        return [name for name, _ in self.evictor.asked]
