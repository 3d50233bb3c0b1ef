"""Would a disruption budget refuse this pod? Asked of our own picture, to spare useless calls.

The API server has the last word. Pods that are not Ready are left to it, since its rules let
many of them go; so are pods under several budgets, which it answers with an error.
"""

from collections.abc import Callable, Iterable, Iterator

from cachetools import TTLCache

from reactive_desched.model.changes import Change, PdbChanged
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod, PodDisruptionBudget, PodKey
from reactive_desched.model.wakes import WakeOnPdb, WakeOnPod
from reactive_desched.state.indexes.pdb import PdbIndex
from reactive_desched.state.view import ClusterView

MAX_ASSUMED_PDBS = 10_000
ASSUME_TTL_S = 30.0
RECHECK_AFTER_S = 60.0
"""A budget's news could be lost on the way: whoever waits for it looks again after this."""


class PdbFilter:
    """Refuses what a budget has no room for, counting evictions its status does not show yet.

    An eviction is booked on its budgets until the budget's status changes, for 30 seconds at
    most; 10,000 budgets can hold bookings, beyond that the oldest booking is dropped and the
    API server refuses in our place.
    """

    name = "DisruptionBudget"
    indexes = (PdbIndex,)

    def __init__(self, view: ClusterView, clock: Callable[[], float]) -> None:
        self._view = view
        self._assumed: TTLCache[str, frozenset[PodKey]] = TTLCache(
            MAX_ASSUMED_PDBS, ASSUME_TTL_S, timer=clock
        )

    def check(self, finding: Finding, now: float) -> Refuse | None:
        """Refuse a Ready pod whose one budget allows no more."""
        pod = finding.pod
        pdbs = self._view.index(PdbIndex).covering(pod)
        if len(pdbs) != 1 or not pod.status.is_ready:
            return None
        pdb = pdbs[0]
        assumed = len(self._assumed.get(pdb.key, frozenset()) - {pod.uid})
        if pdb.disruptions_allowed > assumed:
            return None
        reason = f"disruption budget {pdb.name} allows {pdb.disruptions_allowed} now"
        if assumed and pdb.disruptions_allowed:
            reason += f", {assumed} of them promised"
        wakes = (WakeOnPdb(pod.namespace), WakeOnPod(pod.uid))
        return Refuse(finding, self.name, reason, wakes, retry_at_s=now + RECHECK_AFTER_S)

    def reserve(self, pod: Pod) -> None:
        """Book an eviction that is about to be asked for."""
        for pdb in self._view.index(PdbIndex).covering(pod):
            self._assumed[pdb.key] = self._assumed.get(pdb.key, frozenset()) | {pod.uid}

    def release(self, pod: Pod, *, evicted: bool) -> None:
        """Drop the booking of an eviction that did not happen."""
        if not evicted:
            for pdb in self._view.index(PdbIndex).covering(pod):
                self._drop_assumed(pdb, {pod.uid})

    def apply_changes(self, changes: Iterable[Change]) -> None:
        """A budget's status changed: it shows the evictions that were accepted by now."""
        for change in changes:
            if isinstance(change, PdbChanged):
                self._assumed.pop(f"{change.namespace}/{change.name}", None)

    def _drop_assumed(self, pdb: PodDisruptionBudget, pods: set[PodKey]) -> None:
        left = self._assumed.get(pdb.key, frozenset()) - pods
        if left:
            self._assumed[pdb.key] = left
        else:
            self._assumed.pop(pdb.key, None)

    def assumed_pdbs(self) -> Iterator[str]:
        """Name the budgets that hold bookings."""
        return iter(self._assumed)
