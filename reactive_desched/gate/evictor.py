"""The default evictor as gates: its guards (Filter) and its last looks (PreEvictionFilter)."""

from collections.abc import Iterator
from typing import Final

from reactive_desched.api.index import Index
from reactive_desched.fit.upstream import NodeFit, NoFit
from reactive_desched.gate.filters import PodFilter, pod_filters, wake_on_pod
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import LabelSelector, Selector
from reactive_desched.model.objects import Namespace, Pod
from reactive_desched.model.wakes import WakeOn, WakeOnNamespace, WakeOnNodeAdded, WakeOnPod
from reactive_desched.policy.evictor import DefaultEvictorArgs, NoEvictionPolicy
from reactive_desched.state.view import ClusterView

EVICTABLE: Final = float("-inf")
PROTECTED: Final = float("inf")


class EvictorFilters:
    """Asks every guard in turn; the evict annotation answers for all of them."""

    name = "DefaultEvictor"

    def __init__(
        self, filters: tuple[PodFilter, ...], view: ClusterView, *, mandatory_no_eviction: bool
    ) -> None:
        self._filters = filters
        self._filters_beyond_pod = [each for each in filters if each.wakes is not wake_on_pod]
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
            return Refuse(finding, "NoEvictionPolicy", asks, (WakeOnPod(pod.uid),))
        for pod_filter in self._filters:
            if (reason := pod_filter.check(pod, self._view)) is not None:
                until = self._retry_at(pod_filter, pod, now)
                return Refuse(finding, pod_filter.name, reason, pod_filter.wakes(pod), until)
        return None

    def reasons(self, pod: Pod) -> list[tuple[str, str]]:
        """Return every guard's name and reason, as upstream collects them."""
        checked = (
            (pod_filter.name, pod_filter.check(pod, self._view)) for pod_filter in self._filters
        )
        return [(name, reason) for name, reason in checked if reason is not None]

    def evictable_from_s(self, pod: Pod) -> float:
        """Return since when the pod passes: -inf if it does, inf if only a change can alter that.

        Any other time, in seconds since the epoch, is when to evaluate the pod again.
        """
        if pod.annotations.evict is not None:
            return EVICTABLE
        if self._mandatory and pod.annotations.prefer_no_eviction is not None:
            return PROTECTED
        for pod_filter in self._filters:
            if pod_filter.check(pod, self._view) is not None:
                at_s = pod_filter.retry_at_s(pod)
                return PROTECTED if at_s is None else at_s
        return EVICTABLE

    def wakes(self, pod: Pod) -> Iterator[WakeOn]:
        """Yield what may alter the answer for a pod, other than a change of the pod itself."""
        for pod_filter in self._filters_beyond_pod:
            for wake in pod_filter.wakes(pod):
                if not isinstance(wake, WakeOnPod):
                    yield wake

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
        return Refuse(finding, self.name, "fewer than two nodes are ready", (WakeOnNodeAdded(),))


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
            no_fit.wake_on,
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
        """Refuse a pod of any other namespace, or of one that is not in the state."""
        pod = finding.pod
        if self.selects(pod):
            return None
        reason = "pod's namespace does not match the policy's namespaceLabelSelector"
        wakes = (WakeOnNamespace(pod.namespace), WakeOnPod(pod.uid))
        return Refuse(finding, self.name, reason, wakes)

    def selects(self, pod: Pod) -> bool:
        """Say whether the pod's namespace exists and has the labels."""
        namespace = self._view.store(Namespace).get(pod.namespace)
        return namespace is not None and self._selector.matches(namespace.labels)


class DefaultEvictor:
    """One profile's evictor: `filters` is upstream's Filter, the others its PreEvictionFilter."""

    def __init__(self, args: DefaultEvictorArgs, view: ClusterView, node_fit: NodeFit) -> None:
        mandatory = args.no_eviction is NoEvictionPolicy.MANDATORY
        self.filters = EvictorFilters(pod_filters(args), view, mandatory_no_eviction=mandatory)
        self.node_fit_filter = NodeFitFilter(
            node_fit, args.node_selector, evictor_requires=args.node_fit
        )
        selector = args.namespace_label_selector
        self.namespace_filters = (
            () if selector is None or selector.is_empty else (NamespaceFilter(selector, view),)
        )
        self.node_selector = args.node_selector
        self._node_fit = node_fit
        self._requires_fit = args.node_fit

    def passes_pre_eviction(self, pod: Pod) -> bool:
        """Say whether some other node fits the pod and its namespace matches, where required."""
        if self._requires_fit and self._node_fit.find_other_node(pod, self.node_selector) is None:
            return False
        return all(each.selects(pod) for each in self.namespace_filters)
