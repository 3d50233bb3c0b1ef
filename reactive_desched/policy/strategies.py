"""The strategies of the legacy format, and which plugin argument each parameter became."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

Below = tuple[str, ...]
"""A path below the params of a strategy."""

NODE_FIT: Final[Below] = ("nodeFit",)
THRESHOLDS: Final[Mapping[str, Below]] = {
    "value": ("thresholdPriority",),
    "name": ("thresholdPriorityClassName",),
}
SOFT_CONSTRAINTS: Final[Below] = ("includeSoftConstraints",)
STATES: Final[tuple[Below, ...]] = (("podLifeTime", "podStatusPhases"), ("podLifeTime", "states"))
"""The two lists that make up the states of PodLifeTime, in order."""

EVICTOR_FLAGS: Final = (
    "evictLocalStoragePods",
    "evictDaemonSetPods",
    "evictSystemCriticalPods",
    "evictFailedBarePods",
    "ignorePvcPods",
)
"""What at the top of a policy says which pods are protected, for every strategy."""

TOP: Final = (
    "nodeSelector",
    "maxNoOfPodsToEvictPerNode",
    "maxNoOfPodsToEvictPerNamespace",
    "maxNoOfPodsToEvictTotal",
)
"""What at the top of a policy is the same in both formats."""

_USE: Final = "nodeResourceUtilizationThresholds"
_NAMESPACES: Final = {"namespaces": ("namespaces",)}
_EVICTABLE: Final = {"evictableNamespaces": ("namespaces",)}
_SCOPE: Final = {**_NAMESPACES, "labelSelector": ("labelSelector",)}


@dataclass(frozen=True, slots=True)
class Strategy:
    """What became of a strategy: the plugin's extension point, and where its arguments come from.

    `copies` gives, for each argument that is a parameter unchanged, the path of that parameter;
    `makes` are parameters that become something else.
    """

    point: str
    copies: Mapping[str, Below]
    makes: tuple[Below, ...] = ()
    has_node_fit: bool = True

    def reads(self, path: Below) -> bool:
        """Say whether the parameter at a path, or a part of it, has an effect."""
        fit = (NODE_FIT,) if self.has_node_fit else ()
        read = (*self.copies.values(), *self.makes, *THRESHOLDS.values(), *fit)
        return any(path == each[: len(path)] or each == path[: len(each)] for each in read)


def _block(name: str, *fields: str) -> dict[str, Below]:
    """Give the paths of arguments that stood in a block of their strategy."""
    return {field: (name, field) for field in fields}


def _direct(*fields: str) -> dict[str, Below]:
    """Give the paths of arguments that stood directly in params."""
    return {field: (field,) for field in fields}


STRATEGIES: Final[Mapping[str, Strategy]] = {
    "RemovePodsViolatingInterPodAntiAffinity": Strategy("deschedule", _SCOPE),
    "RemovePodsViolatingNodeAffinity": Strategy(
        "deschedule", {**_direct("nodeAffinityType"), **_SCOPE}
    ),
    "RemovePodsViolatingNodeTaints": Strategy(
        "deschedule",
        {**_direct("excludedTaints", "includedTaints", "includePreferNoSchedule"), **_SCOPE},
    ),
    "RemovePodsHavingTooManyRestarts": Strategy(
        "deschedule",
        {
            **_block("podsHavingTooManyRestarts", "podRestartThreshold", "includingInitContainers"),
            **_SCOPE,
        },
    ),
    "PodLifeTime": Strategy(
        "deschedule",
        {**_block("podLifeTime", "maxPodLifeTimeSeconds"), **_SCOPE},
        makes=STATES,
        has_node_fit=False,
    ),
    "RemoveFailedPods": Strategy(
        "deschedule",
        {
            **_block(
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
        "balance", {**_block("removeDuplicates", "excludeOwnerKinds"), **_NAMESPACES}
    ),
    "RemovePodsViolatingTopologySpreadConstraint": Strategy(
        "balance", _SCOPE, makes=(SOFT_CONSTRAINTS,)
    ),
    "LowNodeUtilization": Strategy(
        "balance",
        {
            **_block(
                _USE, "thresholds", "targetThresholds", "useDeviationThresholds", "numberOfNodes"
            ),
            **_EVICTABLE,
        },
    ),
    "HighNodeUtilization": Strategy(
        "balance", {**_block(_USE, "thresholds", "numberOfNodes"), **_EVICTABLE}
    ),
}
