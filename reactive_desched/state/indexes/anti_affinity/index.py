"""Keeps what is known of pods near each other right, whatever changes, and tells who is eased."""

from collections.abc import Iterable

from reactive_desched.model.changes import AntiAffinityResolved, Change
from reactive_desched.model.objects import Namespace, Pod, PodKey
from reactive_desched.state.indexes.anti_affinity.selectors import SelectorIndex
from reactive_desched.state.indexes.anti_affinity.terms import SelectorQuery
from reactive_desched.state.indexes.anti_affinity.terms_index import AntiAffinityTermIndex
from reactive_desched.state.nodes import NodeStore, NodeTopology
from reactive_desched.state.pods import PodStore
from reactive_desched.state.store import Store


class PodAffinityIndex:
    """The selections and the avoidances of a cluster, told of every change of its objects.

    Who came near whom can be asked when the change is there. Who left whom cannot be any more, so
    that is a change of its own.
    """

    def __init__(self, pods: PodStore, nodes: NodeStore, namespaces: Store[Namespace]) -> None:
        self._nodes = nodes
        self.selectors = SelectorIndex(pods, nodes, namespaces)
        self.anti_affinity_terms = AntiAffinityTermIndex(pods, nodes, self.selectors)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> list[Change]:
        """Take in another record of a pod, None where there is none."""
        if old is not None and new is not None and _same_for_affinity(old, new):
            return []
        if old is not None and not old.is_active:
            old = None
        if new is not None and not new.is_active:
            new = None
        dropped, joined = self.selectors.update_pod(old, new)
        stays = old is not None and new is not None and _same_anti_affinity_terms(old, new)
        resolved = (
            self._unindex_pod(old, dropped, removes_terms=not stays) if old is not None else []
        )
        if new is not None:
            self._index_pod(new, joined, adds_terms=not stays)
        return resolved

    def node_changed(self, name: str, old: NodeTopology) -> list[Change]:
        """Take in that a node came, went, has other labels, or counts or not unlike before."""
        now = self._nodes.topology_of(name)
        if old.labels is now.labels and old.eligible == now.eligible:
            return []
        keys = [key for key in self.topology_keys() if _domain(old, key) != _domain(now, key)]
        node_info = self._nodes.get(name)
        if not keys or node_info is None:
            return []
        resolved = (
            self.anti_affinity_terms.violated_by_node(node_info, old.labels, keys)
            if old.eligible
            else []
        )
        for pod in node_info.active.values():
            self._move_pod(pod, keys, old, now)
        return _resolved_changes(resolved)

    def namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        """Take in that a namespace came, went, or has other labels."""
        if (old.labels if old is not None else {}) != (new.labels if new is not None else {}):
            self.selectors.invalidate_namespace_selectors()

    def topology_keys(self) -> set[str]:
        """Name the topology labels that matter to anybody."""
        return {*self.selectors.topology_keys, *self.anti_affinity_terms.topology_keys}

    def _unindex_pod(
        self, pod: Pod, unmatched: list[SelectorQuery], *, removes_terms: bool
    ) -> list[Change]:
        """Take a pod out of the selections that mean it no more; tells whom it is not near now."""
        removes_terms = removes_terms and bool(pod.spec.anti_affinity)
        if not unmatched and not removes_terms:
            return []
        node = self._nodes.topology_of(pod.node)
        if removes_terms:
            self.anti_affinity_terms.remove_pod(pod, node)
        for query in unmatched:
            for domains in query.domains.values():
                domains.remove_pod(pod.uid, node)
        resolved = self._resolved(pod, node, unmatched)
        return _resolved_changes(uid for uid in resolved if uid != pod.uid) if resolved else []

    def _index_pod(self, pod: Pod, matched: list[SelectorQuery], *, adds_terms: bool) -> None:
        """Put a pod into the selections that mean it from now on."""
        adds_terms = adds_terms and bool(pod.spec.anti_affinity)
        if not matched and not adds_terms:
            return
        node = self._nodes.topology_of(pod.node)
        if adds_terms:
            self.anti_affinity_terms.add_pod(pod, node)
        for query in matched:
            for domains in query.domains.values():
                domains.add_pod(pod.uid, node)

    def _move_pod(
        self, pod: Pod, topology_keys: list[str], old: NodeTopology, new: NodeTopology
    ) -> None:
        """Move a pod with its node to other domains of these topology labels."""
        if pod.spec.anti_affinity:
            self.anti_affinity_terms.move_pod(pod, topology_keys, old, new)
        for query in self.selectors.queries_matching(pod):
            for key in topology_keys:
                if (domains := query.domains.get(key)) is not None:
                    domains.remove_pod(pod.uid, old)
                    domains.add_pod(pod.uid, new)

    def _resolved(
        self, pod: Pod, node: NodeTopology, unmatched: list[SelectorQuery]
    ) -> list[PodKey]:
        """Name those with a term that meant a pod where it was."""
        found: list[PodKey] = []
        for query in unmatched if node.eligible else ():
            for term in query.anti_affinity_terms:
                found += self.anti_affinity_terms.owners_near(term, pod.node, node.labels)
        return found


def _same_for_affinity(old: Pod, new: Pod) -> bool:
    """Say whether neither selections nor avoidances could tell two records apart."""
    return (
        old.labels is new.labels
        and old.node == new.node
        and old.spec.anti_affinity is new.spec.anti_affinity
        and (old.status is new.status or old.is_active == new.is_active)
    )


def _same_anti_affinity_terms(old: Pod, new: Pod) -> bool:
    return old.node == new.node and old.spec.anti_affinity is new.spec.anti_affinity


def _domain(node: NodeTopology, key: str) -> tuple[str, bool] | None:
    value = node.labels.get(key)
    return None if value is None else (value, node.eligible)


def _resolved_changes(pods: Iterable[PodKey]) -> list[Change]:
    resolved = tuple(dict.fromkeys(pods))
    return [AntiAffinityResolved(resolved)] if resolved else []
