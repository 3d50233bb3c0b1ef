"""The default evictor as gates: its guards (Filter) and its last looks (PreEvictionFilter)."""

from reactive_desched.fit.upstream import NodeSearch, Nowhere
from reactive_desched.gate.filters import Guard
from reactive_desched.model.decisions import Defer, Refuse, WakeKey
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import LabelSelector, Selector
from reactive_desched.model.objects import Pod
from reactive_desched.state.view import ClusterView

NODES: WakeKey = ("nodes",)
"""What waits for another node to count."""


class Guards:
    """Asks every guard in turn; the evict annotation answers for all of them."""

    name = "DefaultEvictor"

    def __init__(
        self, guards: tuple[Guard, ...], view: ClusterView, *, mandatory_no_eviction: bool
    ) -> None:
        self._guards = guards
        self._view = view
        self._mandatory = mandatory_no_eviction

    def verdict(self, finding: Finding, now: float) -> Refuse | None:
        """Return the first guard's refusal."""
        pod = finding.pod
        if pod.annotations.evict is not None:
            return None
        if self._mandatory and pod.annotations.prefer_no_eviction is not None:
            asks = "pod asks not to be evicted and the policy obeys"
            return Refuse(finding, "NoEvictionPolicy", asks, (("pod", pod.uid),))
        for guard in self._guards:
            if (reason := guard.check(pod, self._view)) is not None:
                until = self._opening(guard, pod, now)
                return Refuse(finding, guard.name, reason, guard.wakes(pod), until)
        return None

    def reasons(self, pod: Pod) -> list[tuple[str, str]]:
        """Return every guard's name and reason, as upstream collects them."""
        asked = ((guard.name, guard.check(pod, self._view)) for guard in self._guards)
        return [(name, reason) for name, reason in asked if reason is not None]

    def _opening(self, guard: Guard, pod: Pod, now: float) -> float | None:
        """Translate a wall-clock opening into monotonic time."""
        opens_s = guard.opens_at_s(pod)
        return None if opens_s is None else now + max(0.0, opens_s - self._view.now_s)


class TwoNodes:
    """Upstream skips its cycle unless two nodes are ready and selected; so do we."""

    name = "TwoNodes"

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def verdict(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse while nothing could run anywhere else."""
        if self._view.counting_nodes >= 2:  # noqa: PLR2004 -- "another node" needs two
            return None
        return Refuse(finding, self.name, "fewer than two nodes are ready", (NODES,))


class NodeFit:
    """Somewhere must fit: any other node if the evictor asks, any at all if the plugin does."""

    name = "NodeFit"

    def __init__(self, fit: NodeSearch, selector: Selector, *, evictor_asks: bool) -> None:
        self._fit = fit
        self._selector = selector
        self._evictor_asks = evictor_asks

    def verdict(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Refuse a pod that no node would take, until that may have changed."""
        pod, fit = finding.pod, self._fit
        if not (self._evictor_asks or finding.needs_fit):
            return None
        if not fit.prepare():
            return Defer(finding, self.name, "the nodes are still being looked through", now)
        if finding.needs_fit and fit.anywhere(pod) is None:
            return self._refuse(finding, fit.nowhere(pod))
        if self._evictor_asks and fit.elsewhere(pod, self._selector) is None:
            return self._refuse(finding, fit.nowhere_else(pod, self._selector))
        return None

    def _refuse(self, finding: Finding, found: Nowhere) -> Refuse:
        return Refuse(finding, self.name, found.reason, found.wakes, found.until, str(found.why))


class NamespaceSelector:
    """The pod's namespace must carry the labels the policy asks for."""

    name = "NamespaceLabelSelector"

    def __init__(self, selector: LabelSelector, view: ClusterView) -> None:
        self._selector = selector
        self._view = view

    def verdict(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse a pod of any other namespace, or of one we do not know."""
        pod = finding.pod
        namespace = self._view.namespace(pod.namespace)
        if namespace is not None and self._selector.matches(namespace.labels):
            return None
        reason = "pod's namespace does not match the policy's namespaceLabelSelector"
        wakes = (("namespace", pod.namespace), ("pod", pod.uid))
        return Refuse(finding, self.name, reason, wakes)
