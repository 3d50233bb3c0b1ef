"""Answers an eviction as the API server's endpoint does for the sake of PodDisruptionBudgets.

The simulator answers by this rule, and so does the preview of an eviction that is not requested.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol

__all__ = ["MAX_UNCONFIRMED", "BudgetAnswer", "BudgetState", "ask_budgets", "lets_unready_go"]

MAX_UNCONFIRMED: Final = 2000
"""So many evictions of one budget may be unconfirmed by its controller."""

_UNPROTECTED: Final = frozenset({"Succeeded", "Failed", "Pending"})
_ALWAYS_ALLOW: Final = "AlwaysAllow"


class BudgetState(Protocol):
    """The fields of a PodDisruptionBudget that the eviction endpoint reads.

    `is_processed` says that its controller has seen the last change of its spec, `unready_may_go`
    that its pods which are not Ready need no allowance, `is_backlogged` that too many evictions
    wait for the controller to confirm them.
    """

    @property
    def disruptions_allowed(self) -> int:
        """Return how many more of its pods may be evicted now."""
        ...

    @property
    def is_processed(self) -> bool:
        """Say whether the status is of the present spec."""
        ...

    @property
    def unready_may_go(self) -> bool:
        """Say whether a pod that is not Ready needs no allowance."""
        ...

    @property
    def is_backlogged(self) -> bool:
        """Say whether more than MAX_UNCONFIRMED evictions are unconfirmed."""
        ...


class BudgetAnswer(Enum):
    """The answers of the eviction endpoint: the first four let the pod go."""

    NOT_RUNNING = "the pod has ended, is terminating or Pending: no budget is asked"
    NO_BUDGET = "no budget selects the pod"
    UNREADY = "the pod is not Ready, and its budget lets it go"
    SPENDS = "one disruption of the budget is spent"
    SEVERAL_BUDGETS = "more than one budget selects the pod"
    STALE = "the budget's controller has not seen its last change"
    NEGATIVE = "the budget allows less than nothing"
    BACKLOGGED = "too many evictions of the budget are unconfirmed"
    EXHAUSTED = "the budget allows no disruption now"


def ask_budgets(
    phase: str, *, is_ready: bool, is_terminating: bool, budgets: Sequence[BudgetState]
) -> BudgetAnswer:
    """Return what the API server answers for a pod in this state, selected by these budgets."""
    if is_terminating or phase in _UNPROTECTED:
        return BudgetAnswer.NOT_RUNNING
    if not budgets:
        return BudgetAnswer.NO_BUDGET
    if len(budgets) > 1:
        return BudgetAnswer.SEVERAL_BUDGETS
    budget = budgets[0]
    if not is_ready and budget.unready_may_go:
        return BudgetAnswer.UNREADY
    if not budget.is_processed:
        return BudgetAnswer.STALE
    if budget.disruptions_allowed < 0:
        return BudgetAnswer.NEGATIVE
    if budget.is_backlogged:
        return BudgetAnswer.BACKLOGGED
    return BudgetAnswer.SPENDS if budget.disruptions_allowed else BudgetAnswer.EXHAUSTED


def lets_unready_go(policy: str, current_healthy: int, desired_healthy: int) -> bool:
    """Say whether a budget needs no allowance for pods that are not Ready.

    `policy` is its unhealthyPodEvictionPolicy, empty where it has none.
    """
    return policy == _ALWAYS_ALLOW or current_healthy >= desired_healthy > 0
