"""The read-only face of the state that plugins and gates see."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from reactive_desched.model.affinity_terms import Scope, scheduler_scope
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
from reactive_desched.model.subjects import OnePod, OnNode, Places
from reactive_desched.state.cluster import VOLUMES, ClusterState
from reactive_desched.state.indexes.anti_affinity.domains import Domains
from reactive_desched.state.indexes.anti_affinity.terms import Avoidance
from reactive_desched.state.indexes.owners import chain
from reactive_desched.state.nodes import NodeEntry, Touched


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
    def counting_nodes(self) -> int:
        """How many nodes are ready and match the policy's selector."""
        return self._state.nodes.counting

    def nodes(self) -> Iterable[Node]:
        """Return the nodes that count."""
        return (e.node for e in self._state.nodes if e.counts and e.node is not None)

    def rooms(self) -> Iterable[NodeEntry]:
        """Return every node that counts, with what sits on it."""
        return (entry for entry in self._state.nodes if entry.counts)

    def ready_rooms(self, selector: Selector) -> Iterable[NodeEntry]:
        """Return every ready node that matches a selector, whatever the policy selects."""
        return (
            entry
            for entry in self._state.nodes
            if entry.node is not None
            and entry.node.is_ready
            and selector.matches(entry.node.labels)
        )

    def follow_nodes(self) -> Touched:
        """Begin to note the nodes that may differ, all of them to begin with."""
        return self._state.nodes.follow()

    def everywhere(self) -> Iterable[NodeEntry]:
        """Return the entry of every node that is known as an object, or has pods."""
        return iter(self._state.nodes)

    def room(self, node: str) -> NodeEntry | None:
        """Return a node's entry by name."""
        return self._state.nodes.find(node)

    def pods(self) -> list[PodKey]:
        """Return a snapshot of all pod keys."""
        return self._state.pods.keys()

    def pods_on(self, node: str) -> list[PodKey]:
        """Return a snapshot of the keys of the active pods on a node."""
        entry = self._state.nodes.find(node)
        return list(entry.active) if entry is not None else []

    def pods_in_domain(self, key: str, value: str) -> list[PodKey]:
        """Return the keys of the active pods on the nodes of one topology domain."""
        return [
            pod for node in self._state.nodes.in_domain(key, value) for pod in self.pods_on(node)
        ]

    def placed(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return an active pod and its node, or None when it sits on no node that counts."""
        bound = self.bound(pod)
        return bound if bound is not None and bound[0].is_active else None

    def bound(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return a pod in any phase and its node, or None when it is on no node that counts."""
        found = self._state.pods.get(pod)
        if found is None or (entry := self._counting(found.node)) is None or entry.node is None:
            return None
        return found, entry.node

    def place(self, subject: Places) -> tuple[Node, Collection[Pod]] | None:
        """Return a subject's node and active pods, or None when the node does not count."""
        match subject:
            case OnNode(node=name):
                entry = self._counting(name)
                if entry is None or entry.node is None:
                    return None
                return entry.node, entry.active.values()
            case OnePod(pod=key):
                placed = self.placed(key)
                return None if placed is None else (placed[1], placed[:1])

    def everyone(self, subject: Places) -> tuple[Node, Iterable[Pod]] | None:
        """Return a subject's node and pods in any phase, or None when the node does not count."""
        match subject:
            case OnNode(node=name):
                entry = self._counting(name)
                if entry is None or entry.node is None:
                    return None
                return entry.node, entry.everyone()
            case OnePod(pod=key):
                bound = self.bound(key)
                return None if bound is None else (bound[1], bound[:1])

    def _counting(self, node: str) -> NodeEntry | None:
        entry = self._state.nodes.find(node)
        return entry if entry is not None and entry.counts else None

    def pod(self, key: PodKey) -> Pod | None:
        """Return a pod by its key."""
        return self._state.pods.get(key)

    def named(self, namespace: str, name: str) -> Pod | None:
        """Return a pod by its name."""
        return self._state.pods.named(namespace, name)

    def replicas(self, owner_uid: str) -> int:
        """Count the pods that name this owner, in any phase."""
        return len(self._state.pods.owned_by(owner_uid))

    def owner_chain(self, pod: Pod) -> tuple[OwnerReference, ...]:
        """Return a pod's controller, that one's controller and so on, nearest first.

        Empty for a bare pod. Of ReplicaSets and Jobs it is known what controls them, where they
        may be read; the chain ends at anything else, and after `MOST_OWNERS`.
        """
        return chain(pod.owners, (self._state.replica_sets, self._state.jobs))

    def zone(self, node_name: str) -> str:
        """Return the zone of a node; the empty text when it has none or is not known."""
        entry = self._state.nodes.find(node_name)
        return "" if entry is None or entry.node is None else entry.node.zone

    def preference(self, affinity: NodeAffinity, node: str) -> tuple[int, int]:
        """Return the preferred weight of this node, and the best of any node that counts."""
        return self._state.preferences.weights(affinity, node)

    def avoided(
        self, pod: Pod, node: Node
    ) -> Iterator[tuple[PodAffinityTerm, Iterable[Pod] | None]]:
        """Return a pod's required anti-affinity terms, each with the active pods it means nearby.

        As the descheduler reads terms: near are pods of the same topology domain on nodes that
        count, and pods of the same node even where it lacks the label; the pod itself may be among
        them. None stands for a term whose selector does not parse. One that has no selector is
        left out. Use the pods up before the next change.
        """
        return self._state.neighbours.avoidances.avoided(pod, node)

    def declaring(self) -> list[str]:
        """Name the nodes that count and have a pod with required anti-affinity."""
        return [e.name for e in self._state.nodes if e.counts and e.declaring]

    def avoiding(self, subject: Places, keys: frozenset[str] | None = None) -> Iterator[Pod]:
        """Return the active pods whose anti-affinity a subject may violate, itself perhaps.

        One pod, if it has required terms, and of a node's pods those that share it, or a domain,
        with others whom their terms mean; and all pods nearby with a term that means a pod of the
        subject. Terms are read as by `avoided`. With `keys`, only those over these topology labels
        matter. A pod may come twice. Nothing for a node that does not count.
        """
        avoidances = self._state.neighbours.avoidances
        found: list[PodKey] = []
        match subject:
            case OnNode(node=name):
                if (entry := self._counting(name)) is not None and entry.node is not None:
                    found = avoidances.avoiding_on(entry, entry.node.labels, keys)
            case OnePod(pod=key):
                if (placed := self.placed(key)) is not None:
                    pod, node = placed
                    found = avoidances.avoiding(pod, node.labels, keys)
                    if pod.spec.anti_affinity:
                        found.append(key)
        return filter(None, map(self._state.pods.get, found))

    def matching(self, term: PodAffinityTerm, namespace: str) -> Domains:
        """Return the active pods that a term of a pod in a namespace means, by topology domain.

        As the kube-scheduler reads it: a namespaceSelector counts, any node does, and pods on
        nodes without the topology label do not show. Good until the next change of the state.
        """
        if term.label_selector is None:
            return Domains(term.topology_key)
        scope = scheduler_scope(term, namespace)
        return self._matching(scope, term.label_selector, term.topology_key)

    def repelling(self, pod: Pod) -> list[Avoidance]:
        """Return the required anti-affinity terms of active pods that mean a pod, wherever it is.

        As the kube-scheduler reads them. `declarers` of each has the pods that declare it by
        topology domain, the pod itself perhaps among them. Good until the next change.
        """
        return self._state.neighbours.avoidances.repelling(pod)

    def selected(self, namespace: str, selector: LabelSelector, key: str) -> Domains:
        """Return the active pods of a namespace that a selector matches, by topology domain.

        Terminating pods and any node with the topology label show. Built when first asked for;
        the latest thousand such questions are kept up to date. Good until the next change.
        """
        return self._matching(Scope((namespace,)), selector, key)

    def _matching(self, scope: Scope, selector: LabelSelector, key: str) -> Domains:
        selections = self._state.neighbours.selections
        return selections.domains(selections.of(scope, selector), key)

    def namespace(self, name: str) -> Namespace | None:
        """Return a namespace by name."""
        return self._state.namespaces.get(name)

    def priority_class(self, name: str) -> PriorityClass | None:
        """Return a priority class by name."""
        return self._state.priority_classes.get(name)

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a persistent volume claim."""
        return self._state.claims.get(f"{namespace}/{name}")

    def terminating(self, namespace: str) -> Collection[Pod]:
        """Return the active pods of a namespace whose deletion has begun."""
        return self._state.pods.terminating(namespace)

    def claim_users(self, namespace: str, name: str) -> Collection[Pod]:
        """Return the pods on nodes, not ended, that use a claim."""
        return self._state.pods.claim_users.of(f"{namespace}/{name}")

    @property
    def volumes_are_told(self) -> bool:
        """Whether a volume that is not here does not exist; else nobody told us of any."""
        return VOLUMES not in self._state.untold

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a persistent volume by name."""
        return self._state.volumes.get(name)

    def attachable(self, node: str) -> Mapping[str, int]:
        """Return how many volumes each driver that has a limit can attach to a node."""
        found = self._state.csi_nodes.get(node)
        return {} if found is None else found.attachable

    def budgets_over(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the disruption budgets that cover a pod."""
        return self._state.coverage.over(pod)
