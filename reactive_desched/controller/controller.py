"""Puts the parts together, without the edges: from a policy to something that can be fed.

Everything that touches the world comes in as an argument, so the demo, the benchmark and the
tests drive the very same assembly that `run` does.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import anyio
from msgspec import Struct

from reactive_desched.controller.backoff import Backoff
from reactive_desched.controller.evaluation import Judgement
from reactive_desched.controller.evaluator import Engine
from reactive_desched.controller.event_handler import ResourceFeed
from reactive_desched.controller.subscriptions import AnyPlugin, Instance
from reactive_desched.controller.suspend import Vigil
from reactive_desched.controller.sync import Synced
from reactive_desched.controller.worker import Clock, Stage
from reactive_desched.errors import Malformed
from reactive_desched.eviction.executor import Evictions, Evictor
from reactive_desched.eviction.executor import Ledger as IntentLedger
from reactive_desched.fit.scheduler import SchedulerFit
from reactive_desched.fit.upstream import SCHEDULER, UPSTREAM, Fit, NodeSearch
from reactive_desched.gate.conflict_partners import Leaving
from reactive_desched.gate.disruption import DisruptionBudgets
from reactive_desched.gate.evictor import Guards, NamespaceSelector, NodeFit, TwoNodes
from reactive_desched.gate.filters import guards
from reactive_desched.gate.gate import Gate, Step
from reactive_desched.gate.in_flight import InFlight
from reactive_desched.gate.rate_limits import Budgets, Rate
from reactive_desched.gate.windows import Windows
from reactive_desched.model.accounts import Account
from reactive_desched.model.changes import Change, Resynced
from reactive_desched.model.decisions import Decision, Evict, Room
from reactive_desched.model.intents import Intent
from reactive_desched.model.labels import Selector
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import Outcome
from reactive_desched.policy.evictor import DefaultEvictorArgs, NoEvictionPolicy
from reactive_desched.primitives.debounce import Pause
from reactive_desched.state.cluster import DISPENSABLE, RESOURCES, ClusterState
from reactive_desched.state.view import ClusterView


class ProfilePlan(Struct, frozen=True):
    """One profile, ready to be put together: its plugins in order and its evictor."""

    name: str
    plugins: tuple[AnyPlugin, ...]
    evictor: DefaultEvictorArgs


class Plan(Struct, frozen=True):
    """What a policy and settings come down to; times in seconds."""

    profiles: tuple[ProfilePlan, ...]
    selects: Selector
    rates: Mapping[str, Rate | None]
    limits: Mapping[str, int | None]
    pause: Callable[[str], Pause]
    backoff_first_s: float = 5.0
    backoff_longest_s: float = 300.0
    at_once: int = 50
    grace_period_s: int | None = None
    node_fit: str = SCHEDULER


class Listener(Protocol):
    """Hears what happens, to count, log or print it; must be quick and must not raise."""

    def changed(self, changes: Iterable[Change]) -> None:
        """These changes came in."""
        ...

    def judged(self, judgement: Judgement) -> None:
        """A finding was decided on."""
        ...

    def ended(self, judgement: Judgement, outcome: Outcome, asked_at: float, /) -> None:
        """An eviction has its outcome; the server was asked at `asked_at`, in monotonic seconds."""
        ...

    def held_back(self, reason: str | None) -> None:
        """Nothing is judged or evicted from now on, for this reason; None means it is again."""
        ...

    def malformed(self, resource: str, error: Malformed, /) -> None:
        """An object could not be read and was skipped."""
        ...


class Ledger(IntentLedger, Protocol):
    """The durable record of verdicts, of intents and of their ends."""

    def decided(self, account: Account, decision: Decision) -> None:
        """Write down a verdict that is news, soon; nobody waits for it."""
        ...


class Core:
    """The descheduler between its edges: feeds in, evictions out.

    `clock` is the loop's monotonic clock, `wall_clock` the time of day, both in seconds. Nothing
    is judged or evicted before `vigil` had its look.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        ledger: Ledger,
        evictor: Evictor,
        listener: Listener,
        clock: Clock,
        wall_clock: Callable[[], float],
        may_write: Callable[[], str | None] = lambda: None,
        vigil: Vigil | None = None,
    ) -> None:
        self.state = ClusterState(plan.selects)
        self.view = ClusterView(self.state, wall_clock)
        self.synced = Synced(RESOURCES, self._sync_changed, dispensable=DISPENSABLE)
        self.budgets = Budgets(plan.rates)
        self._windows = Windows(plan.limits)
        self.in_flight = InFlight(clock)
        self.vigil = vigil or Vigil(clock)
        self._plan = plan
        self._clock = clock
        self._listener = listener
        self._ledger = ledger
        self._fits: dict[str, NodeSearch] = {}
        self._fit = self._strength(plan.node_fit)
        self._disruption = DisruptionBudgets(self.view, clock)
        self._acting: dict[PodKey, Judgement] = {}
        self.started = anyio.Event()
        self._may_write = may_write
        self.held_back: str | None = "still starting"
        self._told: str | None = self.held_back
        self._backoff = Backoff(plan.backoff_first_s, plan.backoff_longest_s)
        self.engine = Engine(
            self._instances(),
            self.view,
            self._judged,
            backoff=self._backoff,
            room_grew=self._room_grew,
            room_news=self._room_news,
        )
        self.stage = Stage(self.engine, self._may_judge, clock)
        self.evictions = Evictions(
            ledger, evictor, self.why_idle, self._ended, clock, at_once=plan.at_once
        )

    def adopt(self, plan: Plan) -> None:
        """Go on by another plan and look at everything again.

        The picture stays, and so does every memory that protects: evictions under way, what was
        counted and spent, rests after failures, bookings. What was decided and not yet asked for
        is withheld. How many evictions may be under way at once stays as it was at the start.
        """
        now = self._clock()
        self._plan = plan
        self.evictions.recall("the policy changed")
        self.budgets.adopt(plan.rates, self.in_flight.pods(), now)
        self._windows.adopt(plan.limits, self.in_flight.pods())
        self._backoff.adopt(plan.backoff_first_s, plan.backoff_longest_s)
        changes = self.state.select(plan.selects)
        self._fit = self._strength(plan.node_fit)
        self._fit.restart()
        self.engine.adopt(self._instances(), now)
        if self.engine.started:
            self._note([Resynced(), *changes])
            self.stage.poke(now)

    def feed(self, resource: str) -> ResourceFeed:
        """Make the way in for one resource."""
        malformed = self._listener.malformed
        return ResourceFeed(resource, self.state, self.synced, self.tell, malformed)

    def why_idle(self) -> str | None:
        """Say why nothing may be judged or evicted now, or None."""
        self.vigil.look()
        return self.held_because() or self._may_write()

    def held_because(self) -> str:
        """Say what we were told to wait for, or what our picture lacks; empty for nothing."""
        return self.held_back or self.synced.why_not() or ""

    def _may_judge(self) -> bool:
        self.vigil.look()
        return self._told is None and self._may_write() is None

    def poke(self) -> None:
        """What kept us from judging may be over."""
        self.stage.poke(self._clock())

    def hold_back(self, reason: str | None) -> None:
        """Judge and evict nothing, for this reason, until told None."""
        self.held_back = reason
        self._sync_changed()

    def size(self) -> dict[str, int]:
        """Count what we know of the cluster."""
        return {"nodes": self.state.nodes.counting, "pods": len(self.state.pods)}

    def tell(self, changes: list[Change], version: int = 0) -> None:
        """Take in changes of the state and act on what is due at once.

        `version` is the resourceVersion of the object they came from. Until the engine has
        started they are the first picture being drawn, and no news.
        """
        if not self.engine.started:
            return
        self._note(changes)
        now = self._clock()
        self.engine.observe(changes, now, version)
        self.stage.poke(now)

    def _note(self, changes: list[Change]) -> None:
        self._listener.changed(changes)
        self._disruption.observe(changes)
        self._fit.observe(changes)

    def _sync_changed(self) -> None:
        """Begin once the first whole picture is there; go on when it is live again."""
        reason = self.held_because() or None
        if reason != self._told:
            self._told = reason
            self._listener.held_back(reason)
        if reason is not None:
            return
        now = self._clock()
        if not self.engine.started:
            self.engine.resync(now)
            self.started.set()
        self.stage.poke(now)

    def _judged(self, judgement: Judgement) -> None:
        """Start an eviction first and tell about it then: words can wait, the request need not."""
        if judgement.is_news:
            account = account_of(judgement, self.view)
            if isinstance(judgement.decision, Evict):
                self._acting[judgement.finding.pod.uid] = judgement
                self.evictions.submit(Intent(account, self._plan.grace_period_s))
            self._ledger.decided(account, judgement.decision)
        self._listener.judged(judgement)

    def _ended(self, intent: Intent, outcome: Outcome, asked_at: float) -> None:
        judgement = self._acting.pop(intent.pod.uid)
        now = self._clock()
        self.engine.settled(judgement, outcome, now)
        self._listener.ended(judgement, outcome, asked_at)
        self.stage.poke(now)

    def _instances(self) -> list[Instance]:
        return [
            Instance(profile.name, plugin, gate, self._plan.pause(plugin.name))
            for profile in self._plan.profiles
            for gate in [self._gate(profile.evictor)]
            for plugin in profile.plugins
        ]

    def _strength(self, name: str) -> NodeSearch:
        """Return the node fit of this strength; out of use it keeps what it booked."""
        if name not in self._fits:
            upstream = name == UPSTREAM
            self._fits[name] = Fit(self.view) if upstream else SchedulerFit(self.view, self._clock)
        return self._fits[name]

    def _room_grew(self) -> None:
        self._fit.room_grew()

    def _room_news(self) -> Iterable[Room]:
        return self._fit.news()

    def _gate(self, args: DefaultEvictorArgs) -> Gate:
        """Set up a profile's gates: what is final first, what costs a token last."""
        mandatory = args.no_eviction is NoEvictionPolicy.MANDATORY
        steps: list[Step] = [
            self.in_flight,
            Guards(guards(args), self.view, mandatory_no_eviction=mandatory),
            TwoNodes(self.view),
            Leaving(self.view, self.in_flight),
        ]
        selector = args.namespace_label_selector
        if selector is not None and not selector.is_empty:
            steps.append(NamespaceSelector(selector, self.view))
        steps.append(NodeFit(self._fit, args.node_selector, evictor_asks=args.node_fit))
        steps.append(self._disruption)
        memories = (self.in_flight, self._disruption, self._fit)
        return Gate(tuple(steps), self._windows, self.budgets, memories)


def account_of(judgement: Judgement, view: ClusterView) -> Account:
    """Gather what the record tells of a judgement."""
    pod = judgement.finding.pod
    return Account(
        judgement.finding,
        judgement.instance.profile,
        judgement.cause.trigger,
        view.owner_chain(pod),
        view.zone(pod.node),
    )
