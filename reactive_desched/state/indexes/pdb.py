"""Finds the PodDisruptionBudgets of a pod, cached by label set: pods of a template share it."""

from collections.abc import Hashable

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import ClusterObject, Pod, PodDisruptionBudget
from reactive_desched.primitives.groups import Groups

MAX_LABEL_SETS = 100_000
"""Label sets cached; at the bound the cache is emptied."""


class PdbIndex(Index):
    """The budgets of each namespace, and which of them select a label set.

    Label sets are cached by identity and kept alive, so that an identity is never used twice.
    """

    kinds = (PodDisruptionBudget,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pdbs = cluster.store(PodDisruptionBudget)
        self._keys = Groups[str, str]()
        self._cache: dict[str, dict[int, tuple[Labels, tuple[str, ...]]]] = {}
        self._cached_label_sets = 0
        for pdb in self._pdbs:
            self._keys.add(pdb.namespace, pdb.key)

    def covering(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the budgets that cover a pod, as they are now."""
        if pod.namespace not in self._keys:
            return []
        cached = self._cache.get(pod.namespace, {}).get(id(pod.labels))
        keys = self._lookup(pod) if cached is None else cached[1]
        found = (self._pdbs.get(key) for key in keys)
        return [pdb for pdb in found if pdb is not None]

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> tuple[()]:
        """Forget the namespace's answers if a budget came, went, or selects other pods."""
        assert old is None or isinstance(old, PodDisruptionBudget)
        assert new is None or isinstance(new, PodDisruptionBudget)
        if old is not None and new is not None and old.selector == new.selector:
            return ()
        if new is not None:
            self._keys.add(new.namespace, new.key)
            self._invalidate(new.namespace)
        elif old is not None:
            self._keys.discard(old.namespace, old.key)
            self._invalidate(old.namespace)
        return ()

    def answers(self) -> object:
        """Return the keys of each pod's budgets."""
        return {
            pod.uid: sorted(pdb.key for pdb in self.covering(pod))
            for pod in self._cluster.store(Pod)
        }

    def _lookup(self, pod: Pod) -> tuple[str, ...]:
        pdbs = (self._pdbs.get(key) for key in self._keys.of(pod.namespace))
        keys = tuple(pdb.key for pdb in pdbs if pdb is not None and pdb.covers(pod))
        if self._cached_label_sets >= MAX_LABEL_SETS:
            self._cache.clear()
            self._cached_label_sets = 0
        self._cache.setdefault(pod.namespace, {})[id(pod.labels)] = pod.labels, keys
        self._cached_label_sets += 1
        return keys

    def _invalidate(self, namespace: str) -> None:
        self._cached_label_sets -= len(self._cache.pop(namespace, {}))
