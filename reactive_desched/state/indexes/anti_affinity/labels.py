"""Which selections mean a pod, and which pods a selection means, without asking each of either.

A selection is enrolled under one of the labels it demands, and pods are indexed by those labels
alone. So a pod finds the selections that mean it by looking up its own labels, and a selection
its pods by looking up one label.
"""

from collections.abc import Callable, Iterable, Iterator

from reactive_desched.model.labels import Labels, LabelSelector
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.state.indexes.anti_affinity.terms import Selection
from reactive_desched.state.indexes.multimap import Groups

Demand = tuple[str, tuple[str, ...]]
"""A label that a selector demands, with the values that will do."""


class Population:
    """The pods of one namespace, or of all, and the selections that may mean some of them.

    `residents` lists the pods, when they are needed all. Pods are indexed by a label from the
    first time a selection's candidates are asked for by it until no selection demands it.
    """

    def __init__(self, residents: Callable[[], Iterable[Pod]]) -> None:
        self._residents = residents
        self._demands: dict[Selection, Demand | None] = {}
        self._by_label: dict[str, dict[str, list[Selection]]] = {}
        self._demanding_nothing: dict[Selection, None] = {}
        self._pods: dict[str, Groups] = {}

    def __len__(self) -> int:
        return len(self._demands)

    def __iter__(self) -> Iterator[Selection]:
        return iter(self._demands)

    def enrol(self, selection: Selection) -> None:
        """Let a selection be found by the pods that it means."""
        demand = self._demands[selection] = self._least_crowded(selection.selector)
        if demand is None:
            self._demanding_nothing[selection] = None
            return
        key, values = demand
        for value in values:
            self._by_label.setdefault(key, {}).setdefault(value, []).append(selection)

    def dismiss(self, selection: Selection) -> None:
        """Forget a selection, and the index of pods that only it needed."""
        demand = self._demands.pop(selection)
        if demand is None:
            del self._demanding_nothing[selection]
            return
        key, values = demand
        enrolled = self._by_label[key]
        for value in values:
            enrolled[value].remove(selection)
            if not enrolled[value]:
                del enrolled[value]
        if not enrolled:
            del self._by_label[key]
            self._pods.pop(key, None)

    def meaning(self, labels: Labels) -> list[Selection]:
        """Return the selections whose selectors match a pod's labels."""
        found: list[Selection] = []
        by_label = self._by_label
        for key, value in labels.items():
            if (enrolled := by_label.get(key)) is not None and value in enrolled:
                found += [s for s in enrolled[value] if s.is_plain or s.selector.matches(labels)]
        if self._demanding_nothing:
            found += [s for s in self._demanding_nothing if s.selector.matches(labels)]
        return found

    def candidates(self, selection: Selection) -> Iterator[PodKey]:
        """Return the keys of the active pods that meet what the selection is enrolled by."""
        demand = self._demands[selection]
        if demand is None:
            yield from (pod.uid for pod in self._residents() if pod.is_active)
            return
        key, values = demand
        groups = self._pods.get(key)
        if groups is None:
            groups = self._pods[key] = self._indexed_by(key)
        for value in values:
            yield from groups.of(value)

    def follow(self, old: Pod | None, new: Pod | None) -> None:
        """Keep the indexes right: an active pod came, went (None), or its labels differ."""
        for key, groups in self._pods.items():
            before = old.labels.get(key) if old is not None else None
            after = new.labels.get(key) if new is not None else None
            if before == after:
                continue
            if old is not None and before is not None:
                groups.discard(before, old.uid)
            if new is not None and after is not None:
                groups.add(after, new.uid)

    def _indexed_by(self, key: str) -> Groups:
        groups = Groups()
        for pod in self._residents():
            if (value := pod.labels.get(key)) is not None and pod.is_active:
                groups.add(value, pod.uid)
        return groups

    def _least_crowded(self, selector: LabelSelector) -> Demand | None:
        """Choose the label under which the fewest selections are enrolled by now."""
        return min(_demands(selector), key=self._crowd, default=None)

    def _crowd(self, demand: Demand) -> int:
        key, values = demand
        enrolled = self._by_label.get(key, {})
        return sum(len(enrolled.get(value, ())) for value in values)


def _demands(selector: LabelSelector) -> Iterator[Demand]:
    for key, value in selector.match_labels.items():
        yield key, (value,)
    for requirement in selector.match_expressions:
        if requirement.operator == "In":
            yield requirement.key, tuple(dict.fromkeys(requirement.values))
