"""Matches evictions with entries of the settings, by the labels that the cluster has now."""

from reactive_desched.ledger.eviction import Eviction
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Namespace
from reactive_desched.model.wakes import WakeOn, WakeOnNamespace, WakeOnNode
from reactive_desched.policy.settings.concerns import Concerns
from reactive_desched.state.cluster import ClusterView


class Concerned:
    """Asks of one entry whether it concerns a finding, or an eviction.

    A namespace or a node that is not there, or that may not be listed, counts as one that the entry
    selects: it may have had the labels.
    """

    def __init__(self, by: Concerns, view: ClusterView) -> None:
        self._by = by
        self._view = view
        self._is_simple = not (by.has_places or by.profiles)

    def finding(self, finding: Finding, profile: str) -> bool:
        """Say whether it concerns a finding of a profile."""
        by = self._by
        if by.plugins and finding.plugin not in by.plugins:
            return False
        pod = finding.pod
        return self._is_simple or self._has(profile, pod.namespace, pod.node)

    def eviction(self, eviction: Eviction) -> bool:
        """Say whether it concerns an eviction, also one of an earlier process."""
        scopes = eviction.scopes
        if self._by.plugins and scopes.plugin not in self._by.plugins:
            return False
        return self._is_simple or self._has(eviction.profile, scopes.namespace, scopes.node)

    def wakes(self, finding: Finding) -> tuple[WakeOn, ...]:
        """Return what may change the answer besides the time: labels, where those decide."""
        wakes: tuple[WakeOn, ...] = ()
        if self._by.namespace_selector is not None:
            wakes = (WakeOnNamespace(finding.pod.namespace),)
        if self._by.node_selector is not None:
            wakes = (*wakes, WakeOnNode(finding.pod.node))
        return wakes

    def _has(self, profile: str, namespace: str, node: str) -> bool:
        by = self._by
        if by.profiles and profile not in by.profiles:
            return False
        if by.names_namespaces and not self._has_namespace(namespace):
            return False
        return by.node_selector is None or self._has_node(node)

    def _has_namespace(self, name: str) -> bool:
        if name in self._by.namespaces:
            return True
        if (selector := self._by.namespace_selector) is None:
            return False
        namespace = self._view.store(Namespace).get(name)
        return namespace is None or selector.matches(namespace.labels)

    def _has_node(self, name: str) -> bool:
        assert self._by.node_selector is not None
        info = self._view.node_info(name)
        if info is None or info.node is None:
            return True
        return self._by.node_selector.matches(info.node.labels)
