"""The gates that make migration jobs, and the plugin of the jobs, with its gate and its view.

Loaded where the settings have migration jobs, and nowhere else.
"""

from collections.abc import Callable

from reactive_desched.gate.eviction_controls import EvictionControls
from reactive_desched.gate.evictor import DefaultEvictor
from reactive_desched.gate.gate import Gate
from reactive_desched.gate.move_sets import NoSets
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.migration.job_gate import JobGate, JobRules
from reactive_desched.migration.migrations import Migrations
from reactive_desched.migration.placeholder_filter import PlaceholderFilter
from reactive_desched.migration.plugin import MigrationJobs
from reactive_desched.policy.configuration import Configuration
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
    return JobGate(protections, (NoSets(), rules, *asked), gates.ledger, migrations.admission)


def job_plugin(
    config: Configuration,
    state: ClusterState,
    gates: EvictionControls,
    wall_clock: Callable[[], float],
    migrations: Migrations,
) -> tuple[MigrationJobs, Gate, ProfileView]:
    """Build the plugin of the jobs, with its gate and its view."""
    names = {each.name for profile in config.policy.profiles for each in profile.plugins}
    evictor = gates.evictor(DefaultEvictorArgs())
    view = ProfileView(state, wall_clock, evictor, gates.node_fit, gates.in_flight)
    kept_place = PlaceholderFilter(view, migrations.modes, migrations.places, gates.node_fit)
    gate = gates.job_gate(migrations.rounds, kept_place, migrations.limits)
    return MigrationJobs(migrations.rounds, names), gate, view
