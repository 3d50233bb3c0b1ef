"""The migration jobs as a plugin: what they ask for passes the same gates as any finding."""

from collections.abc import Iterable
from typing import ClassVar, Final

from msgspec import Struct

from reactive_desched.api.args import PluginArgs
from reactive_desched.api.plugin import Opinions, Plugin, View
from reactive_desched.migration.migrations import Migrations
from reactive_desched.migration.rounds import PLUGIN, Finders, JobRounds
from reactive_desched.model.changes import Change, MigrationJobChanged
from reactive_desched.model.findings import Finding


class AllJobs(Struct, frozen=True, gc=False):
    """Every job at once: a round of arbitration compares them."""


ALL_JOBS: Final = AllJobs()


class MigrationJobs(Plugin[AllJobs, PluginArgs]):
    """Yields the pods of jobs that may be evicted, and of those that arbitration lets wait."""

    name: ClassVar[str] = PLUGIN
    extension_point: ClassVar[str] = "balance"
    reacts_to: ClassVar[tuple[type[Change], ...]] = (MigrationJobChanged,)
    indexes = Migrations.indexes
    judges_completed_pods = True

    def __init__(self, rounds: JobRounds, plugins: Finders) -> None:
        """`plugins` are those of the policy: the findings of jobs that they had made are theirs."""
        super().__init__(PluginArgs())
        self._rounds = rounds
        self._plugins = plugins

    def subjects(self, change: Change, view: View) -> Iterable[AllJobs]:
        """Name all jobs, where one waits for arbitration or for the gates."""
        del view
        return (ALL_JOBS,) if self._rounds.is_concerned_by(change) else ()

    def evaluate(self, subject: AllJobs, view: View) -> Opinions:
        """Run a round; what comes of the findings is for the gates."""
        del subject, view
        yield from self._rounds.findings(self._plugins)

    def still_found(self, finding: Finding, subject: AllJobs, view: View) -> Finding | None:
        """Ask the plugin that had the job made."""
        del subject, view
        return finding if self._rounds.is_still_found(finding, self._plugins) else None
