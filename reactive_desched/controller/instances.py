"""Builds the plugins of every profile as the evaluator runs them: with gate, view and debounce.

`Subscriptions` says which of them a change may matter to. What migration jobs take is loaded where
the settings have them, and nowhere else.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.plugin import DeschedulePlugin, Plugin
from reactive_desched.gate.eviction_controls import EvictionControls
from reactive_desched.gate.evictor import DefaultEvictor
from reactive_desched.gate.gate import Gate
from reactive_desched.gate.move_sets import NoSets
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.model.changes import Change, PodBound
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE
from reactive_desched.model.modes import ACT, OBSERVE, PROPOSE, Mode
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.plugin_faults import ask_plugin
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.index_registry import IndexKey

if TYPE_CHECKING:
    from reactive_desched.migration.job_gate import JobGate
    from reactive_desched.migration.migrations import Migrations
    from reactive_desched.migration.plugin import MigrationJobs


class DecisionGate(Protocol):
    """Decides on findings; times are monotonic seconds."""

    def decide(self, finding: Finding, now: float) -> Decision:
        """Return the decision; with an Evict the eviction has begun."""
        ...

    def held_since(self, finding: Finding, now: float) -> str:
        """Say why a pod whose eviction was decided has to stay by now; empty where it may leave."""
        ...


class PluginInstance(Struct, frozen=True, eq=False):
    """One enabled plugin of one profile, with the profile's gate and view and its own debounce.

    `finds_for_others` is for migration jobs, whose findings name the plugins that had them made.
    `debounce_by_change` has the waits of single kinds of change, by the change's name. `mode` says
    what is done with what it finds.
    """

    profile: str
    plugin: AnyPlugin
    gate: DecisionGate
    view: ProfileView
    debounce: DebounceConfig = DebounceConfig()
    debounce_by_change: Mapping[str, DebounceConfig] = {}
    mode: Mode = ACT
    finds_for_others: bool = False

    @property
    def name(self) -> str:
        """The plugin's name, as policies say it."""
        return self.plugin.name

    @property
    def is_observed(self) -> bool:
        """Say whether it only shows what it would evict."""
        return self.mode == OBSERVE


SubjectKey = tuple[PluginInstance, Hashable]
"""A subject of one plugin instance."""

FindingKey = tuple[PluginInstance, Hashable, PodKey]
"""A finding of one plugin instance on one pod, with the subject to evaluate again for it."""


_Matters = Callable[[Change], bool]
Subscription = tuple[_Matters | None, PluginInstance]
"""A plugin instance with its test of whether a change matters."""


class Subscriptions:
    """Plugin instances by the type of change that they react to: `by_kind`.

    With each comes its test of whether a change matters; None where every one does.
    """

    def __init__(self, instances: Iterable[PluginInstance]) -> None:
        by_kind: dict[type[Change], list[Subscription]] = {}
        for instance in instances:
            matters = instance.plugin.matters if _has_test(instance.plugin) else None
            for kind in instance.plugin.reacts_to:
                by_kind.setdefault(kind, []).append((matters, instance))
        self.by_kind: Final[Mapping[type[Change], Sequence[Subscription]]] = by_kind


def _has_test(plugin: AnyPlugin) -> bool:
    return type(plugin).matters is not Plugin.matters


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
        jobs, job_gate, view = _job_plugin(state, gates, wall_clock, migrations, tuple(instances))
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
    return _making_gate(profile, evictor, gates, migrations, dry_run=is_dry, proposes=proposes)


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


def _making_gate(
    profile: str,
    evictor: DefaultEvictor,
    gates: EvictionControls,
    migrations: "Migrations",
    *,
    dry_run: bool,
    proposes: bool,
) -> "Gate | JobGate":
    """Build the gate of a profile that makes migration jobs of its findings.

    A dry run makes no jobs: it shows the evictions of those that it would make. With `proposes` a
    person approves each before it is made.
    """
    from reactive_desched.migration.job_gate import JobGate, JobRules

    rules = JobRules(
        gates.schedules.of_profile(profile),
        gates.rate_limiter,
        gates.policy_limits,
        migrations.object_limiters,
        migrations.admission,
        migrations.settings.default_job_ttl_s,
    )
    if dry_run:
        return gates.gate(evictor, profile, NoSets(), rules)
    asked = (gates.approval(profile),) if proposes else ()
    protections = gates.protections(evictor, profile)
    lasting = (evictor.filters, *evictor.namespace_filters, *asked)
    last = (NoSets(), rules, *asked)
    return JobGate(protections, last, gates.ledger, migrations.admission, lasting)


def _job_plugin(
    state: ClusterState,
    gates: EvictionControls,
    wall_clock: Callable[[], float],
    migrations: "Migrations",
    instances: Iterable[PluginInstance],
) -> tuple["MigrationJobs", Gate, ProfileView]:
    """Build the plugin of the jobs, with its gate and its view; `instances` are the others."""
    from reactive_desched.migration.placeholder_filter import PlaceholderFilter
    from reactive_desched.migration.plugin import MigrationJobs

    by_name: dict[str, list[PluginInstance]] = {}
    for each in instances:
        by_name.setdefault(each.name, []).append(each)
    finders = {name: partial(_why_kept, of, gates.clock) for name, of in by_name.items()}
    evictor = gates.evictor(DefaultEvictorArgs())
    view = ProfileView(state, wall_clock, evictor, gates.node_fit, gates.in_flight)
    kept_place = PlaceholderFilter(view, migrations.modes, migrations.places, gates.node_fit)
    gate = gates.job_gate(migrations.rounds, kept_place, migrations.limits)
    return MigrationJobs(migrations.rounds, finders), gate, view


def _why_kept(instances: Iterable[PluginInstance], clock: Callable[[], float], pod: Pod) -> str:
    """Say why no instance of a plugin would have a pod moved now; empty where one would."""
    kept = ""
    for each in instances:
        held = each.gate.held_since(Finding(pod, each.name, ""), clock())
        if not held and _finds(each, pod):
            return ""
        kept = kept or held or f"{each.name} finds its pod no more"
    return kept


def _finds(instance: PluginInstance, pod: Pod) -> bool:
    """Say whether a plugin that judges pods finds one now, as if it came just then.

    One that balances, or fails, stands by what it found.
    """
    plugin, view, came = instance.plugin, instance.view, PodBound(pod)
    if not isinstance(plugin, DeschedulePlugin) or PodBound not in plugin.reacts_to:
        return True

    def ask() -> bool:
        asked = Finding(pod, plugin.name, "")
        found = (plugin.still_found(asked, each, view) for each in plugin.subjects(came, view))
        return any(each is not None and each.counts_from_s <= view.now_s for each in found)

    return ask_plugin(ask, otherwise=lambda _: True)
