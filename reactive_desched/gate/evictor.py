"""The default evictor as gates: its guards (Filter) and its last looks (PreEvictionFilter)."""

from reactive_desched.api.index import Index
from reactive_desched.fit.upstream import NodeFit, NoFit
from reactive_desched.gate.filters import PodFilter
from reactive_desched.model.decisions import Defer, Refuse, WakeKey
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import LabelSelector, Selector
from reactive_desched.model.objects import Namespace, Pod
from reactive_desched.state.view import ClusterView

ELIGIBLE_NODES: WakeKey = ("nodes",)
"""What waits for another node to count."""


class EvictorFilters:
    """Asks every guard in turn; the evict annotation answers for all of them."""

    name = "DefaultEvictor"

    def __init__(
        self, filters: tuple[PodFilter, ...], view: ClusterView, *, mandatory_no_eviction: bool
    ) -> None:
        self._filters = filters
        self._view = view
        self._mandatory = mandatory_no_eviction

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that the filters read."""
        return tuple(kind for pod_filter in self._filters for kind in pod_filter.indexes)

    def check(self, finding: Finding, now: float) -> Refuse | None:
        """Return the first guard's refusal."""
        pod = finding.pod
        if pod.annotations.evict is not None:
            return None
        if self._mandatory and pod.annotations.prefer_no_eviction is not None:
            asks = "pod asks not to be evicted and the policy obeys"
            return Refuse(finding, "NoEvictionPolicy", asks, (("pod", pod.uid),))
        for pod_filter in self._filters:
            if (reason := pod_filter.check(pod, self._view)) is not None:
                until = self._retry_at(pod_filter, pod, now)
                return Refuse(finding, pod_filter.name, reason, pod_filter.wake_keys(pod), until)
        return None

    def reasons(self, pod: Pod) -> list[tuple[str, str]]:
        """Return every guard's name and reason, as upstream collects them."""
        checked = (
            (pod_filter.name, pod_filter.check(pod, self._view)) for pod_filter in self._filters
        )
        return [(name, reason) for name, reason in checked if reason is not None]

    def _retry_at(self, pod_filter: PodFilter, pod: Pod, now: float) -> float | None:
        """Translate a wall-clock opening into monotonic time."""
        opens_s = pod_filter.retry_at_s(pod)
        return None if opens_s is None else now + max(0.0, opens_s - self._view.now_s)


class MinReadyNodes:
    """Upstream skips its cycle unless two nodes are ready and selected; so do we."""

    name = "TwoNodes"

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse while nothing could run anywhere else."""
        if self._view.eligible_node_count >= 2:  # noqa: PLR2004 -- "another node" needs two
            return None
        return Refuse(finding, self.name, "fewer than two nodes are ready", (ELIGIBLE_NODES,))


class NodeFitFilter:
    """Somewhere must fit: any other node if the evictor asks, any at all if the plugin does."""

    name = "NodeFit"

    def __init__(self, node_fit: NodeFit, selector: Selector, *, evictor_requires: bool) -> None:
        self._node_fit = node_fit
        self._selector = selector
        self._evictor_requires = evictor_requires

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that node fit reads."""
        return self._node_fit.indexes

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Refuse a pod that no node would take, until that may have changed."""
        pod, fit = finding.pod, self._node_fit
        if not (self._evictor_requires or finding.needs_fit):
            return None
        if not fit.sync():
            return Defer(finding, self.name, "the nodes are still being looked through", now)
        if finding.needs_fit and fit.find_any_node(pod) is None:
            return self._refuse(finding, fit.diagnose_any_node(pod))
        if self._evictor_requires and fit.find_other_node(pod, self._selector) is None:
            return self._refuse(finding, fit.diagnose_other_nodes(pod, self._selector))
        return None

    def _refuse(self, finding: Finding, no_fit: NoFit) -> Refuse:
        return Refuse(
            finding,
            self.name,
            no_fit.message,
            no_fit.wake_keys,
            no_fit.until,
            str(no_fit.diagnosis),
        )


class NamespaceFilter:
    """The pod's namespace must carry the labels the policy asks for."""

    name = "NamespaceLabelSelector"

    def __init__(self, selector: LabelSelector, view: ClusterView) -> None:
        self._selector = selector
        self._view = view

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse a pod of any other namespace, or of one we do not know."""
        pod = finding.pod
        namespace = self._view.store(Namespace).get(pod.namespace)
        if namespace is not None and self._selector.matches(namespace.labels):
            return None
        reason = "pod's namespace does not match the policy's namespaceLabelSelector"
        wakes = (("namespace", pod.namespace), ("pod", pod.uid))
        return Refuse(finding, self.name, reason, wakes)
