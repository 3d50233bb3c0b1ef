"""Keeps the pods near each pod, by labels: for affinity, anti-affinity and spreading."""

from collections.abc import Hashable, Iterable, Iterator, Sequence

from reactive_desched.api.index import Cluster, Index, NodeState
from reactive_desched.model.affinity_terms import (
    NamespaceScope,
    common_scope,
    common_selector,
    depend_on_labels,
    scheduler_scope,
    scheduler_selector,
)
from reactive_desched.model.changes import Change, PodsChange
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    ClusterObject,
    Namespace,
    Node,
    Pod,
    PodAffinityTerm,
    PodKey,
)
from reactive_desched.model.subjects import NodeOrPod, NodeSubject, PodSubject
from reactive_desched.state.indexes.anti_affinity_terms import AntiAffinityTerm, AntiAffinityTerms
from reactive_desched.state.indexes.selectors import SelectorQueries, SelectorQuery
from reactive_desched.state.indexes.topology_domains import (
    NodeTopology,
    TopologyDomains,
    topology,
    topology_of,
)


class AntiAffinityResolved(PodsChange, frozen=True, gc=False):
    """A pod that these pods' required anti-affinity forbids near them is not near them any more."""


class ForbiddenPodsChanged(PodsChange, frozen=True, gc=False):
    """Other pods are forbidden near these, or count: a namespace has other labels, or a node.

    The node is one that is not eligible, such as one that the policy does not select.
    """


class PodAffinity(Index):
    """The pods that selectors match, by topology domain, and the anti-affinity terms in use.

    Terms are read as the kube-scheduler reads them: of any node, and namespaceSelector and label
    keys count. `forbidden_in_sweep` is the SIG descheduler's reading.
    Which pods came near each other can be asked when the change is there. Which pods left each
    other cannot, so that is a change of its own, `AntiAffinityResolved`. Other indexes register
    selectors of theirs with `queries`.
    """

    announces = (AntiAffinityResolved, ForbiddenPodsChanged)
    kinds = (Namespace,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pods = cluster.store(Pod)
        self.queries = SelectorQueries(cluster)
        self._terms = AntiAffinityTerms(cluster, self.queries)
        for pod in self._pods:
            if pod.is_active and pod.spec.anti_affinity:
                self._terms.add_pod(pod, topology_of(cluster, pod.node))

    # --- questions ---

    def forbidden_near(
        self, pod: Pod, node: Node
    ) -> Iterator[tuple[PodAffinityTerm, Iterable[Pod]]]:
        """Return a pod's required anti-affinity terms, each with the active pods it matches nearby.

        Near are pods of the same topology domain, on nodes that are Ready; the pod itself may be
        among them. A term of whose label the node has none is left out, and one that matches no
        pod at all. Use the pods up before the next change.
        """
        return self._terms.forbidden_near(pod, node)

    def forbidden_in_sweep(
        self, pod: Pod, node: Node
    ) -> Iterator[tuple[PodAffinityTerm, Iterable[Pod] | None]]:
        """Return the same as the SIG descheduler reads terms.

        Only pods on eligible nodes count, in the namespaces that are listed or the pod's own; pods
        of one node are near each other even where it lacks the label. None stands for a term
        whose selector does not parse. Use the pods up before the next change.
        """
        return self._terms.forbidden_in_sweep(pod, node)

    def violated_by(
        self, subject: NodeOrPod, topology_keys: frozenset[str] | None = None
    ) -> Iterator[Pod]:
        """Return the active pods whose required anti-affinity a subject may violate.

        For a pod, they are the pods nearby with a term that matches it, and the pod itself if it
        has terms. For a node, they are those of its pods that share a domain with a pod that their
        terms match, and all pods of that domain with a term that matches a pod of the node.
        With `topology_keys`, only terms over these topology labels matter. A pod may come twice.
        Pods whose conflict ended are not among them.
        """
        found: list[PodKey] = []
        if isinstance(subject, NodeSubject):
            info = self._cluster.node_info(subject.node)
            if info is not None and info.node is not None:
                found = self._terms.violated_by_node(info, info.node.labels, topology_keys)
        elif (pod := self._pods.get(subject.pod)) is not None and pod.is_active:
            terms = self._terms.forbidding(pod, topology_keys)
            if terms:
                labels = topology_of(self._cluster, pod.node).labels
                for term in terms:
                    found += self._terms.owners_near(term, labels)
            if pod.spec.anti_affinity:
                found.append(pod.uid)
        return filter(None, map(self._pods.get, found))

    def nodes_with_terms(self) -> list[str]:
        """Name the nodes that have an active pod with required anti-affinity, in order.

        It is a snapshot; nodes that are not eligible are among them.
        """
        return self._terms.nodes_with_terms()

    def terms_matching(self, pod: Pod) -> list[AntiAffinityTerm]:
        """Return the required anti-affinity terms of active pods that match a pod, wherever it is.

        `owners` of each has the pods that declare it by topology domain, the pod itself perhaps
        among them. Valid until the next change.
        """
        return self._terms.forbidding(pod)

    def matching_term(self, term: PodAffinityTerm, owner: Pod) -> TopologyDomains:
        """Return the active pods that a term of a pod matches, by topology domain.

        Pods on nodes without the topology label are left out. Valid until the next change.
        """
        return self.matching_terms((term,), owner, term.topology_key)

    def matching_terms(
        self, terms: Sequence[PodAffinityTerm], owner: Pod, topology_key: str
    ) -> TopologyDomains:
        """Return the active pods that each of some terms of a pod matches, by a topology label.

        Pods on nodes without it are left out. Valid until the next change.
        """
        found = [scheduler_selector(term, owner.labels) for term in terms]
        selectors = [selector for selector in found if selector is not None]
        if len(selectors) < len(terms):
            return TopologyDomains(topology_key)
        scope = common_scope(scheduler_scope(term, owner.namespace) for term in terms)
        return self._domains(scope, common_selector(selectors), topology_key)

    def matching_selector(
        self, namespace: str, selector: LabelSelector, topology_key: str
    ) -> TopologyDomains:
        """Return the active pods of a namespace that a selector matches, by topology domain.

        Terminating pods are included. The domains are built when first asked for; the latest
        thousand such questions are kept current. Valid until the next change.
        """
        return self._domains(NamespaceScope((namespace,)), selector, topology_key)

    def _domains(
        self, scope: NamespaceScope, selector: LabelSelector, topology_key: str
    ) -> TopologyDomains:
        return self.queries.domains(self.queries.get_or_create(scope, selector), topology_key)

    # --- following the cluster ---

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Follow an active pod to the queries that match it and the terms that it declares."""
        if old is not None and new is not None and _is_same_to_queries(old, new):
            return ()
        if old is not None and not old.is_active:
            old = None
        if new is not None and not new.is_active:
            new = None
        left, joined = self.queries.update_pod(old, new)
        stays = old is not None and new is not None and _has_same_terms(old, new)
        resolved = self._remove_pod(old, left, has_left=not stays) if old is not None else ()
        if new is not None:
            self._add_pod(new, joined, is_new=not stays)
        return resolved

    def on_node(self, old: NodeState | None, new: NodeState | None) -> Iterator[Change]:
        """Move the pods of a node whose labels or eligibility changed.

        The changes of an eligible node say where pods came near others; what they do not say is
        announced: where pods were near others before, and what of a node that is not eligible.
        """
        state, before, after = new or old, _NodeView(old), _NodeView(new)
        if state is None or before.counts_as(after):
            return
        in_use = {*self.queries.topology_keys, *self._terms.topology_keys}
        keys = [key for key in in_use if before.domain(key) != after.domain(key)]
        info = self._cluster.node_info(state.node.name)
        if not keys or info is None:
            return
        if before.is_ready:
            labels = before.topology.labels
            resolved = self._terms.violated_by_node(info, labels, keys, was_so=True)
        for pod in info.active.values():
            self._move_pod(pod, keys, before.topology, after.topology)
        if before.is_ready:
            yield from _resolved_changes(resolved)
        if after.is_ready and not after.topology.eligible:
            labels = after.topology.labels
            if found := dict.fromkeys(self._terms.owners_near_pods_of(info, labels, keys)):
                yield ForbiddenPodsChanged(tuple(found))

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> tuple[Change, ...]:
        """Follow a namespace's labels, which a namespaceSelector reads."""
        namespace = new or old
        before = old.labels if isinstance(old, Namespace) else {}
        after = new.labels if isinstance(new, Namespace) else {}
        if before == after or not isinstance(namespace, Namespace):
            return ()
        queries = self.queries.follow_namespace(namespace.name, before, after)
        found = dict.fromkeys(self._terms.owners_selecting(namespace.name, queries))
        return (ForbiddenPodsChanged(tuple(found)),) if found else ()

    def answers(self) -> object:
        """Return what the index answers for every pod, and for every term in use."""
        pods = list(self._pods)
        active = [pod for pod in pods if pod.is_active]
        return {
            "forbidden": {pod.uid: self._forbidden(pod) for pod in active},
            "violated by pod": {
                pod.uid: {p.uid for p in self.violated_by(PodSubject(pod.uid))} for pod in active
            },
            "violated by node": {
                i.name: {p.uid for p in self.violated_by(NodeSubject(i.name))}
                for i in self._cluster.node_infos()
            },
            "nodes": self.nodes_with_terms(),
            "terms": {
                pod.uid: {
                    (term.topology_key, value, uid)
                    for term in self.terms_matching(pod)
                    for value in term.owners.values()
                    for uid in term.owners.pods(value)
                }
                for pod in pods
            },
            "forbidden in sweep": {pod.uid: self._forbidden_in_sweep(pod) for pod in active},
            "matches": [
                _by_domain(self.matching_term(term, pod))
                for pod in sorted(active, key=lambda pod: pod.uid)
                for term in (*pod.spec.pod_affinity, *pod.spec.anti_affinity)
            ],
        }

    def _forbidden(self, pod: Pod) -> list[set[PodKey]]:
        info = self._cluster.node_info(pod.node)
        if info is None or info.node is None:
            return []
        return [{p.uid for p in pods} for _, pods in self.forbidden_near(pod, info.node)]

    def _forbidden_in_sweep(self, pod: Pod) -> list[set[PodKey] | None]:
        info = self._cluster.node_info(pod.node)
        if info is None or info.node is None:
            return []
        nearby = (pods for _, pods in self.forbidden_in_sweep(pod, info.node))
        return [None if pods is None else {p.uid for p in pods} for pods in nearby]

    def _remove_pod(
        self, pod: Pod, left: Sequence[SelectorQuery], *, has_left: bool
    ) -> Iterable[Change]:
        """Remove a pod from the queries that match it no longer; return whose conflict ended."""
        removes_terms = has_left and bool(pod.spec.anti_affinity)
        if not left and not removes_terms:
            return ()
        node = topology_of(self._cluster, pod.node)
        if removes_terms:
            self._terms.remove_pod(pod, node)
        for query in left:
            for domains in query.domains.values():
                domains.remove_pod(pod.uid, node)
        owners = [
            uid
            for query in left
            for term in self._terms.terms_of(query)
            for uid in self._terms.owners_near(term, node.labels)
            if uid != pod.uid
        ]
        return _resolved_changes(owners)

    def _add_pod(self, pod: Pod, joined: Sequence[SelectorQuery], *, is_new: bool) -> None:
        """Add a pod to the queries that match it from now on."""
        adds_terms = is_new and bool(pod.spec.anti_affinity)
        if not joined and not adds_terms:
            return
        node = topology_of(self._cluster, pod.node)
        if adds_terms:
            self._terms.add_pod(pod, node)
        for query in joined:
            for domains in query.domains.values():
                domains.add_pod(pod.uid, node)

    def _move_pod(
        self, pod: Pod, topology_keys: list[str], old: NodeTopology, new: NodeTopology
    ) -> None:
        """Move a pod with its node to other domains of these topology labels."""
        if pod.spec.anti_affinity:
            self._terms.move_pod(pod, topology_keys, old, new)
        for query in self.queries.queries_matching(pod):
            for key in topology_keys:
                if (domains := query.domains.get(key)) is not None:
                    domains.remove_pod(pod.uid, old)
                    domains.add_pod(pod.uid, new)


def _is_same_to_queries(old: Pod, new: Pod) -> bool:
    return (
        old.labels is new.labels
        and old.node == new.node
        and old.spec.anti_affinity is new.spec.anti_affinity
        and (old.status is new.status or old.is_active == new.is_active)
    )


def _has_same_terms(old: Pod, new: Pod) -> bool:
    return (
        old.node == new.node
        and old.spec.anti_affinity is new.spec.anti_affinity
        and (old.labels is new.labels or not depend_on_labels(new.spec.anti_affinity))
    )


class _NodeView:
    """The fields of a node that decide which pods are near each other, and whether its count."""

    __slots__ = ("is_ready", "topology")

    def __init__(self, state: NodeState | None) -> None:
        self.topology = topology(state)
        self.is_ready = state is not None and state.node.is_ready

    def counts_as(self, other: "_NodeView") -> bool:
        mine, theirs = self.topology, other.topology
        return (
            mine.labels is theirs.labels
            and mine.eligible == theirs.eligible
            and self.is_ready == other.is_ready
        )

    def domain(self, key: str) -> tuple[str, bool, bool] | None:
        value = self.topology.labels.get(key)
        return None if value is None else (value, self.topology.eligible, self.is_ready)


def _resolved_changes(pods: Iterable[PodKey]) -> Iterable[Change]:
    resolved = tuple(dict.fromkeys(pods))
    return (AntiAffinityResolved(resolved),) if resolved else ()


def _by_domain(domains: TopologyDomains) -> dict[str, set[PodKey]]:
    return {value: set(domains.pods(value)) for value in domains.values()}
