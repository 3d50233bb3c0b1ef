"""The cluster as we know it: every object taken in, every difference told as a change."""

from collections.abc import Callable, Iterable

from reactive_desched.model.changes import (
    Change,
    ClaimChanged,
    DisruptionBudgetChanged,
    NamespaceChanged,
    NodeAdded,
    NodeGone,
    NodeLabelsChanged,
    PriorityClassChanged,
)
from reactive_desched.model.labels import EVERYTHING, Selector
from reactive_desched.model.objects import (
    ClusterObject,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
)
from reactive_desched.state.coverage import Coverage
from reactive_desched.state.nodes import NodeTable
from reactive_desched.state.pods import PodTable
from reactive_desched.state.preferences import Preferences
from reactive_desched.state.table import Table

PODS = "pods"
NODES = "nodes"
NAMESPACES = "namespaces"
PRIORITY_CLASSES = "priorityclasses"
DISRUPTION_BUDGETS = "poddisruptionbudgets"
CLAIMS = "persistentvolumeclaims"
RESOURCES = (NAMESPACES, PRIORITY_CLASSES, DISRUPTION_BUDGETS, CLAIMS, NODES, PODS)
"""What we watch, by API resource name."""


class ClusterState:
    """Objects in, changes out; everything is kept up to date per change, nothing recomputed.

    `selects` is the policy's node selector: other nodes do not count.
    """

    def __init__(self, selects: Selector = EVERYTHING) -> None:
        self.nodes = NodeTable(selects)
        self.preferences = Preferences(self.nodes)
        self.pods = PodTable(self.nodes, self.preferences)
        self.namespaces: Table[Namespace] = Table(lambda n: NamespaceChanged(n.name))
        self.priority_classes: Table[PriorityClass] = Table(lambda p: PriorityClassChanged(p.name))
        self.budgets: Table[PodDisruptionBudget] = Table(
            lambda b: DisruptionBudgetChanged(b.namespace, b.name), lambda b: b.namespace
        )
        self.coverage = Coverage(self.budgets)
        self.claims: Table[PersistentVolumeClaim] = Table(
            lambda c: ClaimChanged(c.namespace, c.name)
        )

    def upsert(self, thing: ClusterObject) -> list[Change]:
        """Take in an object as it is now and say what differs."""
        match thing:
            case Pod():
                return self.pods.upsert(thing)
            case Node():
                return self._with_preferences(self.nodes.upsert(thing))
            case Namespace():
                return self.namespaces.upsert(thing)
            case PodDisruptionBudget():
                return self._upsert_budget(thing)
            case PersistentVolumeClaim():
                return self.claims.upsert(thing)
            case PriorityClass():
                return self.priority_classes.upsert(thing)

    def remove(self, thing: ClusterObject) -> list[Change]:
        """Forget an object, given as it was last seen, and say what differs."""
        match thing:
            case Pod():
                return self.pods.remove(thing.uid)
            case Node():
                return self._with_preferences(self.nodes.remove(thing.name, thing.uid))
            case Namespace():
                return self.namespaces.remove(thing)
            case PodDisruptionBudget():
                self.coverage.selectors_changed(thing.namespace)
                return self.budgets.remove(thing)
            case PersistentVolumeClaim():
                return self.claims.remove(thing)
            case PriorityClass():
                return self.priority_classes.remove(thing)

    def keys(self, resource: str) -> Iterable[str]:
        """Return a snapshot of the keys held of a resource, to find what a new list lacks."""
        keys: dict[str, Callable[[], Iterable[str]]] = {
            PODS: self.pods.keys,
            NODES: self.nodes.names,
            NAMESPACES: self.namespaces.keys,
            PRIORITY_CLASSES: self.priority_classes.keys,
            DISRUPTION_BUDGETS: self.budgets.keys,
            CLAIMS: self.claims.keys,
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
            case _:
                return self.claims.get(key)

    def _upsert_budget(self, budget: PodDisruptionBudget) -> list[Change]:
        old = self.budgets.get(budget.key)
        if old is None or old.selector != budget.selector:
            self.coverage.selectors_changed(budget.namespace)
        return self.budgets.upsert(budget)

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
