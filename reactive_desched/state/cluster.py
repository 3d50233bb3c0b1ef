"""The cluster as we know it: every object taken in, every difference told as a change."""

from collections.abc import Iterable
from typing import Any

from reactive_desched.model.changes import Change, NodeAdded, NodeGone, NodeLabelsChanged
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
from reactive_desched.state.indexes.anti_affinity.index import PodAffinityIndex
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.indexes.pdb import PdbIndex
from reactive_desched.state.indexes.preferred_affinity import PreferredAffinityIndex
from reactive_desched.state.nodes import NodeStore
from reactive_desched.state.pods import PodStore
from reactive_desched.state.resources import (
    CSI_NODES,
    NAMESPACES,
    PDBS,
    PRIORITY_CLASSES,
    PVCS,
    PVS,
    WATCHED_KINDS,
)
from reactive_desched.state.store import Store

StorageObject = PersistentVolumeClaim | PersistentVolume | CSINode


class ClusterState:
    """Objects in, changes out; everything is kept up to date per change, nothing recomputed.

    `selects` is the policy's node selector: other nodes do not count. `untold` names resources
    that nobody may tell us of: that something of them is not here means nothing.
    """

    def __init__(self, node_selector: Selector = EVERYTHING) -> None:
        self.unreadable_resources: set[str] = set()
        self.nodes = NodeStore(node_selector)
        self.preferred_affinity = PreferredAffinityIndex(self.nodes)
        self.pods = PodStore(self.nodes, self.preferred_affinity)
        self._stores: dict[str, Store[Any]] = {  # every kind has records of its own
            resource: Store(kind.make_change, kind.store_group)
            for resource, kind in WATCHED_KINDS.items()
            if kind.make_change is not None
        }
        self._store_of_type = {
            kind.record: self._stores[resource]
            for resource, kind in WATCHED_KINDS.items()
            if resource in self._stores
        }
        self.namespaces: Store[Namespace] = self._stores[NAMESPACES]
        self.priority_classes: Store[PriorityClass] = self._stores[PRIORITY_CLASSES]
        self.pdbs: Store[PodDisruptionBudget] = self._stores[PDBS]
        self.pvcs: Store[PersistentVolumeClaim] = self._stores[PVCS]
        self.pvs: Store[PersistentVolume] = self._stores[PVS]
        self.csi_nodes: Store[CSINode] = self._stores[CSI_NODES]
        self.pod_affinity = PodAffinityIndex(self.pods, self.nodes, self.namespaces)
        self.pdb_index = PdbIndex(self.pdbs)
        self.replica_sets = OwnerIndex()
        self.jobs = OwnerIndex()

    def set_node_selector(self, node_selector: Selector) -> list[Change]:
        """Let the nodes of another policy's selection count and say what differs.

        What it means for preferences is not told: whoever calls this looks at everything again.
        """
        if node_selector == self.nodes.selector:
            return []
        before = [(node_info.name, node_info.topology) for node_info in self.nodes]
        changes = self.nodes.set_selector(node_selector)
        self.preferred_affinity.invalidate()
        return changes + [
            change
            for name, topology in before
            for change in self.pod_affinity.node_changed(name, topology)
        ]

    def upsert(self, obj: ClusterObject) -> list[Change]:
        """Take in an object as it is now and say what differs."""
        match obj:
            case Pod():
                return self._upsert_pod(obj)
            case Node():
                return self._upsert_node(obj)
            case Namespace():
                return self._upsert_namespace(obj)
            case PodDisruptionBudget():
                return self._upsert_pdb(obj)
            case PersistentVolumeClaim() | PersistentVolume() | CSINode():
                return self._upsert_storage(obj)
            case ReplicaSet() | Job():
                self._owner_index(obj).upsert(obj)
                return []  # no decision reads owners
            case _:
                return self._store_of_type[type(obj)].upsert(obj)

    def remove(self, obj: ClusterObject) -> list[Change]:
        """Forget an object, given as it was last seen, and say what differs."""
        match obj:
            case Pod():
                return self._remove_pod(obj.uid)
            case Node():
                return self._remove_node(obj)
            case Namespace():
                return self._remove_namespace(obj)
            case PodDisruptionBudget():
                self.pdb_index.invalidate(obj.namespace)
                return self.pdbs.remove(obj)
            case PersistentVolumeClaim() | PersistentVolume() | CSINode():
                return self._remove_storage(obj)
            case ReplicaSet() | Job():
                self._owner_index(obj).remove(obj.uid)
                return []
            case _:
                return self._store_of_type[type(obj)].remove(obj)

    def keys(self, resource: str) -> Iterable[str]:
        """Return a snapshot of the keys held of a resource, to find what a new list lacks."""
        match resource:
            case "pods":
                return self.pods.keys()
            case "nodes":
                return self.nodes.names()
            case "replicasets":
                return self.replica_sets.keys()
            case "jobs":
                return self.jobs.keys()
            case _:
                return self._stores[resource].keys()

    def get(self, resource: str, key: str) -> ClusterObject | None:
        """Return one object by its resource and key."""
        match resource:
            case "pods":
                return self.pods.get(key)
            case "nodes":
                node_info = self.nodes.get(key)
                return node_info.node if node_info is not None else None
            case "replicasets":
                above = self.replica_sets.get(key)
                return ReplicaSet(key, controller=above) if above is not None else None
            case "jobs":
                above = self.jobs.get(key)
                return Job(key, controller=above) if above is not None else None
            case _:
                obj: ClusterObject | None = self._stores[resource].get(key)
                return obj

    def _upsert_pod(self, pod: Pod) -> list[Change]:
        old = self.pods.get(pod.uid)
        changes = self.pods.upsert(pod)
        resolved = self.pod_affinity.pod_changed(old, self.pods.get(pod.uid))
        return changes + resolved if resolved else changes

    def _remove_pod(self, uid: str) -> list[Change]:
        old = self.pods.get(uid)
        changes = self.pods.remove(uid)
        return changes + self.pod_affinity.pod_changed(old, None)

    def _upsert_node(self, node: Node) -> list[Change]:
        before = self.nodes.topology_of(node.name)
        changes = self._with_preference_changes(self.nodes.upsert(node))
        return changes + self.pod_affinity.node_changed(node.name, before)

    def _remove_node(self, node: Node) -> list[Change]:
        before = self.nodes.topology_of(node.name)
        changes = self._with_preference_changes(self.nodes.remove(node.name, node.uid))
        return changes + self.pod_affinity.node_changed(node.name, before)

    def _upsert_namespace(self, namespace: Namespace) -> list[Change]:
        old = self.namespaces.get(namespace.name)
        changes = self.namespaces.upsert(namespace)
        self.pod_affinity.namespace_changed(old, self.namespaces.get(namespace.name))
        return changes

    def _remove_namespace(self, namespace: Namespace) -> list[Change]:
        old = self.namespaces.get(namespace.name)
        changes = self.namespaces.remove(namespace)
        self.pod_affinity.namespace_changed(old, self.namespaces.get(namespace.name))
        return changes

    def _upsert_pdb(self, pdb: PodDisruptionBudget) -> list[Change]:
        old = self.pdbs.get(pdb.key)
        if old is None or old.selector != pdb.selector:
            self.pdb_index.invalidate(pdb.namespace)
        return self.pdbs.upsert(pdb)

    def _upsert_storage(self, obj: StorageObject) -> list[Change]:
        match obj:
            case PersistentVolumeClaim():
                changes = self.pvcs.upsert(obj)
            case PersistentVolume():
                changes = self.pvs.upsert(obj)
            case CSINode():
                changes = self.csi_nodes.upsert(obj)
        return self._mark_nodes_dirty(obj, changes)

    def _remove_storage(self, obj: StorageObject) -> list[Change]:
        match obj:
            case PersistentVolumeClaim():
                changes = self.pvcs.remove(obj)
            case PersistentVolume():
                changes = self.pvs.remove(obj)
            case CSINode():
                changes = self.csi_nodes.remove(obj)
        return self._mark_nodes_dirty(obj, changes)

    def _owner_index(self, obj: ReplicaSet | Job) -> OwnerIndex:
        return self.replica_sets if isinstance(obj, ReplicaSet) else self.jobs

    def _mark_nodes_dirty(self, obj: StorageObject, changes: list[Change]) -> list[Change]:
        """Touch the nodes where this decides what is attached; pass the changes on."""
        if changes and isinstance(obj, CSINode):
            self.nodes.mark_dirty(obj.name)
        elif changes:
            pvc = obj.claim_ref if isinstance(obj, PersistentVolume) else obj.key
            for pod in self.pods.pvc_users.users_of(pvc):
                self.nodes.mark_dirty(pod.node)
        return changes

    def _with_preference_changes(self, changes: list[Change]) -> list[Change]:
        """Add what the change of a node means for preferred affinities."""
        more: list[Change] = []
        for change in changes:
            match change:
                case NodeLabelsChanged(node=name, keys=keys):
                    more += self.preferred_affinity.node_changed(self._node(name), keys)
                case NodeAdded(node=name):
                    more += self.preferred_affinity.node_added(self._node(name))
                case NodeGone(node=name):
                    more += self.preferred_affinity.node_removed(name)
        return changes + more if more else changes

    def _node(self, name: str) -> Node:
        node = self.nodes.get_or_create(name).node
        assert node is not None
        return node
