"""Simulates a cluster for a preview: it replaces evicted pods, and nothing else happens.

It answers as the API server does, and feeds the controller the changes that a watch would show.
"""

import re
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.controller.controller import Controller
from reactive_desched.eviction.dry_run import EvictionEndpoint
from reactive_desched.fit.assumed_scheduler import FIRST_BY_NAME, AssumedScheduler, NodeChance
from reactive_desched.model.changes import Change, PdbChanged
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.evaluation import Intent
from reactive_desched.model.job_evictions import tries_left_without
from reactive_desched.model.objects import (
    DEFAULT_SCHEDULER,
    Job,
    OwnerReference,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    PodStatus,
    StatefulSet,
    controller_of,
)
from reactive_desched.model.opt_outs import is_set
from reactive_desched.model.outcomes import (
    EVICTED,
    EvictionRequest,
    Outcome,
    outcome_from_response,
)
from reactive_desched.model.pod_importance import ordinal_of
from reactive_desched.plan.assumed_use import REPORT_EVERY_S, AssumedUse
from reactive_desched.plan.ordered_turns import OrderedTurns
from reactive_desched.state.indexes.unschedulable_pods import SCHEDULED, UNSCHEDULABLE
from reactive_desched.state.resources import PDBS

__all__ = [
    "AssumedCluster",
    "AssumedEviction",
    "AssumedTimes",
    "PreviewClock",
    "SameTime",
    "original_name",
    "replacement_name",
]

_REPLACEMENT: Final = re.compile(r"(.+)-replacement(?:-(\d{1,9}))?")


def replacement_name(name: str) -> str:
    """Name a replacement after the pod that it replaces: `web-1-replacement`, then `…-2`."""
    if (replaced := _REPLACEMENT.fullmatch(name)) is None:
        return f"{name}-replacement"
    return f"{replaced[1]}-replacement-{int(replaced[2] or 1) + 1}"


def original_name(name: str) -> str:
    """Return the name of the pod that a replacement was named after; of any other pod its own."""
    replaced = _REPLACEMENT.fullmatch(name)
    return name if replaced is None else replaced[1]


FIRST_BACKOFF_S: Final = 1.0
"""The kube-scheduler leaves a pod that fits nowhere alone for so long; twice as long each time."""

LONGEST_BACKOFF_S: Final = 10.0

LONGEST_PARKED_S: Final = 300.0
"""After so long the kube-scheduler tries a pod again though nothing made room for it."""

_PENDING: Final = PodStatus(phase="Pending")
_READY: Final = PodCondition("Ready", "True")
_UNSCHEDULABLE: Final = PodStatus(
    "Pending", conditions=(PodCondition(SCHEDULED, "False", UNSCHEDULABLE),)
)


class PreviewClock:
    """The time of a preview: `now` is seconds since its beginning."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self.now = 0.0

    def advance_to(self, now: float) -> None:
        """Let time pass until so many seconds after the beginning."""
        self.now = now

    def monotonic(self) -> float:
        """Return seconds since the beginning."""
        return self.now

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return self._began_s + self.now

    def moment(self) -> ClockPair:
        """Return now, by both clocks."""
        return ClockPair(self.monotonic(), self.wall())


class AssumedTimes(Protocol):
    """The seconds that pods take to end, and to become Ready once they are bound."""

    def end_s(self, pod: Pod) -> float:
        """Return after how many seconds an evicted pod is gone."""
        ...

    def start_s(self, pod: Pod) -> float:
        """Return after how many seconds a bound pod is Ready."""
        ...


class SameTime(Struct, frozen=True):
    """Every pod takes as long to end as another takes to become Ready."""

    seconds: float

    def end_s(self, _: Pod) -> float:
        """Return after how many seconds an evicted pod is gone."""
        return self.seconds

    def start_s(self, _: Pod) -> float:
        """Return after how many seconds a bound pod is Ready."""
        return self.seconds


class AssumedEviction(Struct, frozen=True):
    """The assumed answer of the API server, and the replacement's uid; empty for none."""

    outcome: Outcome
    replacement: str = ""


class _Unbound(Struct, frozen=True):
    """A replacement before it is bound, and the budgets that its evicted pod spent.

    The pod has a node if it can run on that one alone; it gives its budgets back when it is Ready.
    `chance` says which of the best nodes it takes, `start_s` how long it takes to start, if known.
    """

    pod: Pod
    budgets: tuple[str, ...]
    chance: NodeChance = FIRST_BY_NAME
    start_s: float | None = None


class _Parked(Struct):
    """A replacement that fits nowhere: when it was tried, may be again, and whether it will be."""

    new: _Unbound
    number: int
    failures: int = 0
    tried_at: float = 0.0
    not_before: float = 0.0
    is_woken: bool = False

    def fail(self, now: float) -> None:
        """Note that it was tried now: it is left alone for a while, and until there may be room."""
        backoff_s = min(FIRST_BACKOFF_S * 2**self.failures, LONGEST_BACKOFF_S)
        self.failures = min(self.failures + 1, 10)
        self.tried_at, self.not_before = now, now + backoff_s
        self.is_woken = False

    def wake(self, now: float) -> None:
        """Let it be tried; since it was, it failed each five minutes, as nothing had made room."""
        while self.tried_at + LONGEST_PARKED_S <= now:
            self.fail(self.tried_at + LONGEST_PARKED_S)
        self.is_woken = True


class _Step(Struct, frozen=True):
    """A later change: a pod is gone, its replacement is created, or becomes Ready.

    A step of nothing is the end of a back-off. Or nodes are measured again.
    """

    gone: Pod | None = None
    created: _Unbound | None = None
    ready: Pod | None = None
    budgets: tuple[str, ...] = ()
    is_measured: bool = False


class AssumedCluster:
    """The cluster behind a controller.

    `times` says when an evicted pod is gone. Its controller creates the
    replacement at once, a StatefulSet or a Job that says so when the pod is gone; nothing replaces
    a pod that is run once, or whose Job has failed for good. A StatefulSet that creates its pods in
    order waits until the replacements of all lower ordinals are Ready. The replacement is bound to
    the node that the kube-scheduler would choose, and is Ready when `times` say so; its
    PodDisruptionBudget then allows one more disruption. One that fits nowhere is unschedulable
    until a pod that leaves makes room for it; as by the kube-scheduler, it is tried again then,
    once its back-off has passed, and each five minutes. With a plugin that empties nodes, and none
    that spreads pods over them, the scheduler is taken to pack nodes, as that plugin needs it.
    While pods move, koordinator's agents report each minute what is used where they are now, if it
    is given their `use`.
    """

    def __init__(
        self,
        controller: Controller,
        clock: PreviewClock,
        times: AssumedTimes,
        use: AssumedUse | None = None,
    ) -> None:
        self._controller = controller
        self._state = controller.state
        self._clock = clock
        self._times = times
        self._endpoint = EvictionEndpoint(controller.state, controller.view)
        self._steps: list[tuple[float, int, _Step]] = []
        self._number = count()
        plugins = [each.plugin for each in controller.evaluator.instances]
        balancing = [plugin for plugin in plugins if isinstance(plugin, BalancePlugin)]
        packs = dict.fromkeys(name for plugin in balancing for name in plugin.packed_resources)
        profiles = controller.config.controller_schedulers
        is_known = profiles.scores_of(DEFAULT_SCHEDULER) is not None
        if is_known or any(plugin.needs_spreading for plugin in balancing):
            packs.clear()
        self.packed_resources = tuple(packs)
        self._scheduler = AssumedScheduler(controller.view, profiles, packs=packs)
        self._parked: list[_Parked] = []
        self._turns = OrderedTurns[_Unbound]()
        self._bound: dict[str, str] = {}
        self._forgotten: set[str] = set()
        self._use = use

    def next_due(self) -> float | None:
        """Return when the next step happens."""
        return self._steps[0][0] if self._steps else None

    def node_of(self, replacement: str) -> str:
        """Return the node to which a replacement was bound, by its uid; empty for none."""
        return self._bound.get(replacement, "")

    def advance(self) -> None:
        """Let happen what is due."""
        while self._steps and self._steps[0][0] <= self._clock.now:
            self._play(heappop(self._steps)[2])

    def evict(self, intent: Intent) -> AssumedEviction:
        """Answer an eviction request; an evicted pod begins to leave, and counts no more."""
        outcome, budgets = self.ask(intent)
        if outcome.result != EVICTED:
            return AssumedEviction(outcome)
        return AssumedEviction(outcome, self.let_leave(intent.pod, budgets))

    def ask(self, intent: Intent) -> tuple[Outcome, tuple[str, ...]]:
        """Answer an eviction request, and name the budgets that it spends; the pod stays yet."""
        pod = intent.pod
        request = EvictionRequest(pod.namespace, pod.name, pod.uid)
        response, changes = self._endpoint.answer(request)
        outcome = outcome_from_response(response)
        assert outcome is not None, "nothing is lost on the way"
        self._controller.apply(changes)
        return outcome, _budgets(changes)

    def let_leave(
        self,
        pod: Pod,
        budgets: tuple[str, ...] = (),
        chance: NodeChance = FIRST_BY_NAME,
        start_s: float | None = None,
    ) -> str:
        """Let a pod terminate; return the uid of its replacement, empty where none comes.

        `chance` says which of the nodes that are best for that one it takes, and `start_s` how long
        it takes to start; else its times say that.
        """
        owner = controller_of(pod.owners)
        if not pod.is_active or owner is None:  # nothing takes the place of either
            self._end_later(pod)
            return ""
        failures = self._fail(pod, owner) if owner.is_batch_job else 0
        new = self._replacement(pod, owner, failures)
        if self._use is not None and self._use.follow(pod, new, self._clock.wall()):
            self._later(_Step(is_measured=True), REPORT_EVERY_S)
        self._apply(replace(pod, deletion_s=int(self._clock.wall()), resource_version=0))
        if not self._is_replaced(pod, owner):
            self._end_later(pod)
            return ""
        unbound = _Unbound(new, budgets, chance, start_s)
        if self._is_ordered(owner):
            self._turns.begin(owner.uid, ordinal_of(pod))
        if self._comes_later(owner):
            self._end_later(pod, unbound)
        else:
            self._end_later(pod)
            self._create(unbound)
        return new.uid

    def end(self, pod: Pod) -> None:
        """Let a pod be gone soon, replaced by nothing."""
        self._forgotten.add(pod.uid)
        self._parked = [each for each in self._parked if each.new.pod.uid != pod.uid]
        self._end_turn(pod)
        if self._state.store(Pod).get(pod.uid) is None:
            return
        self._apply(replace(pod, deletion_s=int(self._clock.wall()), resource_version=0))
        self._end_later(pod)

    def _end_later(self, pod: Pod, then: "_Unbound | None" = None) -> None:
        self._later(_Step(gone=pod, created=then), self._times.end_s(pod))

    def _is_replaced(self, pod: Pod, owner: OwnerReference) -> bool:
        """Say whether the owner makes a new pod; of a Job that is not known it is assumed."""
        if owner.is_batch_job:
            job = self._state.store(Job).get(owner.uid)
            return job is None or job.tries is None or job.tries.makes_pods
        guards = self._controller.config.controller.guards
        return is_set(pod.annotations.request_evict_only) or guards.replaces(
            owner, pod.spec.restart_policy
        )

    def _comes_later(self, owner: OwnerReference) -> bool:
        """Say whether a new pod is made only when the one before is gone."""
        if owner.kind == "StatefulSet":
            return True
        job = self._state.store(Job).get(owner.uid) if owner.is_batch_job else None
        return job is not None and job.tries is not None and job.tries.waits_for_end

    def _fail(self, pod: Pod, owner: OwnerReference) -> int:
        """Let a Job count a pod that was evicted; return by how much its index fails more."""
        job = self._state.store(Job).get(owner.uid)
        if job is None or job.tries is None or job.tries.is_over:
            return 0
        if (left := tries_left_without(job.tries, pod)) is None:
            return 0
        tries = replace(job.tries, failed=job.tries.failed + 1, is_over=not left.tries)
        self._apply(replace(job, tries=tries, resource_version=0))
        return 1

    def _replacement(self, pod: Pod, owner: OwnerReference, failures: int) -> Pod:
        """Return the pod that takes the place of an evicted one; a DaemonSet's has its node.

        That of a Job's index says how often it has failed, `failures` times more than before.
        """
        index_failures = pod.annotations.job_index_failures + failures
        name = pod.name if owner.kind == "StatefulSet" else replacement_name(pod.name)
        return replace(
            pod,
            name=name,
            uid=f"{pod.namespace}/{name}/{next(self._number)}",
            resource_version=0,
            annotations=replace(pod.annotations, job_index_failures=index_failures)
            if failures
            else pod.annotations,
            node=pod.node if owner.kind == "DaemonSet" else "",
            status=_PENDING,
            start_delay_s=None,
            condition_transitions=(),
        )

    def _report_use(self) -> None:
        assert self._use is not None, "it asked for this"
        now_s = self._clock.wall()
        for metric in self._use.reports(now_s):
            self._controller.apply(self._state.upsert(metric))
        if self._use.goes_on(now_s):
            self._later(_Step(is_measured=True), REPORT_EVERY_S)

    def _play(self, step: _Step) -> None:
        if step.is_measured:
            self._report_use()
        if step.gone is not None:
            self._controller.apply(self._state.remove(step.gone))
            self._forgotten.discard(step.gone.uid)
            self.wake()
        if step.created is not None and step.created.pod.uid not in self._forgotten:
            self._create_in_turn(step.created)
        if step.ready is not None:
            if (bound := self._controller.view.pod(step.ready.uid)) is not None:
                self._apply(self._as_ready(bound))
                if not bound.is_terminating:
                    self._end_turn(bound)
            for key in step.budgets:
                self._give_back(key)
        self._bind_woken()

    def wake(self) -> None:
        """Let the replacements that fit nowhere be tried again: there may be room for them."""
        for parked in self._parked:
            if not parked.is_woken:
                parked.wake(self._clock.now)
                self._later(_Step(), parked.not_before - self._clock.now)

    def would_be_bound_to(self, pod: Pod, node: str) -> bool:
        """Say whether a pod without a node could be bound to this one now."""
        return self._scheduler.choose_node(pod, NodeChance(node)) == node

    def try_to_bind(self, pod: Pod) -> str:
        """Bind a pod that waited from the beginning; return its node, empty where it fits nowhere.

        It is for pods for which room is made: of all others the scheduler's answer is known.
        """
        self._bind(_Unbound(pod, ()))
        return self._bound.get(pod.uid, "")

    # --- the order of a StatefulSet ---

    def _is_ordered(self, owner: OwnerReference) -> bool:
        """Say whether an owner is known to create its pods one after the other."""
        found = self._state.store(StatefulSet).get(owner.uid)
        return found is not None and not found.is_parallel

    def _create_in_turn(self, new: _Unbound) -> None:
        owner = controller_of(new.pod.owners)
        if owner is None or self._turns.has_come(owner.uid, ordinal_of(new.pod)):
            self._create(new)
        else:
            self._turns.wait(owner.uid, ordinal_of(new.pod), new)

    def _end_turn(self, pod: Pod) -> None:
        """Let the next pods of a StatefulSet be created: this one is Ready, or comes no more."""
        if (owner := controller_of(pod.owners)) is None:
            return
        for new in self._turns.end(owner.uid, ordinal_of(pod)):
            if new.pod.uid not in self._forgotten:
                self._create(new)

    def _create(self, new: _Unbound) -> None:
        """Create a pod, and bind it if it fits somewhere."""
        created = replace(new.pod, created_s=int(self._clock.wall()))
        self._apply(replace(created, node=""))
        new = replace(new, pod=created)
        if not self._bind(new):
            self._apply(replace(created, status=_UNSCHEDULABLE, condition_transitions=(0,)))
            parked = _Parked(new, next(self._number))
            self._parked.append(parked)
            parked.fail(self._clock.now)

    def _bind(self, new: _Unbound) -> bool:
        """Bind a pod, and let it become Ready; return whether it fits somewhere."""
        pod = new.pod
        if not (node := pod.node or self._scheduler.choose_node(pod, new.chance)):
            return False
        pod = replace(pod, node=node)
        self._bound[pod.uid] = node
        self._apply(pod)
        start_s = self._times.start_s(pod) if new.start_s is None else new.start_s
        self._later(_Step(ready=pod, budgets=new.budgets), start_s)
        return True

    def _bind_woken(self) -> None:
        """Try the replacements for which there may be room now, in the kube-scheduler's order."""
        now = self._clock.now
        woken = [each for each in self._parked if each.is_woken and each.not_before <= now]
        for parked in sorted(woken, key=_by_turn):
            if self._bind(parked.new):
                self._parked.remove(parked)
            else:
                parked.fail(now)

    def _as_ready(self, bound: Pod) -> Pod:
        now_s = int(self._clock.wall())
        status = PodStatus("Running", qos_class=bound.status.qos_class, conditions=(_READY,))
        age_s = now_s - bound.created_s
        return replace(bound, status=status, start_delay_s=age_s, condition_transitions=(age_s,))

    def _give_back(self, key: str) -> None:
        budget = self._state.get(PDBS, key)
        if isinstance(budget, PodDisruptionBudget):
            allowed = budget.disruptions_allowed + 1
            self._apply(replace(budget, disruptions_allowed=allowed, resource_version=0))

    def _apply(self, obj: Pod | PodDisruptionBudget | Job) -> None:
        self._controller.apply(self._state.upsert(obj))

    def _later(self, step: _Step, delay_s: float) -> None:
        heappush(self._steps, (self._clock.now + delay_s, next(self._number), step))


def _by_turn(parked: _Parked) -> tuple[int, float, int]:
    """Order by priority, then by the end of the back-off, then by age."""
    return -(parked.new.pod.spec.priority or 0), parked.not_before, parked.number


def _budgets(changes: Sequence[Change]) -> tuple[str, ...]:
    """Return the keys of the budgets that an eviction spent."""
    return tuple(f"{c.namespace}/{c.name}" for c in changes if isinstance(c, PdbChanged))
