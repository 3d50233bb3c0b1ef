"""The setting `pace`: one word that sets the limits which the settings do not name.

What the settings name is meant: a preset fills in the rest, part by part, so `budgets: {cluster:
{burst: 5}}` keeps its burst and takes the rate of the preset. `normal` is what each field says of
its default.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar

from reactive_desched.api.args import Section
from reactive_desched.policy.settings.brakes import BrakeSettings, StormBrakeSettings
from reactive_desched.policy.settings.limits import (
    ClusterRateLimit,
    EndedRateLimit,
    EvictionRateLimits,
    NamespaceRateLimit,
    NodeRateLimit,
    OwnerRateLimit,
    PluginRateLimit,
    WarmUpSettings,
    ZoneRateLimit,
)
from reactive_desched.policy.settings.moves import MaxMovingSettings, MoveSettings

__all__ = ["NORMAL", "PACES", "Pace", "at_pace", "sections_at_pace"]

Pace = Literal["careful", "normal", "fast"]
NORMAL: Final[Pace] = "normal"
S = TypeVar("S", bound=Section)

PACES: Final[Mapping[Pace, Mapping[str, Section]]] = {
    "careful": {
        "budgets": EvictionRateLimits.model_construct(
            cluster=ClusterRateLimit.model_construct(evictions=10, burst=3),
            zone=ZoneRateLimit.model_construct(evictions=8, burst=3),
            node=NodeRateLimit.model_construct(evictions=3, burst=1),
            namespace=NamespaceRateLimit.model_construct(evictions=5, burst=2),
            owner=OwnerRateLimit.model_construct(evictions=3, burst=1),
            plugin=PluginRateLimit.model_construct(evictions=8, burst=3),
            ended=EndedRateLimit.model_construct(evictions=30, burst=5),
            warm_up=WarmUpSettings.model_construct(duration_s=900.0, from_percent=10.0),
        ),
        "moves": MoveSettings.model_construct(
            max_moving=MaxMovingSettings.model_construct(
                owner="5%", namespace=10, node=5, zone=10, cluster=20
            )
        ),
        "brakes": BrakeSettings.model_construct(
            storm=StormBrakeSettings.model_construct(pods=50, percent=5.0)
        ),
    },
    NORMAL: {},
    "fast": {
        "budgets": EvictionRateLimits.model_construct(
            cluster=ClusterRateLimit.model_construct(evictions=120, burst=40),
            zone=ZoneRateLimit.model_construct(evictions=80, burst=25),
            node=NodeRateLimit.model_construct(evictions=20, burst=6),
            namespace=NamespaceRateLimit.model_construct(evictions=60, burst=15),
            owner=OwnerRateLimit.model_construct(evictions=12, burst=3),
            plugin=PluginRateLimit.model_construct(evictions=120, burst=40),
            ended=EndedRateLimit.model_construct(evictions=300, burst=60),
            warm_up=WarmUpSettings.model_construct(duration_s=60.0, from_percent=50.0),
        ),
        "moves": MoveSettings.model_construct(
            max_moving=MaxMovingSettings.model_construct(
                owner="20%", namespace=60, node=20, zone=100, cluster=200
            )
        ),
        "brakes": BrakeSettings.model_construct(
            storm=StormBrakeSettings.model_construct(pods=300, percent=25.0)
        ),
    },
}
"""The sections of each preset; a field that is not given in one keeps its own default."""


def at_pace(settings: S, pace: Pace) -> S:
    """Return the settings with the preset of their pace where they name nothing."""
    sections = sections_at_pace(settings, pace)
    return settings.model_copy(update=sections) if sections else settings


def sections_at_pace(settings: Section, pace: Pace) -> Mapping[str, Section]:
    """Return each section that the pace changes, by its name in code."""
    return {name: _filled(getattr(settings, name), preset) for name, preset in PACES[pace].items()}


def _filled(written: S, preset: Section) -> S:
    """Fill in, from a preset, what a section does not name; what it names stays named."""
    values: dict[str, Any] = {name: getattr(written, name) for name in type(written).model_fields}
    for name in preset.model_fields_set:
        ours, theirs = values[name], getattr(preset, name)
        if name not in written.model_fields_set:
            values[name] = theirs
        elif isinstance(ours, Section) and isinstance(theirs, Section):
            values[name] = _filled(ours, theirs)
    named = set(written.model_fields_set)
    return type(written).model_construct(_fields_set=named, **values)
