"""Keeps the active pods that a label selector matches, and their topology domains.

Kept current per change: a change of one pod costs by its labels and by the queries that match it,
never by the size of the cluster. A query is registered under one of the labels that its selector
requires, and what labels pods have is indexed by these labels alone. So a pod finds the queries
that match it by looking up its own labels, and a query finds its pods by looking up one label.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain, islice

from reactive_desched.api.index import Cluster
from reactive_desched.model.affinity_terms import NamespaceScope, selector_key
from reactive_desched.model.labels import Labels, LabelSelector
from reactive_desched.model.objects import Namespace, Pod, PodKey
from reactive_desched.primitives.long_answers import (
    PORTION,
    AnswerTakesLong,
    LongAnswers,
    portions,
)
from reactive_desched.state.indexes.namespace_pods import NamespacePods
from reactive_desched.state.indexes.topology_domains import (
    NodeTopology,
    TopologyDomains,
    TopologyKeyRefs,
    topology_of,
)

MAX_UNREFERENCED_QUERIES = 1_000
"""How many queries are kept that no anti-affinity term refers to. At the bound the least recently
used one is dropped; used again, it is built again, at the cost of the pods that it matches."""

LARGE_PODS = 2_000
"""The domains of a query with more pods are dropped when others are used more, though terms refer
to the query."""

MAX_RECENT_PODS = 600_000
"""How many pods the domains of queries that may be dropped have together, by what each had when it
was built; in a cluster with more than half as many pods, twice as many as it has."""

SIZE_FREED_AT_ONCE = 2_000
"""Larger domains are freed in steps once they are dropped: one with each change of a pod, and all
of them before the next answer that takes long."""

SHORT_STEPS = 2
"""With so many steps the pods of a query are collected at once."""

RequiredLabel = tuple[str, tuple[str, ...]]
"""A label that a selector requires, with the values that it accepts."""

_NO_LABELS: Labels = {}

_END = object()


class SelectorQuery:
    """The active pods that a selector matches in a scope of namespaces.

    `domains` has them by topology domain, for each label that was asked about, and `collecting` the
    steps that are left of those that have not all of them. `is_valid` is false for a selector that
    does not parse: it matches no pod. `refs` counts the anti-affinity terms that refer to the
    query. `size` is how many pods the domains had when they were built.
    """

    __slots__ = (
        "collecting",
        "domains",
        "is_single_label",
        "is_valid",
        "key",
        "refs",
        "scope",
        "selector",
        "size",
    )

    def __init__(self, scope: NamespaceScope, selector: LabelSelector, key: Hashable) -> None:
        self.scope = scope
        self.selector = selector
        self.key = key
        self.is_valid = not selector.validation_errors()
        self.is_single_label = len(selector.match_labels) == 1 and not selector.match_expressions
        self.domains: dict[str, TopologyDomains] = {}
        self.collecting: dict[str, Iterator[None]] = {}
        self.refs = 0
        self.size = 0


class LabelIndex:
    """The queries that may match some of the pods of a namespace, or with None of all namespaces.

    `pods` are indexed by a label from the first time that a query is looked up by it until no query
    requires it any more.
    """

    def __init__(self, pods: NamespacePods, namespace: str | None) -> None:
        self._pods = pods
        self._namespace = namespace
        self._queries: dict[SelectorQuery, RequiredLabel | None] = {}
        self._queries_by_label: dict[str, dict[str, list[SelectorQuery]]] = {}
        self._unindexed_queries: dict[SelectorQuery, None] = {}
        self._asked: Labels | None = None
        self._answer: Sequence[SelectorQuery] = ()

    def __len__(self) -> int:
        return len(self._queries)

    def __iter__(self) -> Iterator[SelectorQuery]:
        return iter(self._queries)

    def register(self, query: SelectorQuery) -> None:
        """Register a query under a label that it requires."""
        self._asked = None
        label = self._queries[query] = self._most_selective(query.selector)
        if label is None:
            self._unindexed_queries[query] = None
            return
        key, values = label
        for value in values:
            self._queries_by_label.setdefault(key, {}).setdefault(value, []).append(query)

    def unregister(self, query: SelectorQuery) -> None:
        """Drop a query, and the index of pods that only it needed."""
        self._asked = None
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
            self._pods.forget_label(self._namespace, key)

    def queries_matching(self, labels: Labels) -> Sequence[SelectorQuery]:
        """Return the queries whose selectors match a pod's labels.

        Several indexes ask in turn about one pod, and pods of one template share their labels.
        """
        if labels is not self._asked:
            self._asked, self._answer = labels, self._find_matching(labels)
        return self._answer

    def _find_matching(self, labels: Labels) -> list[SelectorQuery]:
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

    def candidates(self, query: SelectorQuery) -> Iterator[Sequence[PodKey]]:
        """Return the uids of the pods, in any phase, whose labels a query's selector matches.

        They come in portions, some of them empty. The cluster may change between two of them: of
        pods that come, go or have other labels meanwhile only some are among them.
        """
        label = self._queries[query]
        if label is None:
            found = self._pods.by_labels(self._namespace)
        else:
            for _ in self._pods.index_label(self._namespace, label[0]):
                yield ()
            found = self._pods.with_label(self._namespace, *label)
        looked, uids = 0, list[PodKey]()
        for labels, of_labels in found:
            looked += 1
            if query.selector.matches(labels):
                uids += of_labels
            if looked + len(uids) >= PORTION:
                yield from portions(uids) if uids else ((),)
                looked, uids = 0, []
        yield uids

    def _most_selective(self, selector: LabelSelector) -> RequiredLabel | None:
        """Choose the label with the fewest queries registered under it."""
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


class SelectorQueries:
    """Every query in use; queries of the same scope and selector are one.

    A query's domains are built when they are first asked for, in steps if there are many pods, and
    follow every change from then on. A query without references may be dropped by the next
    question, and so may the domains of one with many pods, so use them up before that.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods = cluster.store(Pod)
        self._namespaces = cluster.store(Namespace)
        self._namespace_pods = cluster.index(NamespacePods)
        self._queries: dict[Hashable, SelectorQuery] = {}
        self._recent: OrderedDict[SelectorQuery, None] = OrderedDict()  # least recently used first
        self._recent_pods = 0
        self._dropped: list[Iterator[None]] = []
        self._by_namespace: dict[str, LabelIndex] = {}
        self._cluster_wide: LabelIndex | None = None
        self.topology_keys = TopologyKeyRefs()
        self.long_answers = LongAnswers()

    def __len__(self) -> int:
        return len(self._queries)

    def get_or_create(self, scope: NamespaceScope, selector: LabelSelector) -> SelectorQuery:
        """Return the query of this scope and selector, made when first asked for."""
        key = scope.key, selector_key(selector)
        found = self._queries.get(key)
        if found is None:
            found = self._queries[key] = SelectorQuery(scope, selector, key)
            self._register(found)
        if not found.refs or found in self._recent:
            self._mark_used(found)
        return found

    def acquire(self, query: SelectorQuery) -> None:
        """Keep a query until it is released as often."""
        query.refs += 1
        if query in self._recent and query.size <= LARGE_PODS:
            del self._recent[query]
            self._recent_pods -= query.size

    def release(self, query: SelectorQuery) -> None:
        """Drop a reference; the query stays for a while, as the next pod may need it again."""
        query.refs -= 1
        if not query.refs:
            self._mark_used(query)

    def queries_matching(self, pod: Pod) -> Sequence[SelectorQuery]:
        """Return the queries that match a pod, by its labels and its namespace."""
        found = self.own_queries_matching(pod)
        if self._cluster_wide is None:
            return found
        labels = self._namespace_labels(pod.namespace)
        wide = self._cluster_wide.queries_matching(pod.labels)
        return [*found, *(s for s in wide if s.scope.covers(pod.namespace, labels))]

    def own_queries_matching(self, pod: Pod) -> Sequence[SelectorQuery]:
        """Return those of them whose scope lists the pod's namespace and asks for nothing else."""
        index = self._by_namespace.get(pod.namespace)
        return () if index is None else index.queries_matching(pod.labels)

    def matches(self, query: SelectorQuery, pod: Pod) -> bool:
        """Say whether a query matches a pod."""
        return query.is_valid and query.selector.matches(pod.labels) and self._covers(query, pod)

    def _covers(self, query: SelectorQuery, pod: Pod) -> bool:
        return query.scope.covers(pod.namespace, self._namespace_labels(pod.namespace))

    def matching_pods(self, query: SelectorQuery) -> Iterator[list[Pod]]:
        """Yield the active pods that a query matches, on eligible nodes and on others.

        They come in portions, between which the cluster may change.
        """
        for index in self._indexes_of(query) if query.is_valid else ():
            for uids in index.candidates(query):
                covers: dict[str, bool] = {}
                found: list[Pod] = []
                for pod in filter(None, map(self._pods.get, uids)):
                    if (covered := covers.get(pod.namespace)) is None:
                        covered = covers[pod.namespace] = self._covers(query, pod)
                    if covered and pod.is_active:
                        found.append(pod)
                yield found

    def domains(self, query: SelectorQuery, topology_key: str) -> TopologyDomains:
        """Return a query's active pods by the domains of a topology label.

        Raises AnswerTakesLong where such answers are wanted in steps.
        """
        found = self._begun_domains(query, topology_key)
        if query.collecting and (steps := query.collecting.get(topology_key)) is not None:
            if self.long_answers.in_steps:
                raise AnswerTakesLong(chain(self._free(), steps))
            for _ in steps:
                pass
        return found

    def short_domains(self, query: SelectorQuery, topology_key: str) -> TopologyDomains | None:
        """Return the same if it takes few steps, else None."""
        self._begun_domains(query, topology_key)
        return self.known_domains(query, topology_key)

    def known_domains(self, query: SelectorQuery, topology_key: str) -> TopologyDomains | None:
        """Return the same if they have been asked for and have all pods, else None."""
        return None if topology_key in query.collecting else query.domains.get(topology_key)

    def _begun_domains(self, query: SelectorQuery, topology_key: str) -> TopologyDomains:
        """Return domains that may not have all pods yet."""
        if (found := query.domains.get(topology_key)) is None:
            found = query.domains[topology_key] = TopologyDomains(topology_key)
            self.topology_keys.acquire(topology_key)
            steps = query.collecting[topology_key] = self._collect(query, found)
            for _ in islice(steps, SHORT_STEPS):
                pass
        return found

    def _collect(self, query: SelectorQuery, domains: TopologyDomains) -> Iterator[None]:
        """Add the pods that match, as they are at each step; `update_pod` sees to the others."""
        key = domains.topology_key
        for pods in self.matching_pods(query):
            if query.domains.get(key) is not domains:
                return
            nodes: dict[str, NodeTopology] = {}
            for pod in pods:
                if (node := nodes.get(pod.node)) is None:
                    node = nodes[pod.node] = topology_of(self._cluster, pod.node)
                if query.selector.matches(pod.labels):
                    domains.add_pod(pod.uid, node)
            self._grow(query, len(pods))
            yield
        if query.domains.get(key) is domains:
            del query.collecting[key]

    def _grow(self, query: SelectorQuery, pods: int) -> None:
        """Note that a query's domains have so many pods more."""
        query.size += pods
        if query in self._recent:
            self._recent_pods += pods
            self._drop_recent()
        elif query.size > LARGE_PODS:
            self._mark_used(query)

    def update_pod(
        self, old: Pod | None, new: Pod | None
    ) -> tuple[Sequence[SelectorQuery], Sequence[SelectorQuery]]:
        """Follow an active pod that appeared, disappeared (None), or differs.

        Return the queries that match it no longer, and those that match it from now on; the caller
        updates their domains. A pod on another node leaves all its queries and joins them again.
        """
        pod = new or old
        if pod is None:
            return (), ()
        if self._dropped:
            next(self._free())
        index = self._by_namespace.get(pod.namespace)
        if index is None and self._cluster_wide is None:
            return (), ()
        before = self.queries_matching(old) if old is not None else ()
        after = self.queries_matching(new) if new is not None else ()
        if old is None or new is None or old.node != new.node:
            return before, after
        left = [s for s in before if s not in after]
        return left, [s for s in after if s.collecting or s not in before]

    def pods_with_labels(self, query: SelectorQuery, namespace: str) -> Iterator[Pod]:
        """Return the active pods of a namespace that match a query's selector, in scope or not."""
        if not query.is_valid:
            return
        for labels, uids in self._namespace_pods.by_labels(namespace):
            if query.selector.matches(labels):
                for pod in filter(None, map(self._pods.get, uids)):
                    if pod.is_active:
                        yield pod

    def follow_namespace(self, name: str, old: Labels, new: Labels) -> list[SelectorQuery]:
        """Follow a namespace's labels: return the queries that select it now, or no longer.

        Their domains are dropped, and built again when they are asked for.
        """
        changed = [
            query
            for query in self._cluster_wide or ()
            if query.scope.covers(name, old) != query.scope.covers(name, new)
        ]
        for query in changed:
            self._clear_domains(query)
        return changed

    def _namespace_labels(self, namespace: str) -> Labels:
        found = self._namespaces.get(namespace)
        return found.labels if found is not None else _NO_LABELS

    def _indexes_of(self, query: SelectorQuery) -> list[LabelIndex]:
        """Return the label indexes with the pods that a query may match."""
        if not query.scope.depends_on_labels:
            return [self._namespace_index(name) for name in query.scope.namespaces]
        if self._cluster_wide is None:
            self._cluster_wide = LabelIndex(self._namespace_pods, None)
        return [self._cluster_wide]

    def _namespace_index(self, namespace: str) -> LabelIndex:
        found = self._by_namespace.get(namespace)
        if found is None:
            found = self._by_namespace[namespace] = LabelIndex(self._namespace_pods, namespace)
        return found

    def _register(self, query: SelectorQuery) -> None:
        if query.is_valid:
            for index in self._indexes_of(query):
                index.register(query)

    def _mark_used(self, query: SelectorQuery) -> None:
        if query in self._recent:
            self._recent.move_to_end(query)
            return
        self._recent[query] = None
        self._recent_pods += query.size
        self._drop_recent()

    def _drop_recent(self) -> None:
        """Drop what was used least recently, beyond the bounds and not the last one.

        It is one each time. Of a query with references the domains are dropped.
        """
        most_pods = max(MAX_RECENT_PODS, 2 * len(self._pods))
        if self.long_answers.awaited:
            most_pods *= 4
        is_full = len(self._recent) > MAX_UNREFERENCED_QUERIES or self._recent_pods > most_pods
        if len(self._recent) == 1 or not is_full:
            return
        oldest = next(iter(self._recent))
        if oldest.refs:
            self._clear_domains(oldest)
            del self._recent[oldest]
        else:
            self._remove(oldest)

    def _remove(self, query: SelectorQuery) -> None:
        self._clear_domains(query)
        del self._recent[query]
        del self._queries[query.key]
        if not query.is_valid:
            return
        for index in self._indexes_of(query):
            index.unregister(query)
        for name in query.scope.namespaces:
            if name in self._by_namespace and not len(self._by_namespace[name]):
                del self._by_namespace[name]
        if self._cluster_wide is not None and not len(self._cluster_wide):
            self._cluster_wide = None

    def _free(self) -> Iterator[None]:
        """Free what was dropped, in steps."""
        while self._dropped:
            if next(self._dropped[-1], _END) is _END:
                self._dropped.pop()
            yield

    def _clear_domains(self, query: SelectorQuery) -> None:
        for key, domains in query.domains.items():
            self.topology_keys.release(key)
            if query.size > SIZE_FREED_AT_ONCE:
                self._dropped.append(domains.emptied())
        query.domains.clear()
        query.collecting.clear()
        if query in self._recent:
            self._recent_pods -= query.size
        query.size = 0
