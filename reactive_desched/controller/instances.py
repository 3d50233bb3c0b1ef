"""The plugins of every profile as the evaluator runs them, each with its gate and its view."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reactive_desched.controller.evaluator import NEVER_FLAPPING
from reactive_desched.controller.subscriptions import DecisionGate, PluginInstance
from reactive_desched.controller.work_queue import FlappingConfig
from reactive_desched.gate.eviction_controls import EvictionControls
from reactive_desched.gate.evictor import DefaultEvictor
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE
from reactive_desched.model.modes import ACT, OBSERVE, PROPOSE, Mode
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.index_registry import IndexKey

if TYPE_CHECKING:
    from reactive_desched.gate.gate import Gate
    from reactive_desched.migration.job_gate import JobGate
    from reactive_desched.migration.migrations import Migrations


def flapping_config(config: Configuration) -> FlappingConfig:
    """Say when an object flaps, and how long its subjects wait then."""
    settings = config.controller.debounce.flapping
    if settings is None:
        return NEVER_FLAPPING
    wait = DebounceConfig(settings.quiet_s, settings.max_wait_s)
    return FlappingConfig(settings.changes, settings.per_s, wait)


def plugin_instances(
    config: Configuration,
    state: ClusterState,
    gates: EvictionControls,
    wall_clock: Callable[[], float],
    migrations: "Migrations | None" = None,
    *,
    observed: EvictionControls | None = None,
    dry_run: bool = False,
) -> list[PluginInstance]:
    """Build the plugins of each profile, and keep the indexes that they and the gates read.

    Those that only observe have the gates of `observed`; without these all have the same.
    Migration jobs come last, as a plugin of a profile of their own. A `dry_run` makes none: it
    shows their evictions.
    """
    instances: list[PluginInstance] = []
    indexes: list[IndexKey] = []
    of_plugins: list[IndexKey] = []
    rules = config.controller.guards.reason_rules
    for profile in config.policy.profiles:
        by_mode: dict[Mode, tuple[Gate | JobGate, ProfileView]] = {}
        for plugin in profile.plugins:
            mode = ACT if dry_run else config.controller.mode_of(profile.name, plugin.name)
            if mode not in by_mode:
                of = observed if observed is not None and mode == OBSERVE else gates
                evictor = of.evictor(profile.evictor, profile.node_selector)
                means = config, of, migrations, mode
                gate = _profile_gate(profile.name, evictor, *means, dry_run=dry_run)
                view = ProfileView(state, wall_clock, evictor, of.node_fit, of.in_flight, rules)
                by_mode[mode] = gate, view
                indexes += ((kind, None) for kind in gate.indexes)
                indexes += gates.brakes.indexes
            of_plugins += plugin.required_indexes
            instances.append(_instance(profile.name, plugin, *by_mode[mode], config, mode))
    if migrations is not None:
        from reactive_desched.controller.job_instances import job_plugin

        jobs, job_gate, view = job_plugin(state, gates, wall_clock, migrations, tuple(instances))
        of_jobs = _instance(MIGRATION_PROFILE, jobs, job_gate, view, config)
        instances.append(replace(of_jobs, finds_for_others=True))
        indexes += ((kind, None) for kind in migrations.indexes)
        indexes += ((kind, None) for kind in job_gate.indexes)
    state.keep_indexes(indexes, of_plugins)
    return instances


def _profile_gate(
    profile: str,
    evictor: DefaultEvictor,
    config: Configuration,
    gates: EvictionControls,
    migrations: "Migrations | None",
    mode: Mode,
    *,
    dry_run: bool,
) -> "Gate | JobGate":
    """Build the gate of a profile, which evicts its pods, or makes migration jobs of them."""
    is_dry, proposes = dry_run or mode == OBSERVE, mode == PROPOSE
    if migrations is None or config.controller.evictions.evictor_of(profile) != "migration":
        return gates.gate(evictor, profile, proposes=proposes)
    from reactive_desched.controller.job_instances import making_gate

    return making_gate(profile, evictor, gates, migrations, dry_run=is_dry, proposes=proposes)


def _instance(
    profile: str,
    plugin: AnyPlugin,
    gate: DecisionGate,
    view: ProfileView,
    config: Configuration,
    mode: Mode = ACT,
) -> PluginInstance:
    """Build the instance of a plugin in a profile, with its own debounce."""
    debounce = config.controller.debounce
    least = plugin.least_debounce
    times = debounce.for_plugin(plugin.name, least), debounce.by_change(plugin.name, least)
    return PluginInstance(profile, plugin, gate, view, *times, mode)
