"""Refuses pods whose PodDisruptionBudget allows no eviction, to spare requests that would fail.

The API server has the last word. It decides alone about pods that are not Ready, since its rules
let many of them go. A pod under several PodDisruptionBudgets it never evicts: it answers with 500.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cachetools import TTLCache

from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.changes import Change, PdbChanged
from reactive_desched.model.decisions import DISRUPTION_BUDGET, GateReason, Refuse
from reactive_desched.model.disruption import BudgetAnswer, ask_budgets
from reactive_desched.model.eviction_options import BY_EVICTION
from reactive_desched.model.evictor_table import evictor_named
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import PodDisruptionBudget, PodKey
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.wakes import WakeOnPdb, WakeOnPod
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.pdb import PdbIndex
from reactive_desched.text.counts import agree, format_count

MAX_ASSUMED_PDBS = 10_000
ASSUME_TTL_S = 30.0
RECHECK_AFTER_S = 60.0
"""A blocked finding is evaluated again after this, in case a PodDisruptionBudget event was lost."""

SEVERAL_DISRUPTION_BUDGETS: Final = GateReason(
    DISRUPTION_BUDGET.gate,
    "SeveralDisruptionBudgets",
    "More than one PodDisruptionBudget covers the pod: the API server evicts no such pod.",
)


class PdbFilter(EvictionParticipant):
    """Refuses a pod whose PodDisruptionBudget has no disruption left, with assumed evictions.

    An eviction is assumed on its PodDisruptionBudgets until their status changes, for 30 seconds
    at most. At most 10,000 PodDisruptionBudgets have assumed evictions; beyond that the oldest
    entry is dropped, and the API server refuses instead.
    """

    name = DISRUPTION_BUDGET.gate
    indexes = (PdbIndex,)
    reacts_to = (PdbChanged,)

    def __init__(self, view: ClusterView, clock: Callable[[], float]) -> None:
        self._view = view
        self._assumed: TTLCache[str, frozenset[PodKey]] = TTLCache(
            MAX_ASSUMED_PDBS, ASSUME_TTL_S, timer=clock
        )

    def check(self, finding: Finding, now: float) -> Refuse | None:
        """Refuse a Ready pod whose PodDisruptionBudget allows no further disruption.

        A pod under several budgets is refused whether it is Ready or not, until the API server
        would ask none of them. Of a pod that is to be deleted, or that has ended, the API server
        asks no budget.
        """
        pod, options = finding.pod, finding.options or BY_EVICTION
        if pod.has_ended or evictor_named(options.evictor).is_deletion:
            return None
        if not (pdbs := self._view.index(PdbIndex).covering(pod)):
            return None
        if len(pdbs) > 1:
            return self._refuse_several(finding, pdbs, now)
        if not pod.status.is_ready:
            return None
        pdb = pdbs[0]
        assumed = len(self._assumed.get(pdb.key, frozenset()) - {pod.uid})
        if pdb.disruptions_allowed > assumed:
            return None
        allowed = format_count(pdb.disruptions_allowed, "disruption")
        message = f"PodDisruptionBudget {pdb.name} allows {allowed} now"
        if assumed and pdb.disruptions_allowed:
            use = agree(assumed, "uses it", "use them")
            message += f", and {format_count(assumed, 'eviction')} under way {use}"
        if pdb.never_allows:
            message += (
                ", and none while all of its pods are healthy either: lower its minAvailable, or "
                "raise its maxUnavailable or the number of pods"
            )
        return _refuse(DISRUPTION_BUDGET, finding, message, now)

    def _refuse_several(
        self, finding: Finding, pdbs: Sequence[PodDisruptionBudget], now: float
    ) -> Refuse | None:
        status = finding.pod.status
        answer = ask_budgets(
            status.phase,
            is_ready=status.is_ready,
            is_terminating=finding.pod.is_terminating,
            budgets=pdbs,
        )
        if answer is not BudgetAnswer.SEVERAL_BUDGETS:
            return None
        names = ", ".join(sorted(pdb.name for pdb in pdbs))
        message = f"PodDisruptionBudgets {names} cover the pod, and the API server takes one alone"
        return _refuse(SEVERAL_DISRUPTION_BUDGETS, finding, message, now)

    def decided(self, eviction: Eviction) -> None:
        """Assume the eviction of the pod on its PodDisruptionBudgets; one that has ended has none.

        The API server lets it go without them, so their status will not show it.
        """
        if (pod := eviction.pod) is not None and not pod.has_ended:
            for pdb in self._view.index(PdbIndex).covering(pod):
                self._assumed[pdb.key] = self._assumed.get(pdb.key, frozenset()) | {pod.uid}

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Drop the assumption when the eviction did not happen."""
        del outcome
        if not eviction.leaves and (pod := eviction.pod) is not None:
            for pdb in self._view.index(PdbIndex).covering(pod):
                self._drop_assumed(pdb, {pod.uid})

    def apply_changes(self, changes: Iterable[Change], now: float) -> bool:
        """Drop the assumptions of a PodDisruptionBudget whose status changed: it shows them now."""
        del now
        for change in changes:
            if isinstance(change, PdbChanged):
                self._assumed.pop(f"{change.namespace}/{change.name}", None)
        return False

    def _drop_assumed(self, pdb: PodDisruptionBudget, pods: set[PodKey]) -> None:
        left = self._assumed.get(pdb.key, frozenset()) - pods
        if left:
            self._assumed[pdb.key] = left
        else:
            self._assumed.pop(pdb.key, None)


def _refuse(reason: GateReason, finding: Finding, message: str, now: float) -> Refuse:
    """Refuse until a budget of the namespace or the pod differs."""
    wakes = (WakeOnPdb(finding.pod.namespace), WakeOnPod(finding.pod.uid))
    return reason.refuse(finding, message, wakes, retry_at_s=now + RECHECK_AFTER_S)
