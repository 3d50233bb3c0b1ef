"""Runs sweeps over a snapshot: a preview of what `run --once`, or the SIG descheduler, would do."""

from collections.abc import Callable
from functools import partial

from reactive_desched.eviction.dry_run import EvictionEndpoint
from reactive_desched.fit.upstream import SCHEDULER, NodeFit
from reactive_desched.model.decisions import Decision, Evict, Refuse
from reactive_desched.model.outcomes import POD_LEAVES, EvictionRequest, outcome_from_response
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES, SchedulerProfiles
from reactive_desched.plan.evaluation import DecisionFormatter, PlanResult
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.policy import Policy
from reactive_desched.state.cluster import ClusterView
from reactive_desched.sweep.cycle import Cycle, outcome_refusal
from reactive_desched.sweep.thresholds import check_thresholds

__all__ = ["run_sweeps"]


def run_sweeps(
    policy: Policy,
    snapshot: Snapshot,
    now_s: float,
    node_fit: str,
    *,
    passes: int = 1,
    asks_budgets: bool = False,
    schedulers: SchedulerProfiles = DEFAULT_PROFILES,
) -> PlanResult:
    """Sweep the same snapshot several times and return the result of the last sweep.

    What plugins remember from one pass to the next they keep; evicted pods are back each time.
    Node fit as the scheduler decides it goes by the profiles of `schedulers`.
    With `asks_budgets`, PodDisruptionBudgets are counted down as the API server would do it.
    Raises ConfigError where the policy needs a PriorityClass that the picture does not have.
    """
    fit = partial(_scheduler_fit, schedulers, now_s) if node_fit == SCHEDULER else None
    sweep = partial(_run_sweep, policy, snapshot, now_s, fit, asks_budgets=asks_budgets)
    result = sweep()
    for _ in range(passes - 1):
        result = sweep()
    return result


def _run_sweep(
    policy: Policy,
    snapshot: Snapshot,
    now_s: float,
    build_fit: Callable[[ClusterView], NodeFit] | None,
    *,
    asks_budgets: bool,
) -> PlanResult:
    state = snapshot.build_state(policy.node_selector)
    view = ClusterView(state, lambda: now_s)
    check_thresholds(policy.profiles, view)
    fit = None if build_fit is None else build_fit(view)
    cycle, formatter = Cycle(policy, state, view, fit), DecisionFormatter(policy.profiles, view)
    endpoint = EvictionEndpoint(state, view) if asks_budgets else None
    decisions = []
    for decided in cycle.run():
        refusal = None if endpoint is None else _refusal_of_server(decided.decision, endpoint)
        if refusal is None and isinstance(decided.decision, Evict):
            cycle.confirm(decided)
        decisions.append(formatter.format(decided.profile, refusal or decided.decision))
    return PlanResult(
        tuple(decisions),
        cycle.skip_reason(),
        view,
        cycle.views(),
        plugin_faults=tuple(cycle.faults),
    )


def _refusal_of_server(decision: Decision, endpoint: EvictionEndpoint) -> Refuse | None:
    """Return what the API server makes of an eviction that it does not accept."""
    if not isinstance(decision, Evict):
        return None
    pod = decision.finding.pod
    response, _ = endpoint.answer(EvictionRequest(pod.namespace, pod.name, pod.uid))
    outcome = outcome_from_response(response)
    assert outcome is not None, "nothing is lost on the way"
    return None if outcome.result in POD_LEAVES else outcome_refusal(decision.finding, outcome)


def _scheduler_fit(schedulers: SchedulerProfiles, now_s: float, view: ClusterView) -> NodeFit:
    from reactive_desched.fit.scheduler import SchedulerNodeFit

    return SchedulerNodeFit(view, lambda: now_s, schedulers)
