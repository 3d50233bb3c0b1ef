"""A policy in the legacy format, field by field as it is written."""

from collections.abc import Mapping

from pydantic import Field

from reactive_desched.api.args import INT64_MAX, Count, Int32, Section
from reactive_desched.policy.detect_kind import DocumentKind
from reactive_desched.policy.document import (
    EvictionsInAll,
    EvictionsPerNamespace,
    EvictionsPerNode,
)

API_VERSION, _ = DocumentKind.LEGACY_POLICY.value

_ONE = "Read for {} alone."


class LegacyNamespaces(Section):
    """Exact namespace names; one of the two lists at most."""

    include: tuple[str, ...] = Field(default=(), description="Look only at these namespaces.")
    exclude: tuple[str, ...] = Field(default=(), description="Look at all but these namespaces.")


class LegacyRequirement(Section):
    """One requirement of a label selector."""

    key: str = Field(default="", description="The label.")
    operator: str = Field(default="", description="In, NotIn, Exists or DoesNotExist.")
    values: tuple[str, ...] = Field(default=(), description="Values for In and NotIn.")


class LegacySelector(Section):
    """A label selector; what it says is checked where it is used."""

    match_labels: Mapping[str, str] = Field(default={}, description="Labels and their values.")
    match_expressions: tuple[LegacyRequirement, ...] = Field(
        default=(), description="Further requirements."
    )


class LegacyUtilizationThresholds(Section):
    """Parameters of LowNodeUtilization and HighNodeUtilization."""

    thresholds: Mapping[str, float] = Field(
        default={}, description="Percent by resource below which a node is underutilized."
    )
    target_thresholds: Mapping[str, float] = Field(
        default={}, description="Percent by resource above which a node is overutilized."
    )
    use_deviation_thresholds: bool = Field(
        default=False, description="Take the thresholds as distances from the mean."
    )
    number_of_nodes: int = Field(
        default=0,
        ge=-INT64_MAX - 1,
        le=INT64_MAX,
        description="Act only with more underutilized nodes than this.",
    )


class LegacyTooManyRestarts(Section):
    """Parameters of RemovePodsHavingTooManyRestarts."""

    pod_restart_threshold: Int32 = Field(default=0, description="Evict from this many restarts on.")
    including_init_containers: bool = Field(default=False, description="Count those too.")


class LegacyPodLifeTime(Section):
    """Parameters of PodLifeTime."""

    max_pod_life_time_seconds: Count | None = Field(
        default=None, description="Evict pods older than this; required."
    )
    pod_status_phases: tuple[str, ...] = Field(
        default=(), description="The older name of states; both lists count."
    )
    states: tuple[str, ...] = Field(
        default=(), description="Only pods in one of these phases or waiting for these reasons."
    )


class LegacyRemoveDuplicates(Section):
    """Parameters of RemoveDuplicates."""

    exclude_owner_kinds: tuple[str, ...] = Field(
        default=(), description="Leave pods of these kinds of owners alone."
    )


class LegacyFailedPods(Section):
    """Parameters of RemoveFailedPods."""

    reasons: tuple[str, ...] = Field(default=(), description="Only pods that failed so.")
    including_init_containers: bool = Field(default=False, description="Look at those too.")
    exclude_owner_kinds: tuple[str, ...] = Field(
        default=(), description="Leave pods of these kinds of owners alone."
    )
    min_pod_lifetime_seconds: Count | None = Field(
        default=None, description="Leave younger pods alone; default 3600."
    )


class StrategyParameters(Section):
    """The parameters of every strategy; a strategy reads its own block and what is for all."""

    node_resource_utilization_thresholds: LegacyUtilizationThresholds | None = Field(
        default=None, description=_ONE.format("LowNodeUtilization and HighNodeUtilization")
    )
    node_affinity_type: tuple[str, ...] = Field(
        default=(), description=_ONE.format("RemovePodsViolatingNodeAffinity")
    )
    pods_having_too_many_restarts: LegacyTooManyRestarts | None = Field(
        default=None, description=_ONE.format("RemovePodsHavingTooManyRestarts")
    )
    pod_life_time: LegacyPodLifeTime | None = Field(
        default=None, description=_ONE.format("PodLifeTime")
    )
    remove_duplicates: LegacyRemoveDuplicates | None = Field(
        default=None, description=_ONE.format("RemoveDuplicates")
    )
    failed_pods: LegacyFailedPods | None = Field(
        default=None, description=_ONE.format("RemoveFailedPods")
    )
    include_soft_constraints: bool = Field(
        default=False, description=_ONE.format("RemovePodsViolatingTopologySpreadConstraint")
    )
    include_prefer_no_schedule: bool = Field(
        default=False, description=_ONE.format("RemovePodsViolatingNodeTaints")
    )
    excluded_taints: tuple[str, ...] = Field(
        default=(), description=_ONE.format("RemovePodsViolatingNodeTaints")
    )
    included_taints: tuple[str, ...] = Field(
        default=(), description=_ONE.format("RemovePodsViolatingNodeTaints")
    )
    namespaces: LegacyNamespaces | None = Field(
        default=None, description="The namespaces to look at; all when left out."
    )
    label_selector: LegacySelector | None = Field(
        default=None, description="Look only at pods with matching labels."
    )
    threshold_priority: Int32 | None = Field(
        default=None, description="Pods of this priority or above are protected."
    )
    threshold_priority_class_name: str = Field(
        default="", description="A PriorityClass whose value is the threshold."
    )
    node_fit: bool = Field(
        default=False, description="Evict only pods that fit on some other node."
    )


class LegacyStrategy(Section):
    """One strategy: whether it runs, and how."""

    enabled: bool = Field(default=False, description="Only what is enabled runs.")
    weight: int = Field(
        default=0, ge=-INT64_MAX - 1, le=INT64_MAX, description="Never had an effect."
    )
    params: StrategyParameters | None = Field(default=None, description="Its parameters.")


class LegacyPolicy(Section):
    """A DeschedulerPolicy of version descheduler/v1alpha1."""

    api_version: str = Field(default=API_VERSION, description=f"Always {API_VERSION}.")
    kind: str = Field(default="DeschedulerPolicy", description="Always DeschedulerPolicy.")
    strategies: Mapping[str, LegacyStrategy | None] = Field(
        default={}, description="What runs, by name."
    )
    node_selector: str = Field(
        default="", description="Only pods on nodes with these labels are judged."
    )
    max_no_of_pods_to_evict_per_node: EvictionsPerNode = None
    max_no_of_pods_to_evict_per_namespace: EvictionsPerNamespace = None
    max_no_of_pods_to_evict_total: EvictionsInAll = None
    evict_local_storage_pods: bool = Field(
        default=False, description="Evict pods with local storage too."
    )
    evict_daemon_set_pods: bool = Field(default=False, description="Evict pods of DaemonSets too.")
    evict_system_critical_pods: bool = Field(
        default=False, description="Evict pods of any priority."
    )
    evict_failed_bare_pods: bool = Field(
        default=False, description="Evict failed pods without an owner too."
    )
    ignore_pvc_pods: bool = Field(
        default=False, description="Protect pods with persistent volume claims."
    )
