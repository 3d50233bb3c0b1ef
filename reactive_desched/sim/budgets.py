"""The side of a disruption budget that the eviction endpoint reads and spends."""

from msgspec import Struct, convert

from reactive_desched.model.disruption import (
    MAX_UNCONFIRMED,
    BudgetAnswer,
    BudgetState,
    lets_unready_go,
)
from reactive_desched.model.labels import LabelSelector
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import find_condition, with_condition
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.status import StatusError, cause, forbidden
from reactive_desched.sim.store import Store

__all__ = ["check", "covering", "spend", "state_of", "too_many"]

_STALE_RETRY_S = 10
_MESSAGE = "Cannot evict pod as it would violate the pod's disruption budget."


def covering(store: Store, pod: Obj) -> list[Obj]:
    """Return the budgets of the pod's namespace that select it; one without selector never does."""
    labels = labels_of(pod)
    return [
        budget
        for budget in store.list("poddisruptionbudgets", namespace_of(pod))
        if (selector := budget.get("spec", {}).get("selector")) is not None
        and convert(selector, LabelSelector).matches(labels)
    ]


class _State(Struct, frozen=True):
    """A budget as the eviction endpoint's rule reads it."""

    disruptions_allowed: int
    is_processed: bool
    unready_may_go: bool
    is_backlogged: bool


def state_of(budget: Obj) -> BudgetState:
    """Return what the eviction endpoint reads of a budget."""
    return _State(
        disruptions_allowed=_count(budget, "disruptionsAllowed"),
        is_processed=_count(budget, "observedGeneration")
        >= budget["metadata"].get("generation", 0),
        unready_may_go=lets_unready_go(
            budget["spec"].get("unhealthyPodEvictionPolicy") or "",
            _count(budget, "currentHealthy"),
            _count(budget, "desiredHealthy"),
        ),
        is_backlogged=len(budget.get("status", {}).get("disruptedPods") or ()) > MAX_UNCONFIRMED,
    )


def check(budget: Obj, answer: BudgetAnswer) -> None:
    """Raise the refusal that the only budget of a pod leads to, if this is one."""
    kind = RESOURCES["poddisruptionbudgets"]
    match answer:
        case BudgetAnswer.STALE:
            text = (
                f"The disruption budget {name_of(budget)} is still being processed by the server."
            )
            raise too_many(text, _STALE_RETRY_S)
        case BudgetAnswer.NEGATIVE:
            raise forbidden(kind, name_of(budget), "pdb disruptions allowed is negative")
        case BudgetAnswer.BACKLOGGED:
            text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
            raise forbidden(kind, name_of(budget), text)
        case BudgetAnswer.EXHAUSTED:
            raise too_many(_explained(budget), 0)


def spend(budget: Obj, pod: str, now: float) -> Obj:
    """Return the budget's next form: one disruption less, and the pod on record."""
    status, at = budget["status"], rfc3339(now)
    left = status["disruptionsAllowed"] - 1
    disrupted = {**(status.get("disruptedPods") or {}), pod: at}
    status = {**status, "disruptionsAllowed": left, "disruptedPods": disrupted}
    if left == 0:
        blocked = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status.get("observedGeneration", 0),
        }
        status["conditions"] = with_condition(status.get("conditions") or (), blocked, at)
    return {**budget, "status": status}


def too_many(explanation: str, retry_after: int) -> StatusError:
    """Say that the budget stands in the way; 0 seconds means no Retry-After at all."""
    details = {"causes": [_budget_cause(explanation)]}
    return StatusError(429, "TooManyRequests", _MESSAGE, details=details, retry_after=retry_after)


def _budget_cause(message: str) -> Obj:
    return {key: value for key, value in cause("DisruptionBudget", "", message).items() if value}


def _explained(budget: Obj) -> str:
    """Say why nothing may be disrupted, in the order of preference of the real server."""
    name, condition = name_of(budget), find_condition(budget, "DisruptionAllowed") or {}
    blocked, message = condition.get("status") == "False", condition.get("message", "")
    reason = condition.get("reason", "")
    if blocked and reason == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it"
            f" failed sync: {message}"
        )
    healthy, desired = _count(budget, "currentHealthy"), _count(budget, "desiredHealthy")
    if healthy <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    if blocked and message:
        return (
            f"The disruption budget {name} does not allow evicting pods currently ({reason}):"
            f" {message}"
        )
    return f"The disruption budget {name} does not allow evicting pods currently"


def _count(budget: Obj, field: str) -> int:
    return int(budget.get("status", {}).get(field) or 0)
