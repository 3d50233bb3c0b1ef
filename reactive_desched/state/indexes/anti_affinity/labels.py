"""Which selections mean a pod, and which pods a selection means, without asking each of either.

A selection is enrolled under one of the labels it demands, and pods are indexed by those labels
alone. So a pod finds the selections that mean it by looking up its own labels, and a selection
its pods by looking up one label.
"""

from collections.abc import Callable, Iterable, Iterator

from reactive_desched.model.labels import Labels, LabelSelector
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.state.indexes.anti_affinity.terms import SelectorQuery
from reactive_desched.state.indexes.multimap import CompactMultiMap

RequiredLabel = tuple[str, tuple[str, ...]]
"""A label that a selector demands, with the values that will do."""


class LabelIndex:
    """The pods of one namespace, or of all, and the selections that may mean some of them.

    `residents` lists the pods, when they are needed all. Pods are indexed by a label from the
    first time a selection's candidates are asked for by it until no selection demands it.
    """

    def __init__(self, list_pods: Callable[[], Iterable[Pod]]) -> None:
        self._list_pods = list_pods
        self._queries: dict[SelectorQuery, RequiredLabel | None] = {}
        self._queries_by_label: dict[str, dict[str, list[SelectorQuery]]] = {}
        self._unindexed_queries: dict[SelectorQuery, None] = {}
        self._pods_by_label: dict[str, CompactMultiMap] = {}

    def __len__(self) -> int:
        return len(self._queries)

    def __iter__(self) -> Iterator[SelectorQuery]:
        return iter(self._queries)

    def register(self, query: SelectorQuery) -> None:
        """Let a selection be found by the pods that it means."""
        label = self._queries[query] = self._most_selective(query.selector)
        if label is None:
            self._unindexed_queries[query] = None
            return
        key, values = label
        for value in values:
            self._queries_by_label.setdefault(key, {}).setdefault(value, []).append(query)

    def unregister(self, query: SelectorQuery) -> None:
        """Forget a selection, and the index of pods that only it needed."""
        label = self._queries.pop(query)
        if label is None:
            del self._unindexed_queries[query]
            return
        key, values = label
        registered = self._queries_by_label[key]
        for value in values:
            registered[value].remove(query)
            if not registered[value]:
                del registered[value]
        if not registered:
            del self._queries_by_label[key]
            self._pods_by_label.pop(key, None)

    def queries_matching(self, labels: Labels) -> list[SelectorQuery]:
        """Return the selections whose selectors match a pod's labels."""
        found: list[SelectorQuery] = []
        by_label = self._queries_by_label
        for key, value in labels.items():
            if (registered := by_label.get(key)) is not None and value in registered:
                found += [
                    s for s in registered[value] if s.is_single_label or s.selector.matches(labels)
                ]
        if self._unindexed_queries:
            found += [s for s in self._unindexed_queries if s.selector.matches(labels)]
        return found

    def candidates(self, query: SelectorQuery) -> Iterator[PodKey]:
        """Return the keys of the active pods that meet what the selection is enrolled by."""
        label = self._queries[query]
        if label is None:
            yield from (pod.uid for pod in self._list_pods() if pod.is_active)
            return
        key, values = label
        groups = self._pods_by_label.get(key)
        if groups is None:
            groups = self._pods_by_label[key] = self._build_index(key)
        for value in values:
            yield from groups.members(value)

    def update_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Keep the indexes right: an active pod came, went (None), or its labels differ."""
        for key, groups in self._pods_by_label.items():
            before = old.labels.get(key) if old is not None else None
            after = new.labels.get(key) if new is not None else None
            if before == after:
                continue
            if old is not None and before is not None:
                groups.discard(before, old.uid)
            if new is not None and after is not None:
                groups.add(after, new.uid)

    def _build_index(self, key: str) -> CompactMultiMap:
        groups = CompactMultiMap()
        for pod in self._list_pods():
            if (value := pod.labels.get(key)) is not None and pod.is_active:
                groups.add(value, pod.uid)
        return groups

    def _most_selective(self, selector: LabelSelector) -> RequiredLabel | None:
        """Choose the label under which the fewest selections are enrolled by now."""
        return min(_required_labels(selector), key=self._registered_count, default=None)

    def _registered_count(self, label: RequiredLabel) -> int:
        key, values = label
        registered = self._queries_by_label.get(key, {})
        return sum(len(registered.get(value, ())) for value in values)


def _required_labels(selector: LabelSelector) -> Iterator[RequiredLabel]:
    for key, value in selector.match_labels.items():
        yield key, (value,)
    for requirement in selector.match_expressions:
        if requirement.operator == "In":
            yield requirement.key, tuple(dict.fromkeys(requirement.values))
