"""Names the groups of unschedulable pods that a new, gone or changed pod affects."""

from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

from reactive_desched.fit.filters import NodeFilters
from reactive_desched.model.affinity_terms import depend_on_labels, scheduler_scope
from reactive_desched.model.objects import Pod, PodAffinityTerm, controller_of
from reactive_desched.model.spread import effective_selector, hard_constraints

K = TypeVar("K", bound=Hashable)
_ANY_NAMESPACE: Final = ""  # no namespace has this name


class AffinityWakeIndex(Generic[K]):
    """Groups of pods by the namespaces whose pods their affinity and spread constraints read."""

    def __init__(self, filters: NodeFilters) -> None:
        self._pod_affinity = filters.pod_affinity
        self._spread = filters.topology_spread
        self._pods: dict[K, Pod] = {}
        self._by_watched_namespace: dict[str, dict[K, Pod]] = {}
        self._by_own_namespace: dict[str, dict[K, Pod]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._pods))

    def add(self, key: K, pod: Pod) -> None:
        """Add a group that other pods keep off some node."""
        self._pods[key] = pod
        self._by_own_namespace.setdefault(pod.namespace, {})[key] = pod
        for namespace in _watched_namespaces(pod):
            self._by_watched_namespace.setdefault(namespace, {})[key] = pod

    def discard(self, key: K) -> None:
        """Remove a group."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        _remove_from_index(self._by_own_namespace, pod.namespace, key)
        for namespace in _watched_namespaces(pod):
            _remove_from_index(self._by_watched_namespace, namespace, key)

    def affected_groups(self, other: Pod) -> set[K]:
        """Return the groups whose constraints match a pod, or that its anti-affinity matches."""
        found: set[K] = set()
        selected: dict[int, bool] = {}  # of one spec all look alike, but for labels and controllers
        for namespace in (other.namespace, _ANY_NAMESPACE):
            for key, pod in self._by_watched_namespace.get(namespace, {}).items():
                kind = id(pod.spec)
                differs = _depends_on_labels(pod) or self._spread.has_defaults(pod)
                if differs or kind not in selected:
                    selected[kind] = self._selects(pod, other)
                if selected[kind]:
                    found.add(key)
        for term in other.spec.anti_affinity:
            found.update(self._excluded_by(other, term))
        return found

    def _selects(self, pod: Pod, other: Pod) -> bool:
        terms = (*pod.spec.pod_affinity, *pod.spec.anti_affinity)
        if any(self._pod_affinity.matches(term, pod, other) for term in terms):
            return True
        if other.namespace != pod.namespace:
            return False
        if self._spread.has_defaults(pod):
            return controller_of(other.owners) == controller_of(pod.owners)
        selectors = (
            effective_selector(constraint, pod.labels) for constraint in hard_constraints(pod.spec)
        )
        return any(s is not None and s.matches(other.labels) for s in selectors)

    def _excluded_by(self, other: Pod, term: PodAffinityTerm) -> Iterator[K]:
        scope = scheduler_scope(term, other.namespace)
        namespaces = (
            self._by_own_namespace if scope.namespace_selector is not None else scope.namespaces
        )
        for namespace in namespaces:
            for key, pod in self._by_own_namespace.get(namespace, {}).items():
                if self._pod_affinity.matches(term, other, pod):
                    yield key


def _watched_namespaces(pod: Pod) -> Iterator[str]:
    """Return the namespaces whose pods a pod's constraints read."""
    yield pod.namespace
    for term in (*pod.spec.pod_affinity, *pod.spec.anti_affinity):
        scope = scheduler_scope(term, pod.namespace)
        if scope.namespace_selector is not None:
            yield _ANY_NAMESPACE
        yield from scope.namespaces


def _depends_on_labels(pod: Pod) -> bool:
    spec = pod.spec
    return depend_on_labels((*spec.pod_affinity, *spec.anti_affinity)) or any(
        constraint.match_label_keys for constraint in spec.topology_spread_constraints
    )


def _remove_from_index(index: dict[str, dict[K, Pod]], namespace: str, key: K) -> None:
    of_namespace = index.get(namespace)
    if of_namespace is None:
        return
    of_namespace.pop(key, None)
    if not of_namespace:
        del index[namespace]
