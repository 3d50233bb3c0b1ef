"""All that decides whether a pod may be evicted now: gates, limits, brakes, and the ledger."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

from reactive_desched.brakes.brakes import Brakes
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.gate.annotated import AnnotatedAnswers
from reactive_desched.gate.approval import Answers, Approval
from reactive_desched.gate.controller_rules import controller_rules
from reactive_desched.gate.disruption import PdbFilter
from reactive_desched.gate.evictor import DefaultEvictor, LargePods, MinReadyNodes
from reactive_desched.gate.gang_moves import GangMoves
from reactive_desched.gate.gate import Gate, GateFilter, UnlessCleanUp
from reactive_desched.gate.guards import Guards
from reactive_desched.gate.in_flight import ConflictPartnersLeaving, InFlightEvictions
from reactive_desched.gate.limit_status import LimitStatus, limit_status
from reactive_desched.gate.move_sets import MoveSets
from reactive_desched.gate.named_budgets import NamedBudgets
from reactive_desched.gate.policy_limits import PluginNodeLimits, PolicyLimits
from reactive_desched.gate.rate_limits import EvictionRateLimiter
from reactive_desched.gate.schedules import EvictionSchedules
from reactive_desched.gate.workloads import Workloads
from reactive_desched.ledger.eviction import scopes_of
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.changes import Change
from reactive_desched.model.history import PastEviction
from reactive_desched.model.labels import EVERYTHING, Selector
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE
from reactive_desched.moves.limits import MovingLimits
from reactive_desched.moves.memory import MoveMemory
from reactive_desched.moves.moved_workloads import MovedWorkloads
from reactive_desched.moves.tracker import MoveTracker
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.state.cluster import ClusterView
from reactive_desched.telemetry.metrics import Metric


class ChangeFollower(Protocol):
    """Follows the changes of the cluster that are of its types."""

    @property
    def reacts_to(self) -> Iterable[type[Change]]:
        """The types of changes that it follows."""
        ...

    def apply_changes(self, changes: Sequence[Change], now: float) -> bool:
        """Follow changes of these types; say whether there may be work. `now` is monotonic."""
        ...


class ChangeFollowers:
    """Hands each change to all that follow its type.

    Their order is free: none reads what another one keeps of the same change.
    """

    def __init__(self, followers: Iterable[ChangeFollower]) -> None:
        self._of: dict[type[Change], list[ChangeFollower]] = {}
        for follower in followers:
            for kind in follower.reacts_to:
                self._of.setdefault(kind, []).append(follower)

    def apply(self, changes: Iterable[Change], now: float) -> bool:
        """Let them follow these changes; say whether there may be work. `now` is monotonic."""
        may_work = False
        for change in changes:
            for follower in self._of.get(type(change), ()):
                may_work |= follower.apply_changes((change,), now)
        return may_work


class EvictionControls:
    """The controls over evictions that all profiles share, and the gate of each profile.

    What is shared outlives a reload of the policy: evictions in flight, counted evictions, spent
    tokens, assumed disruptions of PodDisruptionBudgets, reserved capacity, the brakes, moves under
    way, and what is remembered of them.

    Those of evictions that are only observed have rates, limits, reservations and a memory of their
    own `beside` those of evictions that are carried out, and the same brakes. A `dry_run` writes
    nothing, so its sets of moves begin without a taint.
    """

    def __init__(
        self,
        view: ClusterView,
        clock: Callable[[], float],
        config: Configuration,
        ledger: EvictionLedger,
        beside: "EvictionControls | None" = None,
        *,
        dry_run: bool = False,
    ) -> None:
        self._beside = beside
        self.clock = clock
        self.ledger = ledger
        self.answers = Answers()
        self.annotated_answers = AnnotatedAnswers(view, config.controller.proposals)
        self.in_flight = InFlightEvictions(self.ledger, clock)
        self.rate_limiter = EvictionRateLimiter(
            config.controller.budgets,
            partial(scopes_of, view=view),
            lambda: view.eligible_node_count,
        )
        window_s = config.controller.budgets.window_s
        self._plugin_limits = PluginNodeLimits(window_s)
        self.policy_limits = PolicyLimits(config.policy.limits.by_scope(), window_s)
        self.schedules = EvictionSchedules(
            config.controller.budgets.schedules, view, config.calendars
        )
        self.named_budgets = NamedBudgets(config.controller.budgets.named, view)
        self._pdb_filter = PdbFilter(view, clock)
        self._policy = config.policy
        self.brakes: Brakes = (
            Brakes(view, clock, config.controller.brakes, config.sick_conditions)
            if beside is None
            else beside.brakes
        )
        self.node_fit = SchedulerNodeFit(view, clock, config.controller_schedulers)
        self.memory = MoveMemory(view, config.controller.moves, self.node_fit)
        self.moves = MoveTracker(view, config, self.ledger, self.memory)
        self.moved_workloads = MovedWorkloads(config.controller.moves)
        marks = beside is None and not dry_run
        self.move_sets = MoveSets(view, config.controller.moves, self.node_fit, marks=marks)
        self.gangs = GangMoves(
            view, self.ledger, config.controller.guards, config.policy.balancing_plugins
        )
        self._moving_limits = MovingLimits(
            view, self.ledger, self.moves, self.memory, config.controller.moves
        )
        self._workloads = Workloads(view, self.ledger, clock)
        self.evictor_rules = controller_rules(self._workloads.in_flight)
        self._guards = Guards(
            view,
            config.controller.guards,
            self._workloads,
            config.policy.balancing_plugins,
            self.node_fit,
        )
        self._partners = ConflictPartnersLeaving(view, self.in_flight)
        self._policy_revision = config.policy.revision
        self._view = view
        self.ledger.add_participants(*self._participants())

    def _participants(self) -> Iterator[EvictionParticipant]:
        """Yield the participants in evictions in their order, each with what it does for one."""
        yield self.schedules  # counts it in the windows that are open when it is decided
        yield self._plugin_limits  # counts it by plugin and node
        yield self.policy_limits  # counts it by node, namespace and cluster
        yield self.named_budgets  # holds its tokens of those that concern it
        yield self.rate_limiter  # holds its tokens until the outcome, and keeps places in the queue
        yield self._workloads  # keeps the turns of StatefulSets, and asks for single replicas
        if self._beside is None:
            yield self.brakes.zones  # holds a token of a zone that is slowed
            yield self.brakes.health  # judges whether replacements get Ready
        yield self._pdb_filter  # assumes it on the pod's PodDisruptionBudget
        yield self.node_fit  # reserves capacity for the replacement until that is bound
        yield self.moved_workloads  # counts it by workload, for metrics
        yield self.memory  # remembers what came of it, before the tracker may end it
        yield self.moves  # follows it until the replacement is Ready, and then ends it

    def evictor(self, args: DefaultEvictorArgs, nodes: Selector = EVERYTHING) -> DefaultEvictor:
        """Build the evictor of a profile over the shared node fit, for the pods on these nodes."""
        return DefaultEvictor(args, self._view, self.node_fit, self.evictor_rules, nodes)

    def gate(
        self, evictor: DefaultEvictor, profile: str, *rules: GateFilter, proposes: bool = False
    ) -> Gate:
        """Build a profile's gate: final and cheap refusals first, what costs a token last.

        `rules` are further filters. With `proposes` a person is asked where all others agree.
        """
        protections = self.protections(evictor, profile)
        filters: tuple[GateFilter, ...] = (
            *protections,
            *rules,
            self._pdb_filter,
            *self._limits(profile),
        )
        if proposes:
            filters = (*filters, self.approval(profile))
        if self._beside is not None:
            filters = (self._beside.in_flight, *filters)  # what leaves would not be evicted
        return Gate(filters, self.ledger, profile, self.move_sets, self.gangs)

    def approval(self, profile: str) -> Approval:
        """Build what asks a person of a profile's evictions."""
        return Approval(self.answers, self.annotated_answers, profile)

    def protections(self, evictor: DefaultEvictor, profile: str) -> tuple[GateFilter, ...]:
        """Return a profile's filters in their order, but for budgets, limits and rates."""
        return (
            self.in_flight,
            LargePods(),
            evictor.filters,
            self._guards,
            MinReadyNodes(self._view),
            self._partners,
            *evictor.namespace_filters,
            *self.brakes.filters_of(profile),
            UnlessCleanUp(self.memory),
            UnlessCleanUp(self._moving_limits),
            UnlessCleanUp(evictor.node_fit_filter),
        )

    def job_gate(
        self, arbitration: GateFilter, kept_place: GateFilter, limits: tuple[GateFilter, ...]
    ) -> Gate:
        """Build the gate of migration jobs: arbitration protects pods in place of an evictor.

        A job says which pod to move, so neither node fit nor the memory of futile moves is asked;
        `kept_place` looks at the place of a job that keeps one; `limits` are those of jobs alone.
        """
        filters: tuple[GateFilter, ...] = (
            self.in_flight,
            LargePods(),
            arbitration,
            self._guards,
            *self.brakes.filters_of(MIGRATION_PROFILE),
            UnlessCleanUp(self._moving_limits),
            self._pdb_filter,
            kept_place,
            *limits,
            *self._limits(MIGRATION_PROFILE),
        )
        return Gate(filters, self.ledger, MIGRATION_PROFILE)

    def _limits(self, profile: str) -> tuple[GateFilter, ...]:
        return (
            self.schedules.of_profile(profile),
            self._plugin_limits,
            self.policy_limits,
            self.named_budgets.of_profile(profile),
            self.rate_limiter,
        )

    @property
    def followers(self) -> Iterator[ChangeFollower]:
        """Yield the followers of changes of the cluster, each with its purpose."""
        yield self._pdb_filter  # a budget's new status shows the evictions that were assumed on it
        yield self.node_fit  # pods that fitted no node may fit one now
        if self._beside is None:
            yield self.brakes  # one may engage or be released
        yield self.move_sets  # a node whose taint was taken off rests
        yield self.memory  # a node that differs ends what was remembered of it
        yield self.moves  # evicted pods go, and their replacements come, are bound, and Ready

    def follow_resync(self, *, under_way: bool) -> None:
        """Record whether a resync is running: not all findings are known then."""
        self._workloads.follow_resync(under_way=under_way)

    @property
    def has_other_limits(self) -> bool:
        """Say whether something besides rates limits how many pods are evicted in a time."""
        limits = self._policy.limits.by_scope().values()
        return (
            any(each is not None for each in limits)
            or self.schedules.are_set
            or self.named_budgets.are_set
        )

    def room_for_moves(self) -> list[Change]:
        """Return, once, a change for each full scope in which a move ended."""
        return list(self._moving_limits.wakes(self.ledger.take_released()))

    def restore(self, past: Sequence[PastEviction], now: float, wall_now: float) -> None:
        """Restore the evictions of earlier processes, oldest first.

        `now` is monotonic seconds, `wall_now` seconds since the epoch, as the evictions' times are.
        """
        self.ledger.restore(past, now, wall_now)
        self.gangs.restore(past, now, wall_now)
        self.rate_limiter.begin_restored()

    def begin_empty(self, now: float) -> None:
        """Let every rate begin without a token: it is not known what was evicted before."""
        self.rate_limiter.begin_empty(now)
        self.named_budgets.begin_empty(now)

    def count_late(self, past: PastEviction, now: float, wall_now: float) -> None:
        """Count an eviction that happened after its outcome had said that it did not.

        It counts against every limit, and is followed up, as one of an earlier process.
        """
        self.ledger.restore((past,), now, wall_now)
        self.moves.adopt(now)

    def collect(self, now: float) -> Iterator[Metric]:
        """Yield what holds evictions: brakes, moves, memory, rates and schedules."""
        yield from self.brakes.collect()
        yield from self.moves.collect()
        yield from self.memory.collect(now)
        yield from self.moved_workloads.collect(now)
        yield from self.rate_limiter.collect(now)
        yield from self.named_budgets.collect(now)
        yield from self.schedules.collect()

    def limit_status(self, now: float) -> LimitStatus:
        """Return what every limit allows now, in monotonic seconds."""
        return limit_status(
            self.rate_limiter, self.named_budgets, self.policy_limits, self.schedules, now
        )

    def reconfigure(self, config: Configuration, now: float) -> None:
        """Apply other rates and limits; every blocked pod is evaluated again.

        The rates warm up again where the policy differs: it may find thousands of pods.
        """
        under_way = tuple(self.ledger.open())
        self.rate_limiter.reconfigure(config.controller.budgets, now, under_way)
        if config.policy != self._policy:
            self._policy = config.policy
            self.rate_limiter.begin_warm_up(now)
        window_s = config.controller.budgets.window_s
        self.policy_limits.reconfigure(config.policy.limits.by_scope(), window_s, under_way)
        self._plugin_limits.reconfigure(window_s)
        self.named_budgets.reconfigure(config.controller.budgets.named, now, under_way)
        self.schedules.reconfigure(config.controller.budgets.schedules, under_way, config.calendars)
        self.annotated_answers.reconfigure(config.controller.proposals)
        self._guards.reconfigure(config.controller.guards, config.policy.balancing_plugins)
        self.gangs.reconfigure(config.controller.guards, config.policy.balancing_plugins)
        if self._beside is None:
            sick = config.sick_conditions
            self.brakes.reconfigure(config.controller.brakes, sick, now)
        self.node_fit.reconfigure(config.controller_schedulers)
        self.moves.reconfigure(config)
        self._moving_limits.reconfigure(config.controller.moves)
        self.move_sets.reconfigure(config.controller.moves)
        self.moved_workloads.reconfigure(config.controller.moves)
        policy_changed = config.policy.revision != self._policy_revision
        self.memory.reconfigure(config.controller.moves, policy_changed=policy_changed)
        self._policy_revision = config.policy.revision
