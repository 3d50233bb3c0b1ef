"""The plugins of every profile as the evaluator runs them, each with its gate and its view."""

from collections.abc import Callable

from reactive_desched.controller.evaluator import NEVER_FLAPPING
from reactive_desched.controller.flapping import FlappingConfig
from reactive_desched.controller.subscriptions import PluginInstance
from reactive_desched.gate.factory import GateFactory
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.policy.configuration import Configuration
from reactive_desched.primitives.debounce import DebounceConfig
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.index_registry import IndexKey


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
    gates: GateFactory,
    wall_clock: Callable[[], float],
) -> list[PluginInstance]:
    """Build the plugins of each profile, and keep the indexes that they and the gates read."""
    instances: list[PluginInstance] = []
    indexes: list[IndexKey] = []
    ignored_taints = config.controller.guards.left_marks.keys()
    for profile in config.policy.profiles:
        evictor = gates.evictor(profile.evictor)
        gate = gates.gate(evictor)
        view = ProfileView(
            state, wall_clock, evictor, gates.node_fit, gates.in_flight, ignored_taints
        )
        indexes += ((kind, None) for kind in gate.indexes)
        indexes += gates.brakes.indexes
        for plugin in profile.plugins:
            indexes += plugin.required_indexes
            debounce = config.controller.debounce
            instances.append(
                PluginInstance(
                    profile.name,
                    plugin,
                    gate,
                    view,
                    debounce.for_plugin(plugin.name),
                    debounce.by_change(plugin.name),
                )
            )
    state.keep_indexes(indexes)
    return instances
