"""Which disruption budgets cover a pod, remembered per label set: siblings share the answer."""

from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import Pod, PodDisruptionBudget
from reactive_desched.state.store import Table

REMEMBERED = 100_000
"""Label sets remembered; at the bound all are forgotten and asked again."""


class Coverage:
    """Answers from the budgets of the pod's namespace; told when their selectors change.

    Label sets are known by identity and held, so that an identity is never used twice.
    """

    def __init__(self, budgets: Table[PodDisruptionBudget]) -> None:
        self._budgets = budgets
        self._keys: dict[str, dict[int, tuple[Labels, tuple[str, ...]]]] = {}
        self._count = 0

    def over(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the budgets that cover a pod, as they are now."""
        known = self._keys.setdefault(pod.namespace, {})
        answer = known.get(id(pod.labels))
        if answer is None:
            answer = self._ask(pod)
            self._make_room()
            self._keys.setdefault(pod.namespace, {})[id(pod.labels)] = answer
            self._count += 1
        found = (self._budgets.get(key) for key in answer[1])
        return [budget for budget in found if budget is not None]

    def selectors_changed(self, namespace: str) -> None:
        """Forget what was known of a namespace: a budget came, went, or selects otherwise."""
        self._count -= len(self._keys.pop(namespace, {}))

    def _ask(self, pod: Pod) -> tuple[Labels, tuple[str, ...]]:
        budgets = self._budgets.grouped(pod.namespace)
        return pod.labels, tuple(budget.key for budget in budgets if budget.covers(pod))

    def _make_room(self) -> None:
        if self._count >= REMEMBERED:
            self._keys.clear()
            self._count = 0
