"""The read-only face of the state that plugins and gates see."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from reactive_desched.model.affinity_terms import NamespaceScope, scheduler_scope
from reactive_desched.model.labels import LabelSelector, Selector
from reactive_desched.model.node_affinity import NodeAffinity
from reactive_desched.model.objects import (
    Namespace,
    Node,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodDisruptionBudget,
    PodKey,
    PriorityClass,
)
from reactive_desched.model.subjects import NodeOrPod, NodeSubject, PodSubject
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.anti_affinity.domains import TopologyDomains
from reactive_desched.state.indexes.anti_affinity.terms import AntiAffinityTerm
from reactive_desched.state.indexes.owners import resolve_owner_chain
from reactive_desched.state.nodes import DirtyNodes, NodeInfo
from reactive_desched.state.resources import PVS


class ClusterView:
    """What is true now; holds nothing of its own, so it is never out of date."""

    def __init__(self, state: ClusterState, wall_clock: Callable[[], float]) -> None:
        self._state = state
        self._wall_clock = wall_clock

    @property
    def now_s(self) -> float:
        """Seconds since the epoch (UTC)."""
        return self._wall_clock()

    @property
    def eligible_node_count(self) -> int:
        """How many nodes are ready and match the policy's selector."""
        return self._state.nodes.eligible_count

    def nodes(self) -> Iterable[Node]:
        """Return the nodes that count."""
        return (e.node for e in self._state.nodes if e.eligible and e.node is not None)

    def eligible_node_infos(self) -> Iterable[NodeInfo]:
        """Return every node that counts, with what sits on it."""
        return (node_info for node_info in self._state.nodes if node_info.eligible)

    def ready_node_infos(self, selector: Selector) -> Iterable[NodeInfo]:
        """Return every ready node that matches a selector, whatever the policy selects."""
        return (
            node_info
            for node_info in self._state.nodes
            if node_info.node is not None
            and node_info.node.is_ready
            and selector.matches(node_info.node.labels)
        )

    def subscribe_nodes(self) -> DirtyNodes:
        """Begin to note the nodes that may differ, all of them to begin with."""
        return self._state.nodes.subscribe()

    def all_node_infos(self) -> Iterable[NodeInfo]:
        """Return the entry of every node that is known as an object, or has pods."""
        return iter(self._state.nodes)

    def node_info(self, node: str) -> NodeInfo | None:
        """Return a node's entry by name."""
        return self._state.nodes.get(node)

    def pods(self) -> list[PodKey]:
        """Return a snapshot of all pod keys."""
        return self._state.pods.keys()

    def pods_on(self, node: str) -> list[PodKey]:
        """Return a snapshot of the keys of the active pods on a node."""
        node_info = self._state.nodes.get(node)
        return list(node_info.active) if node_info is not None else []

    def pods_in_domain(self, key: str, value: str) -> list[PodKey]:
        """Return the keys of the active pods on the nodes of one topology domain."""
        return [
            pod
            for node in self._state.nodes.nodes_in_domain(key, value)
            for pod in self.pods_on(node)
        ]

    def active_pod(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return an active pod and its node, or None when it sits on no node that counts."""
        bound = self.pod_and_node(pod)
        return bound if bound is not None and bound[0].is_active else None

    def pod_and_node(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return a pod in any phase and its node, or None when it is on no node that counts."""
        found = self._state.pods.get(pod)
        if (
            found is None
            or (node_info := self._eligible_node(found.node)) is None
            or node_info.node is None
        ):
            return None
        return found, node_info.node

    def pods_of(self, subject: NodeOrPod) -> tuple[Node, Collection[Pod]] | None:
        """Return a subject's node and active pods, or None when the node does not count."""
        match subject:
            case NodeSubject(node=name):
                node_info = self._eligible_node(name)
                if node_info is None or node_info.node is None:
                    return None
                return node_info.node, node_info.active.values()
            case PodSubject(pod=key):
                active = self.active_pod(key)
                return None if active is None else (active[1], active[:1])

    def all_pods_of(self, subject: NodeOrPod) -> tuple[Node, Iterable[Pod]] | None:
        """Return a subject's node and pods in any phase, or None when the node does not count."""
        match subject:
            case NodeSubject(node=name):
                node_info = self._eligible_node(name)
                if node_info is None or node_info.node is None:
                    return None
                return node_info.node, node_info.all_pods()
            case PodSubject(pod=key):
                bound = self.pod_and_node(key)
                return None if bound is None else (bound[1], bound[:1])

    def _eligible_node(self, node: str) -> NodeInfo | None:
        node_info = self._state.nodes.get(node)
        return node_info if node_info is not None and node_info.eligible else None

    def pod(self, key: PodKey) -> Pod | None:
        """Return a pod by its key."""
        return self._state.pods.get(key)

    def pod_by_name(self, namespace: str, name: str) -> Pod | None:
        """Return a pod by its name."""
        return self._state.pods.by_name(namespace, name)

    def owner_pod_count(self, owner_uid: str) -> int:
        """Count the pods that name this owner, in any phase."""
        return len(self._state.pods.owned_by(owner_uid))

    def owner_chain(self, pod: Pod) -> tuple[OwnerReference, ...]:
        """Return a pod's controller, that one's controller and so on, nearest first.

        Empty for a bare pod. Of ReplicaSets and Jobs it is known what controls them, where they
        may be read; the chain ends at anything else, and after `MOST_OWNERS`.
        """
        return resolve_owner_chain(pod.owners, (self._state.replica_sets, self._state.jobs))

    def zone(self, node_name: str) -> str:
        """Return the zone of a node; the empty text when it has none or is not known."""
        node_info = self._state.nodes.get(node_name)
        return "" if node_info is None or node_info.node is None else node_info.node.zone

    def preferred_weights(self, affinity: NodeAffinity, node: str) -> tuple[int, int]:
        """Return the preferred weight of this node, and the best of any node that counts."""
        return self._state.preferred_affinity.node_and_best_weight(affinity, node)

    def forbidden_near(
        self, pod: Pod, node: Node
    ) -> Iterator[tuple[PodAffinityTerm, Iterable[Pod] | None]]:
        """Return a pod's required anti-affinity terms, each with the active pods it means nearby.

        As the descheduler reads terms: near are pods of the same topology domain on nodes that
        count, and pods of the same node even where it lacks the label; the pod itself may be among
        them. None stands for a term whose selector does not parse. One that has no selector is
        left out. Use the pods up before the next change.
        """
        return self._state.pod_affinity.anti_affinity_terms.forbidden_near(pod, node)

    def nodes_with_anti_affinity(self) -> list[str]:
        """Name the nodes that count and have a pod with required anti-affinity."""
        return [e.name for e in self._state.nodes if e.eligible and e.anti_affinity_pods]

    def violated_by(
        self, subject: NodeOrPod, topology_keys: frozenset[str] | None = None
    ) -> Iterator[Pod]:
        """Return the active pods whose anti-affinity a subject may violate, itself perhaps.

        One pod, if it has required terms, and of a node's pods those that share it, or a domain,
        with others whom their terms mean; and all pods nearby with a term that means a pod of the
        subject. Terms are read as by `avoided`. With `keys`, only those over these topology labels
        matter. A pod may come twice. Nothing for a node that does not count.
        """
        terms = self._state.pod_affinity.anti_affinity_terms
        found: list[PodKey] = []
        match subject:
            case NodeSubject(node=name):
                if (
                    node_info := self._eligible_node(name)
                ) is not None and node_info.node is not None:
                    found = terms.violated_by_node(node_info, node_info.node.labels, topology_keys)
            case PodSubject(pod=key):
                if (placed := self.active_pod(key)) is not None:
                    pod, node = placed
                    found = terms.violated_by(pod, node.labels, topology_keys)
                    if pod.spec.anti_affinity:
                        found.append(key)
        return filter(None, map(self._state.pods.get, found))

    def pods_matching_term(self, term: PodAffinityTerm, namespace: str) -> TopologyDomains:
        """Return the active pods that a term of a pod in a namespace means, by topology domain.

        As the kube-scheduler reads it: a namespaceSelector counts, any node does, and pods on
        nodes without the topology label do not show. Good until the next change of the state.
        """
        if term.label_selector is None:
            return TopologyDomains(term.topology_key)
        scope = scheduler_scope(term, namespace)
        return self._topology_domains(scope, term.label_selector, term.topology_key)

    def terms_matching(self, pod: Pod) -> list[AntiAffinityTerm]:
        """Return the required anti-affinity terms of active pods that mean a pod, wherever it is.

        As the kube-scheduler reads them. `declarers` of each has the pods that declare it by
        topology domain, the pod itself perhaps among them. Good until the next change.
        """
        return self._state.pod_affinity.anti_affinity_terms.terms_matching(pod)

    def pods_matching_selector(
        self, namespace: str, selector: LabelSelector, topology_key: str
    ) -> TopologyDomains:
        """Return the active pods of a namespace that a selector matches, by topology domain.

        Terminating pods and any node with the topology label show. Built when first asked for;
        the latest thousand such questions are kept up to date. Good until the next change.
        """
        return self._topology_domains(NamespaceScope((namespace,)), selector, topology_key)

    def _topology_domains(
        self, scope: NamespaceScope, selector: LabelSelector, topology_key: str
    ) -> TopologyDomains:
        selectors = self._state.pod_affinity.selectors
        return selectors.domains(selectors.get_or_create(scope, selector), topology_key)

    def namespace(self, name: str) -> Namespace | None:
        """Return a namespace by name."""
        return self._state.namespaces.get(name)

    def priority_class(self, name: str) -> PriorityClass | None:
        """Return a priority class by name."""
        return self._state.priority_classes.get(name)

    def pvc(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a persistent volume claim."""
        return self._state.pvcs.get(f"{namespace}/{name}")

    def terminating_pods(self, namespace: str) -> Collection[Pod]:
        """Return the active pods of a namespace whose deletion has begun."""
        return self._state.pods.terminating(namespace)

    def pvc_users(self, namespace: str, name: str) -> Collection[Pod]:
        """Return the pods on nodes, not ended, that use a claim."""
        return self._state.pods.pvc_users.users_of(f"{namespace}/{name}")

    @property
    def pvs_readable(self) -> bool:
        """Whether a volume that is not here does not exist; else nobody told us of any."""
        return PVS not in self._state.unreadable_resources

    def pv(self, name: str) -> PersistentVolume | None:
        """Return a persistent volume by name."""
        return self._state.pvs.get(name)

    def attach_limits(self, node: str) -> Mapping[str, int]:
        """Return how many volumes each driver that has a limit can attach to a node."""
        found = self._state.csi_nodes.get(node)
        return {} if found is None else found.attach_limits

    def pdbs_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the disruption budgets that cover a pod."""
        return self._state.pdb_index.covering(pod)
