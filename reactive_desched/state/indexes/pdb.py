"""Finds the PodDisruptionBudgets of a pod, cached by label set: pods of a template share it."""

from collections.abc import Hashable, Iterator
from typing import Final

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.labels import Labels, LabelSelector
from reactive_desched.model.objects import ClusterObject, Pod, PodDisruptionBudget
from reactive_desched.primitives.groups import Groups
from reactive_desched.primitives.long_answers import AnswerTakesLong
from reactive_desched.state.indexes.pod_affinity import PodAffinity

MAX_LABEL_SETS = 100_000
"""Label sets cached; at the bound the cache is emptied."""

PARTS_PER_STEP: Final = 2_000
"""So many parts of selectors are compared with a label set at once: 0.2 ms.

How many budgets a namespace has is not bounded: a thousand of 100 parts each took 10 ms.
"""

_END: Final = object()


class PdbIndex(Index):
    """The budgets of each namespace, and which of them select a label set.

    Label sets are cached by identity and kept alive, so that an identity is never used twice.
    An evaluation has the answer about many budgets in steps, which raises AnswerTakesLong. Where a
    selector changes meanwhile, the next answer comes at once, so that there is one.
    """

    kinds = (PodDisruptionBudget,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pdbs = cluster.store(PodDisruptionBudget)
        self._keys = Groups[str, str]()
        self._cache: dict[str, dict[int, tuple[Labels, tuple[str, ...]]]] = {}
        self._cached_label_sets = 0
        self._long_answers = cluster.index(PodAffinity).queries.long_answers  # all have one
        self._outrun = False
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
        found: list[str] = []
        steps = self._compare(pod, found)
        if not self._long_answers.in_steps or self._outrun:
            for _ in steps:
                pass
        elif next(steps, _END) is not _END:
            raise AnswerTakesLong(steps)
        self._outrun = False
        return tuple(found)

    def _compare(self, pod: Pod, found: list[str]) -> Iterator[None]:
        """Add the keys of a pod's budgets, and cache them unless a selector changed meanwhile."""
        if self._cached_label_sets >= MAX_LABEL_SETS:
            self._cache.clear()
            self._cached_label_sets = 0
        cache = self._cache.setdefault(pod.namespace, {})
        parts = 0
        for key in tuple(self._keys.of(pod.namespace)):
            if (pdb := self._pdbs.get(key)) is None or pdb.selector is None:
                continue
            parts += _parts(pdb.selector)
            if parts > PARTS_PER_STEP:
                yield
                parts = _parts(pdb.selector)
            if pdb.covers(pod):
                found.append(key)
        if self._cache.get(pod.namespace) is not cache:
            self._outrun = True
        elif id(pod.labels) not in cache:
            cache[id(pod.labels)] = pod.labels, tuple(found)
            self._cached_label_sets += 1

    def _invalidate(self, namespace: str) -> None:
        self._cached_label_sets -= len(self._cache.pop(namespace, {}))


def _parts(selector: LabelSelector) -> int:
    """Return how much there is to compare with a label set."""
    values = sum(len(each.values) for each in selector.match_expressions)
    return 1 + len(selector.match_labels) + len(selector.match_expressions) + values
