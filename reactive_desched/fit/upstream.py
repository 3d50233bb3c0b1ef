"""Answers node fit as the SIG descheduler does, and defines the answers of both modes.

The other mode, in `fit.scheduler`, decides as the kube-scheduler.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar, Final, Protocol

from msgspec import Struct

from reactive_desched.api.index import Index, NodeInfo
from reactive_desched.fit.filters import Diagnosis
from reactive_desched.fit.reservations import CapacityReservation
from reactive_desched.model.findings import Targets
from reactive_desched.model.labels import Selector
from reactive_desched.model.node_affinity import satisfies_required
from reactive_desched.model.objects import Node, Pod, PodAffinityTerm, PodSpec
from reactive_desched.model.resources import PODS, ResourceList
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES, SchedulerProfiles
from reactive_desched.model.scheduling import FitReason
from reactive_desched.model.taints import HARD_EFFECTS, untolerated
from reactive_desched.model.wakes import WakeOn, WakeOnCapacity, WakeOnPod
from reactive_desched.state.cluster import ClusterView

SCHEDULER: Final = "scheduler"
UPSTREAM: Final = "upstream"
"""The two modes, as settings name them."""

NODE_NOT_FOUND: Final = FitReason("NodeNotFound", "node is not known")

MAX_UNFIT_TEMPLATES: Final = 10_000
"""How many negative answers are kept; at the bound all are dropped."""


class NoFit(Struct, frozen=True):
    """The pod fits no node: why not, and what could change that.

    `until` is when to try again regardless, in monotonic seconds.
    """

    message: str
    diagnosis: Diagnosis
    wake_on: tuple[WakeOn, ...]
    until: float | None = None


class NodeFit(Protocol):
    """Answers whether another node fits a pod, as strictly as one of the two modes does."""

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that this mode reads."""
        ...

    @property
    def scheduler_profiles(self) -> SchedulerProfiles:
        """The profiles of the schedulers that it goes by."""
        ...

    def sync(self) -> bool:
        """Follow the cluster, for a moment at most; say whether everything was followed."""
        ...

    def find_other_node(
        self, pod: Pod, selector: Selector, targets: Targets | None = None
    ) -> str | None:
        """Name a ready node of the selection, other than the pod's own, that fits it.

        `targets` narrows the selection to nodes of these names in the kube-scheduler's mode.
        """
        ...

    def find_any_node(self, pod: Pod) -> str | None:
        """Name any eligible node that fits the pod, its own included."""
        ...

    def find_node_among(self, pod: Pod, nodes: Collection[str]) -> str | None:
        """Name one of these nodes, other than the pod's own, that fits it."""
        ...

    def diagnose_among(self, pod: Pod, nodes: Collection[str]) -> Diagnosis:
        """Count why some of these nodes do not fit the pod; nothing is remembered."""
        ...

    def diagnose_other_nodes(
        self, pod: Pod, selector: Selector, targets: Targets | None = None
    ) -> NoFit:
        """Explain why `find_other_node` found nothing; call it right after."""
        ...

    def diagnose_any_node(self, pod: Pod) -> NoFit:
        """Explain why `find_any_node` found nothing; call it right after."""
        ...

    def reserve(self, pod: Pod) -> None:
        """Note that the pod is evicted: its replacement needs the node last found for it."""
        ...

    def reserved_by_node(self) -> Mapping[str, ResourceList]:
        """Sum what is reserved for replacements, by node."""
        ...

    def reservations(self) -> Iterable[CapacityReservation]:
        """Return what is reserved for replacements, each by its pod and node."""
        ...

    def awaiting_replacement(self, owner_uid: str) -> Iterable[Pod]:
        """Return the evicted pods of a controller for whose replacements capacity is reserved."""
        ...

    def expected_replacements(self, namespace: str) -> Iterable[tuple[Pod, str]]:
        """Return a namespace's evicted pods, each with the node reserved for its replacement."""
        ...


class UpstreamNodeFit:
    """The SIG descheduler's node fit over the current cluster, node by node until one fits.

    A negative answer is kept per pod template until any node has more capacity, so that a thousand
    siblings cost one search. Nothing is reserved.
    """

    indexes: ClassVar[tuple[type[Index], ...]] = ()

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._unfit_templates: dict[tuple[int, str, str], tuple[PodSpec, Diagnosis]] = {}
        self._last_diagnosis = Diagnosis(0, Counter())

    @property
    def scheduler_profiles(self) -> SchedulerProfiles:
        """The default plugins: the SIG descheduler reads no configuration of a scheduler."""
        return DEFAULT_PROFILES

    def sync(self) -> bool:
        """Return True: every search reads the current cluster."""
        return True

    def find_other_node(
        self, pod: Pod, selector: Selector, _targets: Targets | None = None
    ) -> str | None:
        """Name a ready, selected node other than the pod's own that fits it, target or not."""
        others = (r for r in self._view.ready_node_infos(selector) if r.name != pod.node)
        return self._check_topics(pod, str(selector), others)

    def find_any_node(self, pod: Pod) -> str | None:
        """Name any eligible node that fits the pod, its own included."""
        return self._check_topics(pod, "*", self._view.eligible_node_infos())

    def find_node_among(self, pod: Pod, nodes: Collection[str]) -> str | None:
        """Name one of these nodes, other than the pod's own, that fits it."""
        infos = (self._view.node_info(name) for name in nodes if name != pod.node)
        fitting = (info.name for info in infos if info is not None and self.fits(pod, info))
        return next(fitting, None)

    def diagnose_among(self, pod: Pod, nodes: Collection[str]) -> Diagnosis:
        """Count why some of these nodes do not fit the pod."""
        infos = (self._view.node_info(name) for name in nodes if name != pod.node)
        reasons = [self._rejection(pod, info) for info in infos if info is not None]
        counted = Counter(reason for reason in reasons if reason is not None)
        return Diagnosis(len(reasons), counted, len(reasons) - counted.total())

    def diagnose_other_nodes(self, pod: Pod, _: Selector, _targets: Targets | None = None) -> NoFit:
        """Return why the other nodes reject the pod; freed capacity of any node may help."""
        return self._no_fit(f"no other node fits the pod: {self._last_diagnosis}", pod)

    def diagnose_any_node(self, pod: Pod) -> NoFit:
        """Return why every node rejects the pod; freed capacity of any node may help."""
        return self._no_fit(f"no node fits the pod: {self._last_diagnosis}", pod)

    def _no_fit(self, message: str, pod: Pod) -> NoFit:
        return NoFit(message, self._last_diagnosis, (WakeOnCapacity(), WakeOnPod(pod.uid)))

    def reserve(self, _: Pod) -> None:
        """Forget which templates fit no node: the evicted pod frees capacity."""
        self._unfit_templates.clear()

    def reserved_by_node(self) -> Mapping[str, ResourceList]:
        """Return nothing: this mode reserves nothing."""
        return {}

    def reservations(self) -> Iterable[CapacityReservation]:
        """Return nothing: nothing is reserved."""
        return ()

    def awaiting_replacement(self, _owner_uid: str) -> Iterable[Pod]:
        """Return nothing: nothing is reserved."""
        return ()

    def expected_replacements(self, _: str) -> Iterable[tuple[Pod, str]]:
        """Return nothing: nothing is reserved."""
        return ()

    def fits(self, pod: Pod, node_info: NodeInfo) -> bool:
        """Say whether the pod fits one node."""
        return self._rejection(pod, node_info) is None

    def _rejection(self, pod: Pod, node_info: NodeInfo) -> FitReason | None:
        if node_info.node is None:
            return NODE_NOT_FOUND
        return fit_error(pod, node_info.node, node_info.requested, node_info.active.values())

    def _check_topics(self, pod: Pod, scope: str, node_infos: Iterable[NodeInfo]) -> str | None:
        key = (id(pod.spec), scope, pod.node)
        # Anti-affinity depends on more than the template, so only other pods share an answer.
        shareable = not pod.spec.anti_affinity
        if (
            shareable
            and (known := self._unfit_templates.get(key)) is not None
            and known[0] is pod.spec
        ):
            self._last_diagnosis = known[1]
            return None
        reasons: Counter[FitReason] = Counter()
        for room in node_infos:
            if (rejection := self._rejection(pod, room)) is None:
                return room.name
            reasons[rejection] += 1
        self._last_diagnosis = Diagnosis(reasons.total(), reasons)
        if shareable:
            if len(self._unfit_templates) >= MAX_UNFIT_TEMPLATES:
                self._unfit_templates.clear()
            self._unfit_templates[key] = pod.spec, self._last_diagnosis
        return None


NODE_UNSCHEDULABLE: Final = FitReason("NodeUnschedulable", "node is not schedulable")
NODE_SELECTOR_MISMATCH: Final = FitReason(
    "NodeAffinityMismatch", "pod node selector does not match the node label"
)
TAINTS_NOT_TOLERATED: Final = FitReason(
    "UntoleratedTaint", "pod does not tolerate taints on the node"
)
ANTI_AFFINITY_MATCHED: Final = FitReason(
    "PodAntiAffinityViolated", "pod matches inter-pod anti-affinity rule of other pod on node"
)
NODE_SHORT_OF_RESOURCE: Final = FitReason("InsufficientResource", "insufficient {}")
NODE_FULL: Final = FitReason("TooManyPods", "insufficient pods")


def fit_error(
    pod: Pod, node: Node, requested: Mapping[str, int], pods_on_node: Iterable[Pod]
) -> FitReason | None:
    """Return why the pod does not fit the node, or None when it does.

    As pkg/descheduler/node/node.go: cheap tests first, the first failure is the reason. Pod
    affinity, topology spread, volumes and host ports are not looked at.

    `requested` is what the node's active pods request, with their number under "pods";
    `pods_on_node` are the active pods on the node.
    """
    if node.unschedulable:
        return NODE_UNSCHEDULABLE
    spec = pod.spec
    if not satisfies_required(spec.node_selector, spec.node_affinity, node.name, node.labels):
        return NODE_SELECTOR_MISMATCH
    hard = (taint for taint in node.taints if taint.effect in HARD_EFFECTS)
    if next(untolerated(spec.tolerations, hard), None) is not None:
        return TAINTS_NOT_TOLERATED
    if spec.anti_affinity and _violates_anti_affinity(pod, node, pods_on_node):
        return ANTI_AFFINITY_MATCHED
    return None if pod.node == node.name else _resource_error(pod, node, requested)


def _violates_anti_affinity(pod: Pod, node: Node, pods_on_node: Iterable[Pod]) -> bool:
    terms = [term for term in pod.spec.anti_affinity if term.topology_key in node.labels]
    return bool(terms) and any(
        _conflicts(pod, term, other) for other in pods_on_node for term in terms
    )


def _conflicts(pod: Pod, term: PodAffinityTerm, other: Pod) -> bool:
    """Compare by name, as upstream does, although names repeat across namespaces."""
    return (
        other.name != pod.name
        and other.namespace in (term.namespaces or (pod.namespace,))
        and term.label_selector is not None
        and term.label_selector.matches(other.labels)
    )


def _resource_error(pod: Pod, node: Node, requested: Mapping[str, int]) -> FitReason | None:
    for resource, wanted in pod.spec.requests.items():
        if wanted > node.allocatable.get(resource, 0) - requested.get(resource, 0):
            if wanted == 0 and resource not in node.allocatable:
                continue
            return NODE_SHORT_OF_RESOURCE.about(resource)
    if node.allocatable.get(PODS, 0) - requested.get(PODS, 0) < 1:
        return NODE_FULL
    return None
