"""The eviction endpoint: the one way to delete a pod that disruption budgets can refuse."""

from collections.abc import Sequence

from msgspec import structs

from reactive_desched.model.disruption import BudgetAnswer, ask_budgets
from reactive_desched.sim import budgets
from reactive_desched.sim.controllers.controller import write_conditions
from reactive_desched.sim.controllers.evacuation import begin_evacuation
from reactive_desched.sim.deletion import DeleteOptions, check_preconditions
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.pods import is_ready, is_terminating
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.status import StatusError, not_found
from reactive_desched.sim.store import Store

__all__ = ["evict"]

_PODS = RESOURCES["pods"]
_RACE_RETRY_S = 10
_MARK = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def evict(store: Store, namespace: str, name: str, options: DeleteOptions) -> None:
    """Evict a pod or raise the StatusError that says why not.

    Reads, spends the budget, marks the pod and deletes it in one go: the store is
    single-threaded, so the conflict retries of the real server have nothing to retry here.
    """
    pod = store.get("pods", namespace, name)
    if pod is None:
        raise not_found(_PODS, name)
    begin_evacuation(store, pod, dry_run=bool(options.dry_run))
    found = budgets.covering(store, pod)
    answer = _ask_budgets(pod, found)
    if answer is BudgetAnswer.NOT_RUNNING:
        _delete_unprotected(store, pod, options)
        return
    if answer is BudgetAnswer.SEVERAL_BUDGETS:
        raise StatusError(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does"
            " not support.",
        )
    for budget in found:
        budgets.check(budget, answer)
        if answer is BudgetAnswer.SPENDS and not options.dry_run:
            _spend(store, budget, pod)
    past_budget = answer is BudgetAnswer.UNREADY
    if not options.dry_run:
        pod = _mark(store, pod, options)
        if past_budget or options.resource_version:
            version = pod["metadata"]["resourceVersion"]
            _delete_marked(store, pod, structs.replace(options, resource_version=version), options)
            return
    store.delete("pods", namespace, name, options)


def _ask_budgets(pod: Obj, found: Sequence[Obj]) -> BudgetAnswer:
    return ask_budgets(
        pod.get("status", {}).get("phase") or "",
        is_ready=is_ready(pod),
        is_terminating=is_terminating(pod),
        budgets=[budgets.state_of(budget) for budget in found],
    )


def _delete_unprotected(store: Store, pod: Obj, options: DeleteOptions) -> None:
    meta = pod["metadata"]
    store.delete("pods", meta["namespace"], meta["name"], options)


def _spend(store: Store, budget: Obj, pod: Obj) -> None:
    meta, name, now = budget["metadata"], pod["metadata"]["name"], store.clock.now()
    store.modify(
        "poddisruptionbudgets",
        meta["namespace"],
        meta["name"],
        lambda current: budgets.spend(current, name, now),
        subresource="status",
    )


def _mark(store: Store, pod: Obj, options: DeleteOptions) -> Obj:
    """Write on the pod why it goes; this is where the client's preconditions are checked."""
    check_preconditions(_PODS, pod, options)
    return write_conditions(store, "pods", pod, _MARK)


def _delete_marked(store: Store, pod: Obj, exact: DeleteOptions, asked: DeleteOptions) -> None:
    """Delete this very version; a pod that changed meanwhile may have become ready."""
    meta = pod["metadata"]
    try:
        store.delete("pods", meta["namespace"], meta["name"], exact)
    except StatusError as refused:
        if refused.reason != "Conflict" or asked.resource_version:
            raise
        text = "The pod changed while it was being evicted as unready."
        raise budgets.too_many(text, _RACE_RETRY_S) from refused
