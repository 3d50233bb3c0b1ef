"""Runs the sweep over a snapshot, and turns its decisions into a report."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.eviction.dry_run import EvictionEndpoint
from reactive_desched.fit.upstream import SCHEDULER, NodeFit
from reactive_desched.gate.evictor import EvictorFilters
from reactive_desched.gate.filters import pod_filters
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import POD_LEAVES, EvictionRequest, outcome_from_response
from reactive_desched.plan.defaults import is_default_uid
from reactive_desched.plan.report import GateRejection, PlannedDecision, PodRef, RunPreview
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.policy import Policy, Profile
from reactive_desched.state.view import ClusterView
from reactive_desched.sweep.cycle import Cycle, CycleDecision, outcome_refusal
from reactive_desched.sweep.thresholds import check_thresholds

__all__ = ["DecisionFormatter", "PlanResult", "first_owner", "pod_ref", "run_sweeps"]


class PlanResult(Struct, frozen=True):
    """What a preview came to; the view shows the cluster without the pods that would be gone."""

    decisions: tuple[PlannedDecision, ...]
    skipped: str | None
    view: ClusterView
    preview: RunPreview | None = None


def run_sweeps(
    policy: Policy,
    snapshot: Snapshot,
    now_s: float,
    node_fit: str,
    *,
    passes: int = 1,
    asks_budgets: bool = False,
) -> PlanResult:
    """Sweep the same snapshot several times and return the result of the last sweep.

    What plugins remember from one pass to the next they keep; evicted pods are back each time.
    With `asks_budgets`, PodDisruptionBudgets are counted down as the API server would do it.
    Raises ConfigError where the policy needs a PriorityClass that the picture does not have.
    """
    sweep = partial(_run_sweep, policy, snapshot, now_s, node_fit, asks_budgets=asks_budgets)
    result = sweep()
    for _ in range(passes - 1):
        result = sweep()
    return result


def _run_sweep(
    policy: Policy, snapshot: Snapshot, now_s: float, node_fit: str, *, asks_budgets: bool
) -> PlanResult:
    state = snapshot.build_state(policy.node_selector)
    view = ClusterView(state, lambda: now_s)
    check_thresholds(policy.profiles, view)
    fit = _scheduler_fit(view, now_s) if node_fit == SCHEDULER else None
    cycle, formatter = Cycle(policy, state, view, fit), DecisionFormatter(policy.profiles, view)
    endpoint = EvictionEndpoint(state, view) if asks_budgets else None
    verdicts = []
    for decided in cycle.run():
        refusal = None if endpoint is None else _refusal_of_server(decided.decision, endpoint)
        if refusal is None and isinstance(decided.decision, Evict):
            cycle.confirm(decided)
        outcome = decided if refusal is None else replace(decided, decision=refusal)
        verdicts.append(formatter.format(outcome))
    return PlanResult(tuple(verdicts), cycle.skip_reason(), view)


def _refusal_of_server(decision: Decision, endpoint: EvictionEndpoint) -> Refuse | None:
    """Return what the API server makes of an eviction that it does not accept."""
    if not isinstance(decision, Evict):
        return None
    pod = decision.finding.pod
    response, _ = endpoint.answer(EvictionRequest(pod.namespace, pod.name, pod.uid))
    outcome = outcome_from_response(response)
    assert outcome is not None, "nothing is lost on the way"
    return None if outcome.result in POD_LEAVES else outcome_refusal(decision.finding, outcome)


def _scheduler_fit(view: ClusterView, now_s: float) -> NodeFit:
    from reactive_desched.fit.scheduler import SchedulerNodeFit

    return SchedulerNodeFit(view, lambda: now_s)


class DecisionFormatter:
    """Puts decisions into words, adding to a protection's refusal what the others say."""

    def __init__(self, profiles: Sequence[Profile], view: ClusterView) -> None:
        asked = {profile.name: pod_filters(profile.evictor) for profile in profiles}
        self._names: Final = {guard.name for each in asked.values() for guard in each}
        self._guards: Final[Mapping[str, EvictorFilters]] = {
            name: EvictorFilters(each, view, mandatory_no_eviction=False)
            for name, each in asked.items()
        }

    def format(self, decided: CycleDecision) -> PlannedDecision:
        """Describe one decision before the snapshot changes again."""
        finding = decided.finding
        rejections = tuple(self._rejections(decided))
        return PlannedDecision(
            action=_action(decided.decision),
            pod=pod_ref(finding.pod),
            node=finding.pod.node,
            owner=first_owner(finding.pod),
            profile=decided.profile,
            plugin=finding.plugin,
            finding=finding.message,
            gate=rejections[0].gate if rejections else None,
            reason=rejections[0].reason if rejections else None,
            rejections=rejections,
        )

    def _rejections(self, decided: CycleDecision) -> Iterator[GateRejection]:
        decision = decided.decision
        if isinstance(decision, Evict):
            return
        yield GateRejection(decision.gate, decision.reason, decision.message)
        if decision.gate in self._names and decided.profile in self._guards:
            rejections = self._guards[decided.profile].rejections(decision.finding.pod)
            for reason, message in rejections:
                if reason.gate != decision.gate:
                    yield GateRejection(reason.gate, reason.code, message)


def _action(decision: Decision) -> str:
    match decision:
        case Evict():
            return "Evict"
        case Defer():
            return "Defer"
        case _:
            return "Refuse"


def pod_ref(pod: Pod) -> PodRef:
    """Name a pod."""
    return PodRef(pod.namespace, pod.name, None if is_default_uid(pod.uid) else pod.uid)


def first_owner(pod: Pod) -> str | None:
    """Name a pod's first owner."""
    return str(pod.owners[0]) if pod.owners else None
