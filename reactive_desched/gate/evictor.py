"""The default evictor as gates: its pod filters (Filter) and its checks (PreEvictionFilter).

A pod of which not all is read is held beside them: what is left out might keep it where it is.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from reactive_desched.api.index import Index
from reactive_desched.fit.upstream import NodeFit, NoFit
from reactive_desched.gate.filters import (
    UPSTREAM_RULES,
    EvictorRules,
    PodFilter,
    Rejection,
    kept_by_annotation,
    outside_profile,
    pod_filters,
    wake_on_node,
    wake_on_pod,
)
from reactive_desched.model.decisions import Defer, GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import EVERYTHING, LabelSelector, Selector
from reactive_desched.model.objects import Namespace, Pod
from reactive_desched.model.opt_outs import EVICT, EvictWish, is_clear_evict_wish
from reactive_desched.model.wakes import (
    WakeOn,
    WakeOnEviction,
    WakeOnNamespace,
    WakeOnNodeAdded,
    WakeOnPod,
)
from reactive_desched.policy.evictor import DefaultEvictorArgs, NoEvictionPolicy
from reactive_desched.state.cluster import ClusterView
from reactive_desched.text.counts import format_count

EVICTABLE: Final = float("-inf")
PROTECTED: Final = float("inf")

MIN_NODES: Final = 2
"""Another node than the pod's own needs two."""

PREFERS_NO_EVICTION: Final = GateReason(
    "NoEvictionPolicy",
    "PrefersNoEviction",
    "The pod has the prefer-no-eviction annotation, and the policy makes it mandatory.",
    keeps=True,
)
TOO_FEW_NODES: Final = GateReason(
    "MinReadyNodes",
    "TooFewReadyNodes",
    "Fewer than two nodes are ready and match the policy's `nodeSelector`.",
)
NODE_FIT_PENDING: Final = GateReason(
    "NodeFit", "NodeFitPending", "Changed nodes are still being evaluated for node fit."
)
NO_NODE_FITS: Final = GateReason(
    "NodeFit", "NoNodeFits", "No node, the pod's own included, fits the pod."
)
NO_OTHER_NODE_FITS: Final = GateReason(
    "NodeFit", "NoOtherNodeFits", "No ready node other than the pod's own fits the pod."
)
NO_TARGET_NODE_FITS: Final = GateReason(
    "NodeFit",
    "NoTargetNodeFits",
    "None of the nodes to which the plugin would move the pod fits it.",
)
NAMESPACE_NOT_SELECTED: Final = GateReason(
    "NamespaceLabelSelector",
    "NamespaceNotSelected",
    "The policy's `namespaceLabelSelector` does not match the labels of the pod's namespace.",
    keeps=True,
)


class EvictorFilters:
    """Asks every pod filter in turn; a pod that its evict annotation lets go passes all of them.

    Only pods on `nodes` pass at all: that is no protection of a pod. By the rules of the controller
    the annotation may keep the pod as well.
    """

    name = "DefaultEvictor"

    def __init__(
        self,
        filters: tuple[PodFilter, ...],
        view: ClusterView,
        *,
        mandatory_no_eviction: bool,
        rules: EvictorRules = UPSTREAM_RULES,
        nodes: Selector = EVERYTHING,
    ) -> None:
        self._check_place = outside_profile(nodes) if nodes.requirements else None
        self._filters = filters
        self._filters_beyond_pod = [each for each in filters if each.wakes is not wake_on_pod]
        self._view = view
        self._mandatory = mandatory_no_eviction
        self._rules = rules

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that the filters read."""
        return tuple(kind for pod_filter in self._filters for kind in pod_filter.indexes)

    def check(self, finding: Finding, now: float) -> Refuse | None:
        """Refuse with the first filter's rejection."""
        pod = finding.pod
        if (outside := self._outside(pod)) is not None:
            reason, message = outside
            return reason.refuse(finding, message, wake_on_node(pod))
        if self._passes_by_annotation(pod):
            return None
        if (kept := self._kept_by_annotation(pod)) is not None:
            reason, message = kept
            return reason.refuse(finding, message, (WakeOnPod(pod.uid),))
        for pod_filter in self._filters:
            if (rejection := pod_filter.check(pod, self._view)) is not None:
                reason, message = rejection
                until = self._retry_at(pod_filter, pod, now)
                return reason.refuse(finding, message, pod_filter.wakes(pod), until)
            if (refusal := self._check_in_flight(pod_filter, finding)) is not None:
                return refusal
        return None

    def held_since(self, finding: Finding, _: float) -> str:
        """Say what protects a pod whose eviction was decided; empty where nothing does."""
        rejection = self.first_rejection(finding.pod)
        return "" if rejection is None else rejection[1]

    def first_rejection(self, pod: Pod) -> Rejection | None:
        """Return what protects a pod, evictions under way left aside; None for one that passes."""
        if (outside := self._outside(pod)) is not None:
            return outside
        if self._passes_by_annotation(pod):
            return None
        found = (pod_filter.check(pod, self._view) for pod_filter in self._filters)
        return self._kept_by_annotation(pod) or next(filter(None, found), None)

    def rejections(self, pod: Pod) -> list[Rejection]:
        """Return the rejections of every filter, as upstream collects them."""
        found = (pod_filter.check(pod, self._view) for pod_filter in self._filters)
        return [rejection for rejection in found if rejection is not None]

    def evictable_from_s(self, pod: Pod) -> float:
        """Return since when the pod passes: -inf if it does, inf if only a change can alter that.

        Any other time, in seconds since the epoch, is when to evaluate the pod again.
        """
        if self._outside(pod) is not None:
            return PROTECTED
        if self._passes_by_annotation(pod):
            return EVICTABLE
        if self._kept_by_annotation(pod) is not None:
            return PROTECTED
        for pod_filter in self._filters:
            if pod_filter.check(pod, self._view) is not None:
                at_s = pod_filter.retry_at_s(pod)
                return PROTECTED if at_s is None else at_s
        return EVICTABLE

    def _outside(self, pod: Pod) -> Rejection | None:
        """Return the rejection of a pod on a node that the profile does not select."""
        return None if self._check_place is None else self._check_place(pod, self._view)

    def prefers_no_eviction(self, pod: Pod) -> bool:
        """Say whether the pod asks by its annotation to be evicted after others."""
        return self._rules.prefers_no_eviction(pod.annotations.prefer_no_eviction)

    def remark(self, finding: Finding) -> str:
        """Say which annotation lets a pod pass; empty where none does."""
        pod = finding.pod
        value = pod.annotations.evict
        if value is None or not self._passes_by_annotation(pod):
            return ""
        text = f'the annotation {EVICT}: "{value}" lets the pod pass every protection of the policy'
        if is_clear_evict_wish(value):
            return text
        return f"{text}; {value!r} is neither true nor false: write one of them"

    def _passes_by_annotation(self, pod: Pod) -> bool:
        return self._rules.evict_wish(pod.annotations.evict) is EvictWish.PASSES

    def _kept_by_annotation(self, pod: Pod) -> Rejection | None:
        if self._rules.evict_wish(pod.annotations.evict) is EvictWish.STAYS:
            return kept_by_annotation(pod, self._view)
        if self._mandatory and self.prefers_no_eviction(pod):
            message = "the pod's annotation asks for no eviction, and the policy obeys it"
            return PREFERS_NO_EVICTION, message
        return None

    def _check_in_flight(self, pod_filter: PodFilter, finding: Finding) -> Refuse | None:
        """Refuse a pod that others must stay for whose eviction is under way."""
        pod, in_flight = finding.pod, pod_filter.in_flight
        if in_flight is None or not (leaving := in_flight.pods(pod)):
            return None
        if (rejection := in_flight.check(pod, self._view, leaving)) is None:
            return None
        reason, message = rejection
        wakes = (*pod_filter.wakes(pod), *map(WakeOnEviction, leaving))
        return reason.refuse(finding, message, wakes)

    def wakes(self, pod: Pod) -> Iterator[WakeOn]:
        """Yield what may alter the answer for a pod, other than a change of the pod itself."""
        found = chain.from_iterable(each.wakes(pod) for each in self._filters_beyond_pod)
        if self._check_place is not None:
            found = chain(wake_on_node(pod), found)
        for wake in found:
            if not isinstance(wake, WakeOnPod):
                yield wake

    def _retry_at(self, pod_filter: PodFilter, pod: Pod, now: float) -> float | None:
        """Convert the wall-clock time at which a rejection ends to monotonic seconds."""
        retry_at_s = pod_filter.retry_at_s(pod)
        return None if retry_at_s is None else now + max(0.0, retry_at_s - self._view.now_s)


class MinReadyNodes:
    """Refuses everything unless two nodes are ready and selected, as upstream skips its cycle."""

    name = TOO_FEW_NODES.gate

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse while no pod could run on another node."""
        count = self._view.eligible_node_count
        if count >= MIN_NODES:
            return None
        nodes = format_count(count, "node", "is", "are")
        message = f"{nodes} ready and selected, and an eviction needs {MIN_NODES}"
        wakes = (WakeOnNodeAdded(), WakeOnPod(finding.pod.uid))
        return TOO_FEW_NODES.refuse(finding, message, wakes)


class NodeFitFilter:
    """Refuses a pod that fits no other node (evictor's setting) or no node (plugin's demand).

    Where the finding names target nodes, the pod must fit one of them instead.
    """

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
        """Refuse a pod that fits nowhere, until a change may have made it fit."""
        pod, fit = finding.pod, self._node_fit
        if not (self._evictor_requires or finding.needs_fit):
            return None
        if not fit.sync():
            return NODE_FIT_PENDING.defer(finding, "changed nodes are still being evaluated", now)
        if (targets := finding.targets) is not None:
            selector = self._selector if self._evictor_requires else EVERYTHING
            if fit.find_other_node(pod, selector, targets) is None:
                no_fit = fit.diagnose_other_nodes(pod, selector, targets)
                return _refuse(finding, NO_TARGET_NODE_FITS, no_fit)
            return None
        if finding.needs_fit and fit.find_any_node(pod) is None:
            return _refuse(finding, NO_NODE_FITS, fit.diagnose_any_node(pod))
        if self._evictor_requires and fit.find_other_node(pod, self._selector) is None:
            return _refuse(
                finding, NO_OTHER_NODE_FITS, fit.diagnose_other_nodes(pod, self._selector)
            )
        return None


def _refuse(finding: Finding, reason: GateReason, no_fit: NoFit) -> Refuse:
    return reason.refuse(finding, no_fit.message, no_fit.wake_on, no_fit.until)


class NamespaceFilter:
    """Refuses pods of namespaces without the labels that the policy asks for."""

    name = NAMESPACE_NOT_SELECTED.gate

    def __init__(self, selector: LabelSelector, view: ClusterView) -> None:
        self._selector = selector
        self._view = view

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse a pod whose namespace does not match, or does not exist."""
        pod = finding.pod
        if self.selects(pod):
            return None
        message = f"the policy's namespaceLabelSelector does not match namespace {pod.namespace}"
        wakes = (WakeOnNamespace(pod.namespace), WakeOnPod(pod.uid))
        return NAMESPACE_NOT_SELECTED.refuse(finding, message, wakes)

    def held_since(self, finding: Finding, now: float) -> str:
        """Say that the namespace of a pod matches no more; empty where it does."""
        refusal = self.check(finding, now)
        return "" if refusal is None else refusal.message

    def selects(self, pod: Pod) -> bool:
        """Say whether the pod's namespace exists and has the labels."""
        namespace = self._view.store(Namespace).get(pod.namespace)
        return namespace is not None and self._selector.matches(namespace.labels)


class DefaultEvictor:
    """One profile's evictor: `filters` is upstream's Filter, the others its PreEvictionFilter.

    `nodes` are those whose pods the profile evicts.
    """

    def __init__(
        self,
        args: DefaultEvictorArgs,
        view: ClusterView,
        node_fit: NodeFit,
        rules: EvictorRules = UPSTREAM_RULES,
        nodes: Selector = EVERYTHING,
    ) -> None:
        mandatory = args.no_eviction is NoEvictionPolicy.MANDATORY
        self.filters = EvictorFilters(
            pod_filters(args, rules),
            view,
            mandatory_no_eviction=mandatory,
            rules=rules,
            nodes=nodes,
        )
        self.node_fit_filter = NodeFitFilter(
            node_fit, args.node_selector, evictor_requires=args.node_fit
        )
        selector = args.namespace_label_selector
        self.namespace_filters = (
            () if selector is None or selector.is_empty else (NamespaceFilter(selector, view),)
        )
        self.node_selector = args.node_selector
        self._node_fit = node_fit
        self.requires_fit = args.node_fit

    def passes_pre_eviction(self, pod: Pod) -> bool:
        """Say whether some other node fits the pod and its namespace matches, where required."""
        if self.requires_fit and self._node_fit.find_other_node(pod, self.node_selector) is None:
            return False
        return all(each.selects(pod) for each in self.namespace_filters)


POD_TOO_LARGE: Final = GateReason(
    "LargePods",
    "PodTooLarge",
    "The pod has more tolerations, affinity terms, labels or the like than are evaluated; the "
    "message names them. What they say might keep the pod where it is.",
)


class LargePods:
    """Refuses the pods of which parts are not read, until they change."""

    name = POD_TOO_LARGE.gate

    def check(self, finding: Finding, now: float) -> Refuse | None:  # noqa: ARG002 -- as other gates
        """Return the refusal of a pod with a part that is too long."""
        pod = finding.pod
        if not pod.spec.unread:
            return None
        message = (
            f"too much to be evaluated: {pod.spec.unread}; give its template fewer or shorter"
            " entries there"
        )
        return POD_TOO_LARGE.refuse(finding, message, (WakeOnPod(pod.uid),))
