"""The profiles of kube-schedulers: the filters that each runs, and their arguments.

A profile is had by the `schedulerName` of a pod. Node fit is built from the profiles.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from reactive_desched.model.node_affinity import NodeSelector, satisfies_required
from reactive_desched.model.node_marks import is_being_emptied
from reactive_desched.model.node_scores import DEFAULT_SCORES, ScoreRules
from reactive_desched.model.objects import (
    DEFAULT_SCHEDULER,
    Node,
    PodSpec,
    TopologySpreadConstraint,
)
from reactive_desched.model.resources import ResourceList
from reactive_desched.model.scheduling import (
    NODE_AFFINITY_MISMATCH,
    NODE_BEING_EMPTIED,
    UNSCHEDULABLE,
    UNTOLERATED_TAINTS,
    FitReason,
    tolerates_all,
    tolerates_cordon,
)

NODE_UNSCHEDULABLE: Final = "NodeUnschedulable"
TAINT_TOLERATION: Final = "TaintToleration"
NODE_AFFINITY: Final = "NodeAffinity"
NODE_PORTS: Final = "NodePorts"
NODE_RESOURCES_FIT: Final = "NodeResourcesFit"
NODE_DECLARED_FEATURES: Final = "NodeDeclaredFeatures"
VOLUME_RESTRICTIONS: Final = "VolumeRestrictions"
NODE_VOLUME_LIMITS: Final = "NodeVolumeLimits"
VOLUME_BINDING: Final = "VolumeBinding"
VOLUME_ZONE: Final = "VolumeZone"
POD_TOPOLOGY_SPREAD: Final = "PodTopologySpread"
INTER_POD_AFFINITY: Final = "InterPodAffinity"
DYNAMIC_RESOURCES: Final = "DynamicResources"

FILTERS: Final = frozenset(
    {
        NODE_UNSCHEDULABLE,
        TAINT_TOLERATION,
        NODE_AFFINITY,
        NODE_PORTS,
        NODE_RESOURCES_FIT,
        NODE_DECLARED_FEATURES,
        VOLUME_RESTRICTIONS,
        NODE_VOLUME_LIMITS,
        VOLUME_BINDING,
        VOLUME_ZONE,
        POD_TOPOLOGY_SPREAD,
        INTER_POD_AFFINITY,
        DYNAMIC_RESOURCES,
    }
)
"""The filter plugins that node fit has; the kube-scheduler's default plugins enable all of them."""

UNKNOWN_SCHEDULER: Final = FitReason(
    "UnknownScheduler",
    "node(s) were not judged: scheduler {} has no profile in scheduler.config",
)
"""A reason of ours: nothing says what the pod's scheduler makes of any node."""

UNREAD_CONFIGURATION: Final = FitReason(
    "UnreadConfiguration", "node(s) were not judged: {} has not been read"
)
"""A reason of ours: what has not been read may have the profile of the pod's scheduler."""

_NATIVE_DOMAIN: Final = "kubernetes.io/"


class SchedulerProfile(Struct, frozen=True):
    """The filters of one scheduler name, and what their arguments say.

    `added_affinity` is what a node must match beside the pod's own affinity. NodeResourcesFit takes
    no notice of `ignored_resources`, nor of extended resources whose names begin with one of
    `ignored_groups`. `not_known` may reject nodes as well, and node fit has no rule of it.
    Without `scores`, because of `unknown_scores`, nothing is said of the node that is taken first.
    `default_constraints` hold for pods that declare no spread constraint, and have no selectors of
    their own.
    """

    name: str = DEFAULT_SCHEDULER
    filters: frozenset[str] = FILTERS
    added_affinity: NodeSelector | None = None
    ignored_resources: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()
    not_known: tuple[str, ...] = ()
    scores: ScoreRules | None = DEFAULT_SCORES
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    unknown_scores: tuple[str, ...] = ()

    def requests(self, spec: PodSpec) -> ResourceList:
        """Return the requests of a pod that NodeResourcesFit looks at."""
        if not (self.ignored_resources or self.ignored_groups):
            return spec.requests
        return {name: n for name, n in spec.requests.items() if not self._ignores(name)}

    def statically_unfit(self, spec: PodSpec, node: Node) -> FitReason | None:
        """Return why a node rejects a pod whatever pods run there, or None when it does not."""
        filters, found = self.filters, None
        if is_being_emptied(node):
            found = NODE_BEING_EMPTIED
        elif (
            node.unschedulable
            and NODE_UNSCHEDULABLE in filters
            and not tolerates_cordon(spec.tolerations)
        ):
            found = UNSCHEDULABLE
        elif TAINT_TOLERATION in filters and not tolerates_all(spec.tolerations, node.taints):
            found = UNTOLERATED_TAINTS
        elif NODE_AFFINITY in filters and not self._matches(spec, node):
            found = NODE_AFFINITY_MISMATCH
        return found

    def _matches(self, spec: PodSpec, node: Node) -> bool:
        added = self.added_affinity
        if added is not None and not added.matches(node.name, node.labels):
            return False
        return satisfies_required(spec.node_selector, spec.node_affinity, node.name, node.labels)

    def _ignores(self, resource: str) -> bool:
        if not _is_extended(resource):
            return False
        return (
            resource in self.ignored_resources or resource.partition("/")[0] in self.ignored_groups
        )


def _is_extended(resource: str) -> bool:
    """Say whether a resource is one that Kubernetes itself does not define."""
    group, slash, _ = resource.partition("/")
    return bool(slash) and _NATIVE_DOMAIN not in f"{group}/"


class SchedulerProfiles(Struct, frozen=True):
    """The profiles by scheduler name.

    The pods of any other scheduler are judged as the default plugins do, unless it `holds_unknown`:
    then no node fits them. So it is as long as some configuration is `unread`, which names it.
    Unless it `watches_devices`, DynamicResources rejects no node.
    """

    by_name: Mapping[str, SchedulerProfile] = {}
    holds_unknown: bool = False
    watches_devices: bool = False
    unread: str = ""

    def of(self, spec: PodSpec) -> SchedulerProfile:
        """Return the profile by which a pod is judged."""
        return self.by_name.get(spec.scheduler_name, _DEFAULT)

    def judges_devices(self, spec: PodSpec) -> bool:
        """Say whether nodes are judged by the claims of such a pod, if it has any."""
        return self.watches_devices and DYNAMIC_RESOURCES in self.of(spec).filters

    def holds(self, spec: PodSpec) -> FitReason | None:
        """Say why no node fits a pod because nothing is known of its scheduler; None: it is."""
        name = spec.scheduler_name
        if self.unread:
            return None if name in self.by_name else UNREAD_CONFIGURATION.about(self.unread)
        if not self.holds_unknown or name in (self.by_name or (DEFAULT_SCHEDULER,)):
            return None
        return UNKNOWN_SCHEDULER.about(name)

    def scores_of(self, scheduler: str) -> ScoreRules | None:
        """Return the scores by which a scheduler chooses a node; None: not known, or no profile."""
        profile = self.by_name.get(scheduler)
        return None if profile is None else profile.scores

    def unknown_scores(self, spec: PodSpec) -> str:
        """Say why the scores are not known by which a pod's scheduler chooses a node; empty: not.

        Of a scheduler without a profile nothing is known but of the default one.
        """
        if (found := self.by_name.get(spec.scheduler_name)) is not None:
            return ", ".join(found.unknown_scores)
        if self.unread:
            return f"{self.unread} has not been read"
        is_default = spec.scheduler_name == DEFAULT_SCHEDULER
        return "" if is_default else f"scheduler {spec.scheduler_name} has no profile"

    def scores(self) -> Iterator[ScoreRules]:
        """Yield the scores of all profiles that are known."""
        for profile in self.by_name.values():
            if profile.scores is not None:
                yield profile.scores

    def describe(self, spec: PodSpec) -> str:
        """Name the profile by which a pod is judged; empty where there is none to name."""
        if not self.by_name or self.holds(spec):
            return ""
        if (found := self.by_name.get(spec.scheduler_name)) is not None:
            unknown = f"; not known: {', '.join(found.not_known)}" if found.not_known else ""
            return f"scheduler profile {spec.scheduler_name}{unknown}"
        return f"default plugins: scheduler {spec.scheduler_name} has no profile"


DEFAULT_PROFILES: Final = SchedulerProfiles()
"""No scheduler is configured: the pods of all are judged as the default plugins do."""

_DEFAULT: Final = SchedulerProfile()
