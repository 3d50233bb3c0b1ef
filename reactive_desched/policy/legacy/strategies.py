"""The strategies of the legacy format, and which plugin argument each parameter became."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ParamPath = tuple[str, ...]
"""A path below the params of a strategy."""

NODE_FIT: Final[ParamPath] = ("nodeFit",)
THRESHOLDS: Final[Mapping[str, ParamPath]] = {
    "value": ("thresholdPriority",),
    "name": ("thresholdPriorityClassName",),
}
SOFT_CONSTRAINTS: Final[ParamPath] = ("includeSoftConstraints",)
STATES: Final[tuple[ParamPath, ...]] = (
    ("podLifeTime", "podStatusPhases"),
    ("podLifeTime", "states"),
)
"""The two lists that make up the states of PodLifeTime, in order."""

EVICTOR_FLAGS: Final = (
    "evictLocalStoragePods",
    "evictDaemonSetPods",
    "evictSystemCriticalPods",
    "evictFailedBarePods",
    "ignorePvcPods",
)
"""What at the top of a policy says which pods are protected, for every strategy."""

TOP_LEVEL_FIELDS: Final = (
    "nodeSelector",
    "maxNoOfPodsToEvictPerNode",
    "maxNoOfPodsToEvictPerNamespace",
    "maxNoOfPodsToEvictTotal",
)
"""What at the top of a policy is the same in both formats."""

_UTILIZATION_BLOCK: Final = "nodeResourceUtilizationThresholds"
_NAMESPACES: Final = {"namespaces": ("namespaces",)}
_EVICTABLE: Final = {"evictableNamespaces": ("namespaces",)}
_SCOPE: Final = {**_NAMESPACES, "labelSelector": ("labelSelector",)}


@dataclass(frozen=True, slots=True)
class Strategy:
    """A v1alpha1 strategy as a plugin: its extension point, and the source of its arguments.

    `copied_params` gives, for each argument that is a parameter unchanged, the path of that
    parameter; `derived_params` are parameters that become something else.
    """

    point: str
    copied_params: Mapping[str, ParamPath]
    derived_params: tuple[ParamPath, ...] = ()
    has_node_fit: bool = True

    def reads(self, path: ParamPath) -> bool:
        """Say whether the parameter at a path, or a part of it, has an effect."""
        fit = (NODE_FIT,) if self.has_node_fit else ()
        read = (*self.copied_params.values(), *self.derived_params, *THRESHOLDS.values(), *fit)
        return any(path == each[: len(path)] or each == path[: len(each)] for each in read)


def _block_params(name: str, *fields: str) -> dict[str, ParamPath]:
    """Return the paths of arguments that stood in a block of their strategy."""
    return {field: (name, field) for field in fields}


def _direct_params(*fields: str) -> dict[str, ParamPath]:
    """Return the paths of arguments that stood directly in params."""
    return {field: (field,) for field in fields}


STRATEGIES: Final[Mapping[str, Strategy]] = {
    "RemovePodsViolatingInterPodAntiAffinity": Strategy("deschedule", _SCOPE),
    "RemovePodsViolatingNodeAffinity": Strategy(
        "deschedule", {**_direct_params("nodeAffinityType"), **_SCOPE}
    ),
    "RemovePodsViolatingNodeTaints": Strategy(
        "deschedule",
        {**_direct_params("excludedTaints", "includedTaints", "includePreferNoSchedule"), **_SCOPE},
    ),
    "RemovePodsHavingTooManyRestarts": Strategy(
        "deschedule",
        {
            **_block_params(
                "podsHavingTooManyRestarts", "podRestartThreshold", "includingInitContainers"
            ),
            **_SCOPE,
        },
    ),
    "PodLifeTime": Strategy(
        "deschedule",
        {**_block_params("podLifeTime", "maxPodLifeTimeSeconds"), **_SCOPE},
        derived_params=STATES,
        has_node_fit=False,
    ),
    "RemoveFailedPods": Strategy(
        "deschedule",
        {
            **_block_params(
                "failedPods",
                "reasons",
                "includingInitContainers",
                "excludeOwnerKinds",
                "minPodLifetimeSeconds",
            ),
            **_SCOPE,
        },
    ),
    "RemoveDuplicates": Strategy(
        "balance", {**_block_params("removeDuplicates", "excludeOwnerKinds"), **_NAMESPACES}
    ),
    "RemovePodsViolatingTopologySpreadConstraint": Strategy(
        "balance", _SCOPE, derived_params=(SOFT_CONSTRAINTS,)
    ),
    "LowNodeUtilization": Strategy(
        "balance",
        {
            **_block_params(
                _UTILIZATION_BLOCK,
                "thresholds",
                "targetThresholds",
                "useDeviationThresholds",
                "numberOfNodes",
            ),
            **_EVICTABLE,
        },
    ),
    "HighNodeUtilization": Strategy(
        "balance",
        {**_block_params(_UTILIZATION_BLOCK, "thresholds", "numberOfNodes"), **_EVICTABLE},
    ),
}
