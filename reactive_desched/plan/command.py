"""`plan`: what would be evicted, and why not, without touching anything."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.model.plugin_faults import PluginFault
from reactive_desched.model.scheduler_profile import SchedulerProfiles
from reactive_desched.plan.evaluation import PlanResult, summarize
from reactive_desched.plan.inputs import (
    LoadedSnapshot,
    PlanOptions,
    input_warnings,
    read_history_of,
    read_inputs,
    reads_jobs,
    selected_profiles,
)
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.output import write
from reactive_desched.plan.progress import Progress, progress_on
from reactive_desched.plan.report import NodeCounts, PlanInputs, PlanReport, PolicyRef
from reactive_desched.plan.rule_table import RuleTables
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.policy import Policy
from reactive_desched.primitives.collector import collector_off
from reactive_desched.state.resources import NODES, PODS
from reactive_desched.text.times import format_moment, format_timestamp

if TYPE_CHECKING:
    from reactive_desched.plan.node_report import NodesReport

__all__ = ["build_nodes_report", "build_report", "run", "run_nodes"]


class SweptSnapshot(Struct, frozen=True):
    """A snapshot, what a sweep over it decides, and what every report says of both."""

    policy: Policy
    snapshot: Snapshot
    moment: datetime
    mode: PlanMode
    result: PlanResult
    looked_at: PlanInputs
    warnings: tuple[str, ...]
    schedulers: SchedulerProfiles

    @property
    def may_have_obstacles(self) -> bool:
        """Say whether a plugin that compares nodes may be kept from moving any pod.

        Where any pod leaves, nothing is said: the plan has what there is to see.
        """
        return not any(each.action == "Evict" for each in self.result.decisions) and any(
            isinstance(plugin, BalancePlugin)  # the tables are not loaded for any other
            for profile in self.policy.profiles
            for plugin in profile.plugins
        )

    def obstacles(self, tables: RuleTables) -> Iterator[str]:
        """Say of each plugin that compares nodes what keeps it from moving any pod."""
        for table in tables.tables if self.may_have_obstacles else ():
            if table.obstacles:
                whose, found = f"{table.plugin} of profile {table.profile}", table.obstacles
                yield f"{whose} moves no pod; `nodes` says: {'; '.join(found)}"

    def tables(self) -> RuleTables:
        """Return how the nodes stood before the sweep, for each rule of the policy."""
        from reactive_desched.plan.node_tables import rule_tables

        return rule_tables(
            self.policy,
            self.snapshot,
            self.moment.timestamp(),
            self.mode,
            self.looked_at.node_fit,
            self.result,
            self.schedulers,
        )


NO_SUCH_POD: Final = 2
"""The exit status where it is asked about pods by name, and there are none of them."""


Build = Callable[[PlanOptions, Progress], "PlanReport | NodesReport"]
"""What makes a report: here, or in a running controller."""


def run(options: PlanOptions, build: Build | None = None) -> int:
    """Print what would be evicted; return the exit status.

    It is 1 where a plugin did not end, 2 where the pods that are named do not exist, and does not
    depend on what would be evicted.
    """
    return _print(options, build or build_report)


def run_nodes(options: PlanOptions, build: Build | None = None) -> int:
    """Print how nodes compare with thresholds; return 1 where a plugin did not end, or 0."""
    return _print(options, build or build_nodes_report)


def _print(options: PlanOptions, build: Build) -> int:
    progress = progress_on(sys.stderr, time.monotonic)
    with collector_off():
        try:
            report = build(options, progress)
        finally:
            progress.finish()
        for warning in report.warnings:
            sys.stderr.write(f"warning: {warning}\n")
        try:
            write(report, options.output, sys.stdout)
            sys.stdout.flush()
        except BrokenPipeError:  # as in `plan | head`: the reader has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(report, PlanReport) and report.names_no_pod:
        return NO_SUCH_POD
    return 1 if report.failed_plugins else 0


def build_report(options: PlanOptions, progress: Progress) -> PlanReport:
    """Evaluate the policy on a snapshot, and change nothing.

    Raises ConfigError for an error in the policy, the settings or the flags, SnapshotUnavailable
    where the objects cannot be read completely.
    """
    sweep = _sweep(options, progress)
    policy, snapshot, result = sweep.policy, sweep.snapshot, sweep.result
    if options.only:
        from reactive_desched.plan.pod_selection import PodSelection

        selection = PodSelection(options.only, snapshot, result.view)
        policy, snapshot = selection.in_policy(policy), selection.in_snapshot(snapshot)
        result = selection.in_result(result)
    others = None
    if options.show_unaffected:
        from reactive_desched.plan.unaffected_pods import unaffected_pods

        others = tuple(unaffected_pods(policy, snapshot, result, options.mode))
    shows_obstacles = not options.only and sweep.may_have_obstacles
    tables = sweep.tables() if options.show_nodes or shows_obstacles else RuleTables()
    return PlanReport(
        looked_at=sweep.looked_at,
        warnings=(*sweep.warnings, *_incomplete(tables.faults)),
        failed_plugins=_failed(*result.plugin_faults, *tables.faults),
        obstacles=() if options.only else tuple(sweep.obstacles(tables)),
        mode=options.mode,
        preview=result.preview,
        only=options.only,
        matching_pods=len(snapshot.pods),
        skipped=result.skipped,
        decisions=result.decisions,
        others=others,
        nodes=tables.tables if options.show_nodes else None,
        summary=summarize(result.decisions),
    )


def build_nodes_report(options: PlanOptions, progress: Progress) -> "NodesReport":
    """Evaluate as `build_report`, and show the nodes; raises what that raises."""
    from reactive_desched.plan.node_report import NodesReport

    sweep = _sweep(options, progress)
    tables = sweep.tables()
    shown = {(table.profile, table.plugin) for table in tables.tables}
    return NodesReport(
        looked_at=sweep.looked_at,
        warnings=(*sweep.warnings, *_incomplete(tables.faults)),
        failed_plugins=_failed(*sweep.result.plugin_faults, *tables.faults),
        mode=options.mode,
        preview=sweep.result.preview,
        skipped=sweep.result.skipped,
        tables=tables.tables,
        decisions=tuple(
            each for each in sweep.result.decisions if (each.profile, each.plugin) in shown
        ),
    )


def _sweep(options: PlanOptions, progress: Progress) -> SweptSnapshot:
    configuration, loaded, moment = read_inputs(options, progress)
    policy = selected_profiles(configuration.policy, options)
    measured = loaded.snapshot.measured_by(policy.metrics_sources)
    result = _decide(options, replace(configuration, policy=policy), measured, moment, progress)
    now = format_timestamp(moment)
    return SweptSnapshot(
        policy=policy,
        snapshot=loaded.snapshot,
        moment=moment,
        mode=options.mode,
        result=result,
        looked_at=_describe_inputs(options, configuration, loaded, result, now),
        warnings=(
            *input_warnings(configuration, policy, loaded, options.mode),
            *_incomplete(result.plugin_faults),
        ),
        schedulers=configuration.scheduler_profiles,
    )


def _incomplete(faults: Iterable[PluginFault]) -> Iterator[str]:
    return (each.incomplete for each in faults)


def _failed(*faults: PluginFault) -> tuple[str, ...]:
    named = (f"{each.profile}/{each.plugin}" for each in faults)
    return tuple(dict.fromkeys(named))


def _decide(
    options: PlanOptions,
    configuration: Configuration,
    snapshot: Snapshot,
    moment: datetime,
    progress: Progress,
) -> PlanResult:
    """Return what the controller, or a sweep, decides on a snapshot."""
    if options.mode is PlanMode.RUN:
        from reactive_desched.plan.controller_run import run_controller

        now_s = moment.timestamp()
        history = read_history_of(options, configuration, now_s)
        past = () if history is None else history.evictions
        return run_controller(configuration, snapshot, now_s, options.bounds, progress, past)
    from reactive_desched.plan.sweep_run import run_sweeps

    result = run_sweeps(
        configuration.policy,
        snapshot,
        moment.timestamp(),
        options.mode.node_fit(configuration),
        passes=options.passes,
        asks_budgets=options.mode.asks_budgets,
        schedulers=configuration.scheduler_profiles,
    )
    if options.mode is not PlanMode.UPSTREAM or not reads_jobs(options, configuration):
        return result
    from reactive_desched.plan.arbitration_round import arbitrate_jobs

    decided = arbitrate_jobs(configuration, snapshot, moment.timestamp())
    return replace(result, decisions=(*decided, *result.decisions))


def _describe_inputs(
    options: PlanOptions,
    configuration: Configuration,
    loaded: LoadedSnapshot,
    result: PlanResult,
    now: str,
) -> PlanInputs:
    snapshot, policy = loaded.snapshot, configuration.policy
    counts = {resource: len(objects) for resource, objects in sorted(snapshot.objects.items())}
    return PlanInputs(
        now=now,
        files=options.files,
        server=loaded.server,
        recording=None if loaded.recorded is None else str(loaded.recorded.path),
        last_change=None if loaded.recorded is None else format_moment(loaded.recorded.changed_s),
        policy=PolicyRef(policy.source, policy.revision, options.settings),
        node_fit=options.mode.node_fit(configuration),
        passes=options.passes,
        whole=snapshot.is_complete,
        nodes=NodeCounts(counts.pop(NODES), result.view.eligible_node_count),
        pods=counts.pop(PODS),
        objects=counts,
        ignored=snapshot.ignored,
        repeated=snapshot.duplicates,
        unread_count=snapshot.unreadable_count,
        unread=snapshot.unreadable,
    )
