"""The eviction endpoint: the one way to delete a pod that disruption budgets can refuse."""

from msgspec import structs

from reactive_desched.sim import budgets
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import condition_status, with_condition
from reactive_desched.sim.deletion import DeleteOptions, check_preconditions
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.status import StatusError, not_found
from reactive_desched.sim.store import Store

__all__ = ["evict"]

_PODS = RESOURCES["pods"]
_UNPROTECTED = ("Succeeded", "Failed", "Pending")
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
    if _may_ignore_budgets(pod):
        _delete_unprotected(store, pod, options)
        return
    past_budget = _pass_budget(store, pod, dry_run=options.dry_run)
    if not options.dry_run:
        pod = _mark(store, pod, options)
        if past_budget or options.resource_version:
            version = pod["metadata"]["resourceVersion"]
            _delete_marked(store, pod, structs.replace(options, resource_version=version), options)
            return
    store.delete("pods", namespace, name, options)


def _may_ignore_budgets(pod: Obj) -> bool:
    terminating = "deletionTimestamp" in pod["metadata"]
    return terminating or pod.get("status", {}).get("phase") in _UNPROTECTED


def _delete_unprotected(store: Store, pod: Obj, options: DeleteOptions) -> None:
    meta = pod["metadata"]
    store.delete("pods", meta["namespace"], meta["name"], options)


def _pass_budget(store: Store, pod: Obj, *, dry_run: bool) -> bool:
    """Spend the pod's budget; tell whether it was passed by because the pod is not ready."""
    found = budgets.covering(store, pod)
    if len(found) > 1:
        raise StatusError(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does"
            " not support.",
        )
    if not found:
        return False
    budget = found[0]
    if condition_status(pod, "Ready") != "True" and budgets.skips_unready(budget):
        return True
    budgets.check(budget)
    if not dry_run:
        _spend(store, budget, pod)
    return False


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
    meta, at = pod["metadata"], rfc3339(store.clock.now())

    def marked(current: Obj) -> Obj:
        status = current.get("status", {})
        conditions = with_condition(status.get("conditions") or (), _MARK, at)
        return {**current, "status": {**status, "conditions": conditions}}

    return store.modify("pods", meta["namespace"], meta["name"], marked, subresource="status")


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
