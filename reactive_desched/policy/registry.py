"""Which plugins a policy may name: those passed in, the evictor, and those not built yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.hints import did_you_mean
from reactive_desched.policy.place import Place
from reactive_desched.policy.problems import Problem, quoted

DEFAULT_EVICTOR: Final = "DefaultEvictor"

POINTS: Final = ("presort", "sort", "deschedule", "balance", "filter", "preevictionfilter")
"""The extension points of a profile, as a policy spells them."""

READ_POINTS: Final = ("deschedule", "balance", "filter", "preevictionfilter")
"""Those that have an effect; the others are accepted and not read, as upstream."""

_DESCHEDULE: Final = frozenset(("deschedule",))
_BALANCE: Final = frozenset(("balance",))
_FILTERS: Final = frozenset(("filter", "preevictionfilter"))


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """What a policy needs to know of a plugin: its arguments, and where it may be enabled."""

    args: type[BaseModel]
    points: frozenset[str]


Registry = Mapping[str, PluginSpec]

NOT_BUILT_YET: Final[Mapping[str, frozenset[str]]] = {
    "PodLifeTime": _DESCHEDULE,
    "RemoveFailedPods": _DESCHEDULE,
    "RemovePodsHavingTooManyRestarts": _DESCHEDULE,
    "RemovePodsViolatingInterPodAntiAffinity": _DESCHEDULE,
    "RemoveDuplicates": _BALANCE,
    "RemovePodsViolatingTopologySpreadConstraint": _BALANCE,
    "LowNodeUtilization": _BALANCE,
    "HighNodeUtilization": _BALANCE,
    "LowNodeLoad": _BALANCE,
}
"""Plugins people use that this version lacks, with their points; a registry overrides it."""


def with_evictor(registry: Registry) -> Registry:
    """Add the evictor, which is in every profile."""
    return {**registry, DEFAULT_EVICTOR: PluginSpec(DefaultEvictorArgs, _FILTERS)}


def points_of(name: str, registry: Registry) -> frozenset[str] | None:
    """Give the extension points of a plugin, built or not; None for an unknown one."""
    if (spec := registry.get(name)) is not None:
        return spec.points
    return NOT_BUILT_YET.get(name)


def names(registry: Registry) -> frozenset[str]:
    """Give every plugin name worth offering to someone who mistyped one."""
    return frozenset(registry) | frozenset(NOT_BUILT_YET)


def naming_problem(name: str, at: Place, registry: Registry) -> Problem | None:
    """Say why a policy cannot name this plugin, or None when it can."""
    if name in registry:
        return None
    if name in NOT_BUILT_YET:
        hint = "take it out of this policy until a version has it"
        return at.problem(f"{name} is known, but not built yet in this version", hint)
    return at.problem(f"there is no plugin {quoted(name)}", did_you_mean(name, names(registry)))
