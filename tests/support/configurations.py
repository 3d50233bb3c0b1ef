"""Configurations in few words, for a controller or a sweep without files."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.fit.upstream import SCHEDULER
from reactive_desched.ledger.eviction import SCOPES
from reactive_desched.model.labels import EVERYTHING, Selector
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin, Policy, PolicyEvictionLimits, Profile
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.policy.settings.controller_settings import EvictionSettings, RetrySettings
from reactive_desched.policy.settings.debounce import (
    DebounceSettings,
    FlappingSettings,
    PluginDebounceSettings,
)
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.policy.settings.limits import EvictionRateLimits, RateLimitSettings
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.policy.settings.moves import MaxMovingSettings, MoveSettings
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.primitives.token_bucket import TokenRate

__all__ = [
    "PROMPT",
    "UNGUARDED",
    "UNLIMITED_MOVES",
    "make_configuration",
    "make_policy",
    "make_profile_of",
    "make_rate_limits",
]

AT_ONCE = DebounceConfig(0, 0)
UNGUARDED = GuardSettings(
    cordoned_nodes="drain",
    scaled_down_nodes="drain",
    maintenance_nodes="drain",
    pressure_nodes="drain",
    unready_nodes="drain",
    starting_nodes="drain",
    agent_nodes="drain",
    disabled=tuple(GuardName),
)
PROMPT = GuardSettings(disabled=(GuardName.STANDING_TIME,))
"""The guards as they are by default, but that nothing needs to stand for a time."""
NO_BRAKES = BrakeSettings(zones=None, storm=None, pending=None)
UNLIMITED_MOVES: Final = MoveSettings(
    max_moving=MaxMovingSettings(owner=None, namespace=None, node=None, zone=None, cluster=None),
    cooldown_s=0.0,
    node_cooldown_s=0.0,
    futile_backoff_s=0.0,
)
"""Any number of pods may be moving, and any move may be repeated at once."""


def make_profile_of(
    name: str, plugins: tuple[AnyPlugin, ...], evictor: DefaultEvictorArgs | None = None
) -> Profile:
    """Build a profile that enables these plugins, each at the extension point of its kind."""
    names: dict[bool, list[str]] = {True: [], False: []}
    for plugin in plugins:
        names[isinstance(plugin, BalancePlugin)].append(plugin.name)
    return Profile(
        name,
        deschedule=tuple(names[False]),
        balance=tuple(names[True]),
        plugins=plugins,
        evictor=evictor or DefaultEvictorArgs(),
    )


def make_policy(
    profiles: tuple[Profile, ...],
    node_selector: Selector = EVERYTHING,
    limits: Mapping[str, int | None] | None = None,
    grace_period_s: int | None = None,
) -> Policy:
    """Build a policy; the limits are by scope, those left out are none."""
    of = {"node": None, "namespace": None, "cluster": None, **(limits or {})}
    return Policy(
        profiles,
        node_selector=node_selector,
        limits=PolicyEvictionLimits(of["node"], of["namespace"], of["cluster"]),
        grace_period_s=grace_period_s,
    )


def make_configuration(  # noqa: PLR0913 -- each is one part of it
    profiles: tuple[Profile, ...],
    node_selector: Selector = EVERYTHING,
    rates: Mapping[str, TokenRate | None] | None = None,
    limits: Mapping[str, int | None] | None = None,
    debounce: DebounceConfig | Mapping[str, DebounceConfig] = AT_ONCE,
    *,
    retry: RetrySettings | None = None,
    max_concurrent: int = 50,
    grace_period_s: int | None = None,
    node_fit: str = SCHEDULER,
    flapping: FlappingSettings | None = None,
    guards: GuardSettings = UNGUARDED,
    budgets: EvictionRateLimits | None = None,
    brakes: BrakeSettings | None = None,
    moves: MoveSettings | None = None,
    migration: MigrationJobSettings | None = None,
    evictor: Literal["api", "migration"] = "api",
) -> Configuration:
    """Build a configuration that waits for nothing, limits and guards nothing unless asked to.

    `budgets` count instead of `rates`.
    """
    settings = ReactiveSettings.model_construct(
        debounce=_debounce(debounce, flapping),
        budgets=budgets or make_rate_limits(rates or {}),
        evictions=EvictionSettings(
            max_in_flight=max_concurrent, retry=retry or RetrySettings(jitter=0), evictor=evictor
        ),
        node_fit=node_fit,
        guards=guards,
        brakes=brakes or NO_BRAKES,
        moves=moves or UNLIMITED_MOVES,
        migration=migration,
    )
    return Configuration(make_policy(profiles, node_selector, limits, grace_period_s), settings)


def make_rate_limits(
    rates: Mapping[str, TokenRate | None], *, grows: Collection[str] = (), **more: Any
) -> EvictionRateLimits:  # `more`: fields of EvictionRateLimits
    """Build limits of exactly these rates by scope, without warm-up; other scopes have none."""
    by_scope = {**dict.fromkeys(SCOPES), **rates}
    return EvictionRateLimits.model_construct(
        {*SCOPES} - {*grows},
        **{scope: rate and _rate_limit(rate) for scope, rate in by_scope.items()},
        **{"warm_up": None, **more},
    )


def _rate_limit(rate: TokenRate) -> RateLimitSettings:
    """Build a limit of exactly this rate, also of less than one eviction in its time."""
    return RateLimitSettings.model_construct(evictions=rate.per_second, per_s=1.0, burst=rate.burst)


def _debounce(
    wait: DebounceConfig | Mapping[str, DebounceConfig], flapping: FlappingSettings | None
) -> DebounceSettings:
    if isinstance(wait, DebounceConfig):
        return DebounceSettings(quiet_s=wait.quiet_s, max_wait_s=wait.max_wait_s, flapping=flapping)
    return DebounceSettings(
        flapping=flapping,
        quiet_s=0,
        max_wait_s=0,
        per_plugin={
            plugin: PluginDebounceSettings(quiet_s=each.quiet_s, max_wait_s=each.max_wait_s)
            for plugin, each in wait.items()
        },
    )
