"""The cluster as we know it: every object taken in, every difference told as a change."""

from collections.abc import Callable, Iterable

from reactive_desched.model.changes import (
    AttachLimitsChanged,
    Change,
    ClaimChanged,
    DisruptionBudgetChanged,
    NamespaceChanged,
    NodeAdded,
    NodeGone,
    NodeLabelsChanged,
    PriorityClassChanged,
    VolumeChanged,
)
from reactive_desched.model.labels import EVERYTHING, Selector
from reactive_desched.model.objects import (
    ClusterObject,
    CSINode,
    Job,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
)
from reactive_desched.state.indexes.anti_affinity.index import Neighbours
from reactive_desched.state.indexes.owners import Controllers
from reactive_desched.state.indexes.pdb import Coverage
from reactive_desched.state.indexes.preferred_affinity import Preferences
from reactive_desched.state.nodes import NodeTable
from reactive_desched.state.pods import PodTable
from reactive_desched.state.store import Table

PODS = "pods"
NODES = "nodes"
NAMESPACES = "namespaces"
PRIORITY_CLASSES = "priorityclasses"
DISRUPTION_BUDGETS = "poddisruptionbudgets"
CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
CSI_NODES = "csinodes"
REPLICA_SETS = "replicasets"
JOBS = "jobs"
RESOURCES = (
    *(NAMESPACES, PRIORITY_CLASSES, DISRUPTION_BUDGETS),
    *(CLAIMS, VOLUMES, CSI_NODES),
    *(REPLICA_SETS, JOBS),
    *(NODES, PODS),
)
"""What we watch, by API resource name."""
STORAGE = frozenset({VOLUMES, CSI_NODES})
"""Those of them that only the kube-scheduler's way to fit a node asks about."""
OWNERS = frozenset({REPLICA_SETS, JOBS})
"""Those of them that only tell what owns a pod's owner: records name it, no decision needs it."""
DISPENSABLE = STORAGE | OWNERS
"""Those of them that can be done without where nobody may read them."""


def going_without(resource: str) -> str:
    """Say what is lost where a dispensable resource may not be read."""
    if resource in STORAGE:
        return "going without: node fit leaves this out"
    return "going without: records name no owner above a pod's own controller"


Storage = PersistentVolumeClaim | PersistentVolume | CSINode


class ClusterState:
    """Objects in, changes out; everything is kept up to date per change, nothing recomputed.

    `selects` is the policy's node selector: other nodes do not count. `untold` names resources
    that nobody may tell us of: that something of them is not here means nothing.
    """

    def __init__(self, selects: Selector = EVERYTHING) -> None:
        self.untold: set[str] = set()
        self.nodes = NodeTable(selects)
        self.preferences = Preferences(self.nodes)
        self.pods = PodTable(self.nodes, self.preferences)
        self.namespaces: Table[Namespace] = Table(lambda n: NamespaceChanged(n.name))
        self.neighbours = Neighbours(self.pods, self.nodes, self.namespaces)
        self.priority_classes: Table[PriorityClass] = Table(lambda p: PriorityClassChanged(p.name))
        self.budgets: Table[PodDisruptionBudget] = Table(
            lambda b: DisruptionBudgetChanged(b.namespace, b.name), lambda b: b.namespace
        )
        self.coverage = Coverage(self.budgets)
        self.claims: Table[PersistentVolumeClaim] = Table(
            lambda c: ClaimChanged(c.namespace, c.name)
        )
        self.volumes: Table[PersistentVolume] = Table(lambda v: VolumeChanged(v.name))
        self.csi_nodes: Table[CSINode] = Table(lambda n: AttachLimitsChanged(n.name))
        self.replica_sets = Controllers()
        self.jobs = Controllers()

    def select(self, selects: Selector) -> list[Change]:
        """Let the nodes of another policy's selection count and say what differs.

        What it means for preferences is not told: whoever calls this looks at everything again.
        """
        if selects == self.nodes.selects:
            return []
        before = [(entry.name, entry.standing) for entry in self.nodes]
        changes = self.nodes.select(selects)
        self.preferences.forget()
        return changes + [
            change
            for name, standing in before
            for change in self.neighbours.node_changed(name, standing)
        ]

    def upsert(self, thing: ClusterObject) -> list[Change]:
        """Take in an object as it is now and say what differs."""
        match thing:
            case Pod():
                return self._upsert_pod(thing)
            case Node():
                return self._upsert_node(thing)
            case Namespace():
                return self._upsert_namespace(thing)
            case PodDisruptionBudget():
                return self._upsert_budget(thing)
            case PersistentVolumeClaim() | PersistentVolume() | CSINode():
                return self._upsert_storage(thing)
            case PriorityClass():
                return self.priority_classes.upsert(thing)
            case ReplicaSet() | Job():
                self._controllers(thing).upsert(thing)
                return []  # nobody's place hangs on it

    def remove(self, thing: ClusterObject) -> list[Change]:
        """Forget an object, given as it was last seen, and say what differs."""
        match thing:
            case Pod():
                return self._remove_pod(thing.uid)
            case Node():
                return self._remove_node(thing)
            case Namespace():
                return self._remove_namespace(thing)
            case PodDisruptionBudget():
                self.coverage.selectors_changed(thing.namespace)
                return self.budgets.remove(thing)
            case PersistentVolumeClaim() | PersistentVolume() | CSINode():
                return self._remove_storage(thing)
            case PriorityClass():
                return self.priority_classes.remove(thing)
            case ReplicaSet() | Job():
                self._controllers(thing).remove(thing.uid)
                return []

    def keys(self, resource: str) -> Iterable[str]:
        """Return a snapshot of the keys held of a resource, to find what a new list lacks."""
        keys: dict[str, Callable[[], Iterable[str]]] = {
            PODS: self.pods.keys,
            NODES: self.nodes.names,
            NAMESPACES: self.namespaces.keys,
            PRIORITY_CLASSES: self.priority_classes.keys,
            DISRUPTION_BUDGETS: self.budgets.keys,
            CLAIMS: self.claims.keys,
            VOLUMES: self.volumes.keys,
            CSI_NODES: self.csi_nodes.keys,
            REPLICA_SETS: self.replica_sets.keys,
            JOBS: self.jobs.keys,
        }
        return keys[resource]()

    def get(self, resource: str, key: str) -> ClusterObject | None:
        """Return one object by its resource and key."""
        match resource:
            case "pods":
                return self.pods.get(key)
            case "nodes":
                entry = self.nodes.find(key)
                return entry.node if entry is not None else None
            case "namespaces":
                return self.namespaces.get(key)
            case "priorityclasses":
                return self.priority_classes.get(key)
            case "poddisruptionbudgets":
                return self.budgets.get(key)
            case "persistentvolumeclaims":
                return self.claims.get(key)
            case "persistentvolumes":
                return self.volumes.get(key)
            case "csinodes":
                return self.csi_nodes.get(key)
            case "replicasets":
                above = self.replica_sets.of(key)
                return ReplicaSet(key, controller=above) if above is not None else None
            case _:
                above = self.jobs.of(key)
                return Job(key, controller=above) if above is not None else None

    def _upsert_pod(self, pod: Pod) -> list[Change]:
        old = self.pods.get(pod.uid)
        changes = self.pods.upsert(pod)
        eased = self.neighbours.pod_changed(old, self.pods.get(pod.uid))
        return changes + eased if eased else changes

    def _remove_pod(self, uid: str) -> list[Change]:
        old = self.pods.get(uid)
        changes = self.pods.remove(uid)
        return changes + self.neighbours.pod_changed(old, None)

    def _upsert_node(self, node: Node) -> list[Change]:
        before = self.nodes.standing(node.name)
        changes = self._with_preferences(self.nodes.upsert(node))
        return changes + self.neighbours.node_changed(node.name, before)

    def _remove_node(self, node: Node) -> list[Change]:
        before = self.nodes.standing(node.name)
        changes = self._with_preferences(self.nodes.remove(node.name, node.uid))
        return changes + self.neighbours.node_changed(node.name, before)

    def _upsert_namespace(self, namespace: Namespace) -> list[Change]:
        old = self.namespaces.get(namespace.name)
        changes = self.namespaces.upsert(namespace)
        self.neighbours.namespace_changed(old, self.namespaces.get(namespace.name))
        return changes

    def _remove_namespace(self, namespace: Namespace) -> list[Change]:
        old = self.namespaces.get(namespace.name)
        changes = self.namespaces.remove(namespace)
        self.neighbours.namespace_changed(old, self.namespaces.get(namespace.name))
        return changes

    def _upsert_budget(self, budget: PodDisruptionBudget) -> list[Change]:
        old = self.budgets.get(budget.key)
        if old is None or old.selector != budget.selector:
            self.coverage.selectors_changed(budget.namespace)
        return self.budgets.upsert(budget)

    def _upsert_storage(self, thing: Storage) -> list[Change]:
        match thing:
            case PersistentVolumeClaim():
                changes = self.claims.upsert(thing)
            case PersistentVolume():
                changes = self.volumes.upsert(thing)
            case CSINode():
                changes = self.csi_nodes.upsert(thing)
        return self._told_to_nodes(thing, changes)

    def _remove_storage(self, thing: Storage) -> list[Change]:
        match thing:
            case PersistentVolumeClaim():
                changes = self.claims.remove(thing)
            case PersistentVolume():
                changes = self.volumes.remove(thing)
            case CSINode():
                changes = self.csi_nodes.remove(thing)
        return self._told_to_nodes(thing, changes)

    def _controllers(self, thing: ReplicaSet | Job) -> Controllers:
        return self.replica_sets if isinstance(thing, ReplicaSet) else self.jobs

    def _told_to_nodes(self, thing: Storage, changes: list[Change]) -> list[Change]:
        """Touch the nodes where this decides what is attached; pass the changes on."""
        if changes and isinstance(thing, CSINode):
            self.nodes.touch(thing.name)
        elif changes:
            claim = thing.claim if isinstance(thing, PersistentVolume) else thing.key
            for pod in self.pods.claim_users.of(claim):
                self.nodes.touch(pod.node)
        return changes

    def _with_preferences(self, changes: list[Change]) -> list[Change]:
        """Add what the change of a node means for preferred affinities."""
        more: list[Change] = []
        for change in changes:
            match change:
                case NodeLabelsChanged(node=name, keys=keys):
                    more += self.preferences.node_changed(self._node(name), keys)
                case NodeAdded(node=name):
                    more += self.preferences.node_added(self._node(name))
                case NodeGone(node=name):
                    more += self.preferences.node_gone(name)
        return changes + more if more else changes

    def _node(self, name: str) -> Node:
        node = self.nodes.entry(name).node
        assert node is not None
        return node
