"""The evictors of a dry run: they send no request to the API server."""

from collections.abc import Sequence

from msgspec.structs import replace

from reactive_desched.errors import ClusterError
from reactive_desched.eviction.client import EvictionClient
from reactive_desched.model.changes import Change
from reactive_desched.model.disruption import BudgetAnswer, ask_budgets
from reactive_desched.model.evictor_table import evictor_named
from reactive_desched.model.objects import PodDisruptionBudget
from reactive_desched.model.outcomes import (
    Accepted,
    Conflict,
    Denied,
    DryRun,
    EvictionRequest,
    EvictionResponse,
    NotFound,
    PdbRefused,
    PodLookup,
    ServerError,
)
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.indexes.pdb import PdbIndex

STALE_RETRY_S = 10.0
"""After so long the API server asks to try again where it has not processed a budget's change."""


class DryRunEvictor(EvictionClient):
    """Answers every request with DryRun."""

    async def evict(self, _: EvictionRequest) -> EvictionResponse:
        """Return DryRun without a request."""
        return DryRun()

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Raise ClusterError: a dry run has no effect to read back."""
        raise ClusterError(f"a dry run never reads {namespace}/{name} back")


class StillClusterEvictor(DryRunEvictor):
    """Answers as the API server would in a cluster in which nothing else happens.

    PodDisruptionBudgets are counted down in the cluster state that is given.
    """

    def __init__(self, state: ClusterState, view: ClusterView) -> None:
        self._endpoint = EvictionEndpoint(state, view)

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Return DryRun for an eviction that the API server would accept, else its refusal.

        The refusal's message says that nothing was requested: records keep it.
        """
        response, _ = self._endpoint.answer(request)
        match response:
            case Accepted():
                return DryRun()
            case PdbRefused() | Denied() | ServerError():
                return replace(response, message=f"dry run: {response.message}")
            case _:
                return response


class EvictionEndpoint:
    """The eviction endpoint of the API server over a cluster state, for previews.

    An accepted eviction spends its PodDisruptionBudget; the pod itself stays in the state.
    """

    def __init__(self, state: ClusterState, view: ClusterView) -> None:
        self._state = state
        self._view = view

    def answer(self, request: EvictionRequest) -> tuple[EvictionResponse, Sequence[Change]]:
        """Return the API server's response, and what the eviction changes in the budgets."""
        pod = self._view.pod(request.uid)
        if pod is None:
            return NotFound(), ()
        if (pod.namespace, pod.name) != (request.namespace, request.name):
            return Conflict("the name belongs to another pod"), ()
        if evictor_named(request.options.evictor).is_deletion:
            return Accepted(), ()
        budgets = self._view.index(PdbIndex).covering(pod)
        answer = ask_budgets(
            pod.status.phase,
            is_ready=pod.status.is_ready,
            is_terminating=pod.is_terminating,
            budgets=budgets,
        )
        if answer is BudgetAnswer.SEVERAL_BUDGETS:
            return ServerError(500, "This pod has more than one PodDisruptionBudget"), ()
        for budget in budgets:
            if (refusal := _refusal(budget, answer)) is not None:
                return refusal, ()
            if answer is BudgetAnswer.SPENDS:
                left = budget.disruptions_allowed - 1
                spent = replace(budget, disruptions_allowed=left, resource_version=0)
                return Accepted(), self._state.upsert(spent)
        return Accepted(), ()


def _refusal(budget: PodDisruptionBudget, answer: BudgetAnswer) -> EvictionResponse | None:
    """Return how the API server refuses an eviction that a pod's only budget forbids, or None."""
    name = f"PodDisruptionBudget {budget.name}"
    match answer:
        case BudgetAnswer.STALE:
            return PdbRefused(f"{name} is still being processed by the server", STALE_RETRY_S)
        case BudgetAnswer.NEGATIVE | BudgetAnswer.BACKLOGGED:
            return Denied(403, f"{name}: {answer.value}")
        case BudgetAnswer.EXHAUSTED:
            return PdbRefused(f"{name} allows {budget.disruptions_allowed} disruptions now")
        case _:
            return None
