"""Which of the groups that fit nowhere look at a pod that came, went or differs."""

from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

from reactive_desched.fit.pod_affinity import Neighbours
from reactive_desched.model.affinity_terms import scheduler_scope
from reactive_desched.model.objects import Pod, PodAffinityTerm
from reactive_desched.model.spread import binding, selector_of

K = TypeVar("K", bound=Hashable)
_ANYWHERE: Final = ""  # no namespace has this name


class Heeding(Generic[K]):
    """Groups, by key and a pod of each, under the namespaces that they look at."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._pods: dict[K, Pod] = {}
        self._looking_at: dict[str, dict[K, Pod]] = {}
        self._at_home: dict[str, dict[K, Pod]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._pods))

    def add(self, key: K, pod: Pod) -> None:
        """Note a group that other pods keep off some node."""
        self._pods[key] = pod
        self._at_home.setdefault(pod.namespace, {})[key] = pod
        for namespace in _namespaces(pod):
            self._looking_at.setdefault(namespace, {})[key] = pod

    def discard(self, key: K) -> None:
        """Forget a group."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        _take_out(self._at_home, pod.namespace, key)
        for namespace in _namespaces(pod):
            _take_out(self._looking_at, namespace, key)

    def concerned(self, other: Pod) -> set[K]:
        """Return the groups that look at a pod, or that it does not want near."""
        found: set[K] = set()
        verdicts: dict[int, bool] = {}  # of one spec all look alike, but for labels to match
        for namespace in (other.namespace, _ANYWHERE):
            for key, pod in self._looking_at.get(namespace, {}).items():
                kind = id(pod.spec)
                if kind not in verdicts or _depends_on_labels(pod):
                    verdicts[kind] = self._looks_at(pod, other)
                if verdicts[kind]:
                    found.add(key)
        for term in other.spec.anti_affinity:
            found.update(self._repelled(other, term))
        return found

    def _looks_at(self, pod: Pod, other: Pod) -> bool:
        terms = (*pod.spec.pod_affinity, *pod.spec.anti_affinity)
        if any(self._neighbours.means(term, pod.namespace, other) for term in terms):
            return True
        if other.namespace != pod.namespace:
            return False
        selectors = (selector_of(constraint, pod.labels) for constraint in binding(pod.spec))
        return any(s is not None and s.matches(other.labels) for s in selectors)

    def _repelled(self, other: Pod, term: PodAffinityTerm) -> Iterator[K]:
        scope = scheduler_scope(term, other.namespace)
        namespaces = self._at_home if scope.selector is not None else scope.namespaces
        for namespace in namespaces:
            for key, pod in self._at_home.get(namespace, {}).items():
                if self._neighbours.means(term, other.namespace, pod):
                    yield key


def _namespaces(pod: Pod) -> Iterator[str]:
    """Return the namespaces a pod looks at."""
    yield pod.namespace
    for term in (*pod.spec.pod_affinity, *pod.spec.anti_affinity):
        scope = scheduler_scope(term, pod.namespace)
        if scope.selector is not None:
            yield _ANYWHERE
        yield from scope.namespaces


def _depends_on_labels(pod: Pod) -> bool:
    return any(constraint.match_label_keys for constraint in pod.spec.spread)


def _take_out(index: dict[str, dict[K, Pod]], namespace: str, key: K) -> None:
    of_namespace = index.get(namespace)
    if of_namespace is None:
        return
    of_namespace.pop(key, None)
    if not of_namespace:
        del index[namespace]
