"""Which disruption budgets cover a pod, remembered per label set: siblings share the answer."""

from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import Pod, PodDisruptionBudget
from reactive_desched.state.store import Store

MAX_LABEL_SETS = 100_000
"""Label sets remembered; at the bound all are forgotten and asked again."""


class PdbIndex:
    """Answers from the budgets of the pod's namespace; told when their selectors change.

    Label sets are known by identity and held, so that an identity is never used twice.
    """

    def __init__(self, pdbs: Store[PodDisruptionBudget]) -> None:
        self._pdbs = pdbs
        self._cache: dict[str, dict[int, tuple[Labels, tuple[str, ...]]]] = {}
        self._cached_label_sets = 0

    def covering(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the budgets that cover a pod, as they are now."""
        cached = self._cache.setdefault(pod.namespace, {})
        answer = cached.get(id(pod.labels))
        if answer is None:
            answer = self._lookup(pod)
            self._clear_if_full()
            self._cache.setdefault(pod.namespace, {})[id(pod.labels)] = answer
            self._cached_label_sets += 1
        found = (self._pdbs.get(key) for key in answer[1])
        return [pdb for pdb in found if pdb is not None]

    def invalidate(self, namespace: str) -> None:
        """Forget what was known of a namespace: a budget came, went, or selects otherwise."""
        self._cached_label_sets -= len(self._cache.pop(namespace, {}))

    def _lookup(self, pod: Pod) -> tuple[Labels, tuple[str, ...]]:
        pdbs = self._pdbs.by_group(pod.namespace)
        return pod.labels, tuple(pdb.key for pdb in pdbs if pdb.covers(pod))

    def _clear_if_full(self) -> None:
        if self._cached_label_sets >= MAX_LABEL_SETS:
            self._cache.clear()
            self._cached_label_sets = 0
