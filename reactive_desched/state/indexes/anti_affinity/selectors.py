"""Which active pods a selector means, and in which topology domains they sit.

Kept up to date per change: what happens to one pod costs by its labels and by the selections that
mean it, never by the size of the cluster.
"""

from collections.abc import Hashable, Iterator

from reactive_desched.model.affinity_terms import NamespaceScope, selector_key
from reactive_desched.model.labels import Labels, LabelSelector
from reactive_desched.model.objects import Namespace, Pod
from reactive_desched.state.indexes.anti_affinity.domains import TopologyDomains, TopologyKeyRefs
from reactive_desched.state.indexes.anti_affinity.labels import LabelIndex
from reactive_desched.state.indexes.anti_affinity.terms import SelectorQuery
from reactive_desched.state.nodes import NodeStore
from reactive_desched.state.pods import PodStore
from reactive_desched.state.store import Store

MAX_UNREFERENCED_QUERIES = 1_000
"""How many selections are kept that nobody holds. At the bound the one asked for longest ago is
forgotten; when it is asked for again it is built again, at the cost of the pods it means."""

_NO_LABELS: Labels = {}


class SelectorIndex:
    """Every selection in use, one for all that say the same.

    A selection's domains are built when they are first asked for, and follow every change then.
    One that nobody holds may be forgotten by the next question, so use it up before that.
    """

    def __init__(self, pods: PodStore, nodes: NodeStore, namespaces: Store[Namespace]) -> None:
        self._pods = pods
        self._nodes = nodes
        self._namespaces = namespaces
        self._queries: dict[Hashable, SelectorQuery] = {}
        self._unreferenced: dict[
            SelectorQuery, None
        ] = {}  # the one asked for longest ago comes first
        self._by_namespace: dict[str, LabelIndex] = {}
        self._cluster_wide: LabelIndex | None = None
        self.topology_keys = TopologyKeyRefs()

    def __len__(self) -> int:
        return len(self._queries)

    def get_or_create(self, scope: NamespaceScope, selector: LabelSelector) -> SelectorQuery:
        """Return the selection of this content, made when first asked for."""
        key = scope.key, selector_key(selector)
        found = self._queries.get(key)
        if found is None:
            found = self._queries[key] = SelectorQuery(scope, selector, key)
            self._register(found)
        if not found.refs:
            self._mark_used(found)
        return found

    def acquire(self, query: SelectorQuery) -> None:
        """Keep a selection until it was released as often."""
        query.refs += 1
        self._unreferenced.pop(query, None)

    def release(self, query: SelectorQuery) -> None:
        """Let go of a selection; it stays for a while, as the next pod may need it again."""
        query.refs -= 1
        if not query.refs:
            self._mark_used(query)

    def queries_matching(self, pod: Pod) -> list[SelectorQuery]:
        """Return the selections that mean a pod, by its labels and its namespace."""
        index = self._by_namespace.get(pod.namespace)
        found = index.queries_matching(pod.labels) if index is not None else []
        if self._cluster_wide is not None:
            labels = self._namespace_labels(pod.namespace)
            wide = self._cluster_wide.queries_matching(pod.labels)
            found += [s for s in wide if s.scope.covers(pod.namespace, labels)]
        return found

    def matches(self, query: SelectorQuery, pod: Pod) -> bool:
        """Say whether a selection means a pod."""
        return (
            query.is_valid
            and query.selector.matches(pod.labels)
            and query.scope.covers(pod.namespace, self._namespace_labels(pod.namespace))
        )

    def matching_pods(self, query: SelectorQuery) -> Iterator[Pod]:
        """Return the active pods that a selection means, on whatever nodes."""
        if not query.is_valid:
            return
        for index in self._indexes_of(query):
            for uid in index.candidates(query):
                pod = self._pods.get(uid)
                if pod is not None and self.matches(query, pod):
                    yield pod

    def domains(self, query: SelectorQuery, topology_key: str) -> TopologyDomains:
        """Return a selection's active pods by the domains of a topology label."""
        found = query.domains.get(topology_key)
        if found is None:
            found = query.domains[topology_key] = TopologyDomains(topology_key)
            self.topology_keys.acquire(topology_key)
            for pod in self.matching_pods(query):
                found.add_pod(pod.uid, self._nodes.topology_of(pod.node))
        return found

    def update_pod(
        self, old: Pod | None, new: Pod | None
    ) -> tuple[list[SelectorQuery], list[SelectorQuery]]:
        """Take in that an active pod came, went (None) or differs.

        Returns the selections it dropped out of and those it joined, for their domains to be told.
        A pod on another node dropped out of all and joined all.
        """
        pod = new or old
        if pod is None:
            return [], []
        if (index := self._by_namespace.get(pod.namespace)) is not None:
            index.update_pod(old, new)
        if self._cluster_wide is not None:
            self._cluster_wide.update_pod(old, new)
        before = self.queries_matching(old) if old is not None else []
        after = self.queries_matching(new) if new is not None else []
        if old is None or new is None or old.node != new.node:
            return before, after
        return [s for s in before if s not in after], [s for s in after if s not in before]

    def invalidate_namespace_selectors(self) -> None:
        """Forget who is meant by the labels of namespaces: some namespace has other labels."""
        for query in self._cluster_wide or ():
            if (
                query.scope.namespace_selector is not None
                and not query.scope.namespace_selector.is_empty
            ):
                self._clear_domains(query)

    def _namespace_labels(self, namespace: str) -> Labels:
        found = self._namespaces.get(namespace)
        return found.labels if found is not None else _NO_LABELS

    def _indexes_of(self, query: SelectorQuery) -> list[LabelIndex]:
        """Return where the pods are that a selection may mean, made when first needed."""
        if query.scope.namespace_selector is None:
            return [self._namespace_index(name) for name in query.scope.namespaces]
        if self._cluster_wide is None:
            self._cluster_wide = LabelIndex(lambda: self._pods)
        return [self._cluster_wide]

    def _namespace_index(self, namespace: str) -> LabelIndex:
        found = self._by_namespace.get(namespace)
        if found is None:
            found = LabelIndex(lambda: self._pods.in_namespace(namespace))
            self._by_namespace[namespace] = found
        return found

    def _register(self, query: SelectorQuery) -> None:
        if query.is_valid:
            for index in self._indexes_of(query):
                index.register(query)

    def _mark_used(self, query: SelectorQuery) -> None:
        self._unreferenced.pop(query, None)
        self._unreferenced[query] = None
        if len(self._unreferenced) > MAX_UNREFERENCED_QUERIES:
            self._remove(next(iter(self._unreferenced)))

    def _remove(self, query: SelectorQuery) -> None:
        del self._unreferenced[query]
        del self._queries[query.key]
        self._clear_domains(query)
        if not query.is_valid:
            return
        for index in self._indexes_of(query):
            index.unregister(query)
        for name in query.scope.namespaces:
            if name in self._by_namespace and not len(self._by_namespace[name]):
                del self._by_namespace[name]
        if self._cluster_wide is not None and not len(self._cluster_wide):
            self._cluster_wide = None

    def _clear_domains(self, query: SelectorQuery) -> None:
        for key in query.domains:
            self.topology_keys.release(key)
        query.domains.clear()
