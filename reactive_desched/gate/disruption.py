"""Would a disruption budget refuse this pod? Asked of our own picture, to spare useless calls.

The API server has the last word. Pods that are not Ready are left to it, since its rules let
many of them go; so are pods under several budgets, which it answers with an error.
"""

from collections.abc import Callable, Iterable, Iterator

from cachetools import TTLCache

from reactive_desched.model.changes import Change, DisruptionBudgetChanged
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod, PodDisruptionBudget, PodKey
from reactive_desched.state.view import ClusterView

BOOKED_BUDGETS = 10_000
BOOKING_S = 30.0
LOOK_AGAIN_S = 60.0
"""A budget's news could be lost on the way: whoever waits for it looks again after this."""


class DisruptionBudgets:
    """Refuses what a budget has no room for, counting evictions its status does not show yet.

    An eviction is booked on its budgets until the budget's status changes, for 30 seconds at
    most; 10,000 budgets can hold bookings, beyond that the oldest booking is dropped and the
    API server refuses in our place.
    """

    name = "DisruptionBudget"

    def __init__(self, view: ClusterView, clock: Callable[[], float]) -> None:
        self._view = view
        self._booked: TTLCache[str, frozenset[PodKey]] = TTLCache(
            BOOKED_BUDGETS, BOOKING_S, timer=clock
        )

    def verdict(self, finding: Finding, now: float) -> Refuse | None:
        """Refuse a Ready pod whose one budget allows no more."""
        pod = finding.pod
        budgets = self._view.budgets_over(pod)
        if len(budgets) != 1 or not pod.status.is_ready:
            return None
        budget = budgets[0]
        booked = len(self._booked.get(budget.key, frozenset()) - {pod.uid})
        if budget.disruptions_allowed > booked:
            return None
        reason = f"disruption budget {budget.name} allows {budget.disruptions_allowed} now"
        if booked and budget.disruptions_allowed:
            reason += f", {booked} of them promised"
        wakes = (("budgets", pod.namespace), ("pod", pod.uid))
        return Refuse(finding, self.name, reason, wakes, until=now + LOOK_AGAIN_S)

    def begin(self, pod: Pod) -> None:
        """Book an eviction that is about to be asked for."""
        for budget in self._view.budgets_over(pod):
            self._booked[budget.key] = self._booked.get(budget.key, frozenset()) | {pod.uid}

    def end(self, pod: Pod, *, evicted: bool) -> None:
        """Drop the booking of an eviction that did not happen."""
        if not evicted:
            for budget in self._view.budgets_over(pod):
                self._drop(budget, {pod.uid})

    def observe(self, changes: Iterable[Change]) -> None:
        """A budget's status changed: it shows the evictions that were accepted by now."""
        for change in changes:
            if isinstance(change, DisruptionBudgetChanged):
                self._booked.pop(f"{change.namespace}/{change.name}", None)

    def _drop(self, budget: PodDisruptionBudget, pods: set[PodKey]) -> None:
        left = self._booked.get(budget.key, frozenset()) - pods
        if left:
            self._booked[budget.key] = left
        else:
            self._booked.pop(budget.key, None)

    def booked(self) -> Iterator[str]:
        """Name the budgets that hold bookings."""
        return iter(self._booked)
