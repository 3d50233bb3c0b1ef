"""The sweep: every plugin evaluates the whole cluster once, in upstream's order and by its rules.

The plugins, filters and limits are those of the reactive path. Upstream's cycle differs in this:
limits count per cycle, a pod that was evicted is gone at once, PodDisruptionBudgets are left to
the API server (`outcome_refusal`), and nothing runs unless two nodes are eligible.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import repeat
from typing import Any, Final, TypeVar

from msgspec import Struct

from reactive_desched.api.balance_plugin import BalancePlugin, SweepFilters
from reactive_desched.api.plugin import DeschedulePlugin, Opinions, next_opinion
from reactive_desched.errors import EvaluationEndless, IndexUnavailable
from reactive_desched.fit.upstream import NodeFit, UpstreamNodeFit
from reactive_desched.gate.evictor import DefaultEvictor
from reactive_desched.gate.gate import GateFilter
from reactive_desched.gate.in_flight import InFlightEvictions
from reactive_desched.gate.policy_limits import CYCLE, PolicyLimits
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.ledger.eviction import new_eviction
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.checked_opinions import Opinion, checked_finding, checked_opinion
from reactive_desched.model.decisions import (
    DISRUPTION_BUDGET,
    Decision,
    Evict,
    GateReason,
    Refuse,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.outcomes import PDB_REFUSED, Outcome
from reactive_desched.model.plugin_faults import (
    PluginFault,
    describe_error,
    sweep_fault,
)
from reactive_desched.policy.policy import AnyPlugin, Policy
from reactive_desched.primitives.foreign_code import calls_foreign_code, is_fault
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.index_registry import IndexFault, IndexKey

EVICTION_FAILED: Final = GateReason(
    "Eviction", "EvictionFailed", "In a sweep, the eviction request of the pod did not succeed."
)

AnswerT = TypeVar("AnswerT")

FIRST_ANSWERS: Final = 10_000
ANSWERS_EACH: Final = 4
"""A plugin that gives more answers in a sweep than these, and so many for each pod and node, does
not end."""

TOO_FEW_NODES = "fewer than two nodes are ready and match the policy's nodeSelector"


class CycleDecision(Struct, frozen=True, gc=False):
    """A decision on a finding, and the profile whose plugin made it."""

    profile: str
    decision: Decision

    @property
    def finding(self) -> Finding:
        """The finding decided on."""
        return self.decision.finding


PluginContext = Callable[[str, AnyPlugin], AbstractContextManager[object]]


class _Profile:
    """A profile in a cycle: its plugins, their view, and its filters in order."""

    def __init__(
        self, name: str, plugins: tuple[AnyPlugin, ...], evictor: DefaultEvictor, view: ProfileView
    ) -> None:
        self.name = name
        self.plugins = plugins
        self.view = view
        self.node_fit_filter = evictor.node_fit_filter
        self.pre_eviction_filters = (evictor.node_fit_filter, *evictor.namespace_filters)
        self.filters = (evictor.filters, *self.pre_eviction_filters)


class Cycle:
    """One pass over a cluster state, from which it removes the pods that were evicted.

    Node fit is upstream's unless another is given. Each plugin runs inside what `plugin_context`
    returns for its profile and itself, for example to time it. An exception of a plugin ends what
    that does in this cycle, and is one of the `faults`.
    """

    def __init__(
        self,
        policy: Policy,
        state: ClusterState,
        view: ClusterView,
        node_fit: NodeFit | None = None,
        *,
        plugin_context: PluginContext = lambda *_: nullcontext(),
    ) -> None:
        self.faults: list[PluginFault] = []
        self._plugin_context = plugin_context
        self._limits = PolicyLimits(policy.limits.by_scope(), CYCLE)
        self._max_answers = FIRST_ANSWERS + ANSWERS_EACH * (
            view.pod_count + view.eligible_node_count
        )
        self._state = state
        self._view = view
        self._node_fit: NodeFit = UpstreamNodeFit(view) if node_fit is None else node_fit
        self._reserves_capacity = node_fit is not None
        self._confirmed: CycleDecision | None = None
        no_evictions = InFlightEvictions(EvictionLedger(view), lambda: 0.0)
        self._profiles = [
            _Profile(
                profile.name,
                profile.plugins,
                evictor,
                ProfileView(state, lambda: view.now_s, evictor, self._node_fit, no_evictions),
            )
            for profile in policy.profiles
            for evictor in [
                DefaultEvictor(profile.evictor, view, self._node_fit, nodes=profile.node_selector)
            ]
        ]

    def skip_reason(self) -> str | None:
        """Say why there is nothing to do, or None: upstream skips a cycle on too few nodes."""
        return TOO_FEW_NODES if self._view.eligible_node_count < 2 else None  # noqa: PLR2004 -- as it says

    def views(self) -> Mapping[str, ProfileView]:
        """Return the views of the profiles' plugins, by the names of the profiles."""
        return {profile.name: profile.view for profile in self._profiles}

    def run(self) -> Iterator[CycleDecision]:
        """Yield each decision: first of all that deschedules, then of all that balances.

        Before the next decision is taken, `confirm` an Evict whose pod left.
        """
        if self.skip_reason() is not None:
            return
        for point in ("deschedule", "balance"):
            plugins = ((each, plugin) for each in self._profiles for plugin in each.plugins)
            for profile, plugin in plugins:
                if plugin.extension_point == point:
                    with self._plugin_context(profile.name, plugin):
                        yield from self._run_plugin(profile, plugin)

    def confirm(self, decided: CycleDecision) -> None:
        """Record that the pod of the last decision was evicted."""
        self._confirmed = decided

    def _run_plugin(self, profile: _Profile, plugin: AnyPlugin) -> Iterator[CycleDecision]:
        match plugin:
            case BalancePlugin():
                yield from self._run_plan(profile, plugin)
            case DeschedulePlugin():
                yield from self._run_portions(profile, plugin)

    def _run_portions(
        self,
        profile: _Profile,
        plugin: DeschedulePlugin[Any, Any],  # as below
    ) -> Iterator[CycleDecision]:
        portions = self._ask(profile, plugin, partial(_portions_of, plugin, profile.view))
        if portions is None:
            return
        ask = partial(self._ask, profile, plugin, partial(_next_portion, portions, plugin.name))
        for _ in range(self._max_answers):
            if (findings := ask()) is None:
                return
            yield from self._run_portion(profile, findings)
        self._is_endless(profile, plugin)

    @calls_foreign_code
    def _ask(
        self, profile: _Profile, plugin: AnyPlugin, question: Callable[[], AnswerT | None]
    ) -> AnswerT | None:
        """Return a plugin's answer; None where there is none, and where it raises an exception.

        An index that has failed since the last answer would make the next one wrong.
        """
        try:
            if failed := self._state.index_faults:
                self._require_indexes(plugin, failed)
            return question()
        except BaseException as error:
            if not is_fault(error):
                raise
            self.faults.append(sweep_fault(profile.name, plugin.name, error))
            return None

    @staticmethod
    def _require_indexes(plugin: AnyPlugin, failed: Mapping[IndexKey, IndexFault]) -> None:
        for key in plugin.required_indexes:
            if key in failed:
                raise IndexUnavailable(f"{failed[key]}: {describe_error(failed[key].error)}")

    def _run_plan(
        self,
        profile: _Profile,
        plugin: BalancePlugin[Any, Any],  # of any subjects and arguments
    ) -> Iterator[CycleDecision]:
        """Decide one finding after the other, and send the plugin what came of each."""
        filters = (*self._filters_of(profile, plugin.sweep_filters), self._limits)
        opinions = self._ask(profile, plugin, partial(plugin.sweep, profile.view))
        if opinions is None:
            return
        ask = partial(self._ask, profile, plugin)
        sent: Decision | None = None
        for _ in range(self._max_answers):
            if (opinion := ask(partial(_checked_opinion, opinions, sent, plugin.name))) is None:
                return
            sent = None
            if isinstance(opinion, Finding):
                self._sync_node_fit()
                refusal = _first_refusal(opinion, filters)
                decided = CycleDecision(profile.name, refusal or Evict(opinion))
                yield decided
                sent = decided.decision if refusal or self._left(decided) else _failed(opinion)
        self._is_endless(profile, plugin)

    def _is_endless(self, profile: _Profile, plugin: AnyPlugin) -> None:
        """Note that a plugin goes on for ever; what it found until then has been decided."""
        error = EvaluationEndless(f"its sweep had no end after {self._max_answers:,} answers")
        self.faults.append(sweep_fault(profile.name, plugin.name, error))

    def _filters_of(self, profile: _Profile, left: SweepFilters) -> tuple[GateFilter, ...]:
        """Return the filters left to the sweep, and node fit wherever capacity is booked."""
        match left:
            case SweepFilters.ALL:
                return profile.filters
            case SweepFilters.PRE_EVICTION:
                return profile.pre_eviction_filters
            case SweepFilters.NONE:
                return (profile.node_fit_filter,) if self._reserves_capacity else ()

    def _run_portion(self, profile: _Profile, findings: list[Finding]) -> Iterator[CycleDecision]:
        """Filter a whole portion before the first of its pods is evicted, as upstream does."""
        self._sync_node_fit()
        checked = [(finding, _first_refusal(finding, profile.filters)) for finding in findings]
        for finding, filtered in checked:
            refusal = (
                filtered
                or _first_refusal(finding, (self._limits,))
                or self._recheck_capacity(finding, profile)
            )
            decided = CycleDecision(profile.name, refusal or Evict(finding))
            yield decided
            self._left(decided)

    def _sync_node_fit(self) -> None:
        while not self._node_fit.sync():
            pass  # it follows a few nodes per call, to let other tasks run; there are none here

    def _recheck_capacity(self, finding: Finding, profile: _Profile) -> Refuse | None:
        """Check node fit again where capacity is reserved: an eviction before may have taken it."""
        if not self._reserves_capacity:
            return None
        return _first_refusal(finding, (profile.node_fit_filter,))

    def _left(self, decided: CycleDecision) -> bool:
        """Say whether the pod was evicted; if so, remove it from the cluster state."""
        confirmed, self._confirmed = self._confirmed, None
        if confirmed is not decided:
            return False
        pod = decided.finding.pod
        self._node_fit.reserve(pod)
        self._limits.decided(new_eviction(decided.finding, (), "", decided.profile, 0.0, 0.0))
        changes = self._state.remove(pod)
        for profile in self._profiles:
            profile.view.apply_changes(changes)
        return True


def _first_refusal(finding: Finding, filters: Iterable[GateFilter]) -> Refuse | None:
    refusals = (each.check(finding, 0.0) for each in filters)
    refusal = next((decision for decision in refusals if decision is not None), None)
    assert refusal is None or isinstance(refusal, Refuse), "nothing in a cycle can wait"
    return refusal


def outcome_refusal(finding: Finding, outcome: Outcome) -> Refuse:
    """Return the refusal that an eviction which did not happen comes to."""
    reason = DISRUPTION_BUDGET if outcome.result == PDB_REFUSED else EVICTION_FAILED
    return reason.refuse(finding, outcome.message or outcome.result)


def _failed(finding: Finding) -> Refuse:
    return EVICTION_FAILED.refuse(finding, "the eviction of the pod failed")


@calls_foreign_code
def _portions_of(
    plugin: DeschedulePlugin[Any, Any],  # of any subjects and arguments
    view: ProfileView,
) -> Iterator[list[Finding]]:
    return iter(plugin.sweep(view))


@calls_foreign_code
def _next_portion(portions: Iterator[list[Finding]], plugin: str) -> list[Finding] | None:
    if (findings := next(portions, None)) is None:
        return None
    # no frame of ours is between it and the plugin
    return list(map(checked_finding, findings, repeat(plugin)))


@calls_foreign_code
def _checked_opinion(opinions: Opinions, sent: Decision | None, plugin: str) -> Opinion | None:
    opinion = next_opinion(opinions, sent)
    return None if opinion is None else checked_opinion(opinion, plugin)
