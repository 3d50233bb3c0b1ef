"""The gates that make migration jobs, and the plugin of the jobs, with its gate and its view.

Loaded where the settings have migration jobs, and nowhere else.
"""

from collections.abc import Callable, Iterable
from functools import partial

from reactive_desched.api.plugin import DeschedulePlugin
from reactive_desched.controller.subscriptions import PluginInstance
from reactive_desched.gate.eviction_controls import EvictionControls
from reactive_desched.gate.evictor import DefaultEvictor
from reactive_desched.gate.gate import Gate
from reactive_desched.gate.move_sets import NoSets
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.migration.job_gate import JobGate, JobRules
from reactive_desched.migration.migrations import Migrations
from reactive_desched.migration.placeholder_filter import PlaceholderFilter
from reactive_desched.migration.plugin import MigrationJobs
from reactive_desched.model.changes import PodBound
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod
from reactive_desched.model.plugin_faults import ask_plugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.state.cluster import ClusterState


def making_gate(
    profile: str,
    evictor: DefaultEvictor,
    gates: EvictionControls,
    migrations: Migrations,
    *,
    dry_run: bool,
    proposes: bool,
) -> Gate | JobGate:
    """Build the gate of a profile that makes migration jobs of its findings.

    A dry run makes no jobs: it shows the evictions of those that it would make. With `proposes` a
    person approves each before it is made.
    """
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


def job_plugin(
    state: ClusterState,
    gates: EvictionControls,
    wall_clock: Callable[[], float],
    migrations: Migrations,
    instances: Iterable[PluginInstance],
) -> tuple[MigrationJobs, Gate, ProfileView]:
    """Build the plugin of the jobs, with its gate and its view; `instances` are the others."""
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
