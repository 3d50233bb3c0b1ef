"""Every migration job, how far it is, and what it waits for: behind the command `migrations`."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from reactive_desched.controller.pending import PendingFinding
from reactive_desched.model.migration_jobs import MigrationJob
from reactive_desched.text.times import utc_time

if TYPE_CHECKING:  # loaded where the settings have migration jobs
    from reactive_desched.migration.migrations import Migrations

MAX_LISTED: Final = 500
"""Jobs listed in one answer, those that have not ended first; the others are only counted."""


class JobRow(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One migration job; `made_by` is a plugin, or what made the job by hand.

    `reason` and `message` say what it waits for, or why it ended.
    """

    name: str
    namespace: str
    pod: str
    node: str
    phase: str
    step: str
    created: datetime
    made_by: str
    reason: str = ""
    message: str = ""
    setting: str = ""
    is_paused: bool = False


class JobList(Struct, frozen=True, rename="camel"):
    """The jobs: `total` of them, counted by phase; `enabled` says whether the settings have any."""

    enabled: bool
    total: int
    by_phase: Mapping[str, int]
    jobs: tuple[JobRow, ...]


def list_jobs(
    migrations: "Migrations | None",
    pending: Iterable[PendingFinding],
    now: float,
    limit: int = MAX_LISTED,
) -> JobList:
    """Return the jobs, the oldest that has not ended first, at most `limit` of them by name.

    `now` is monotonic seconds.
    """
    if migrations is None:
        return JobList(enabled=False, total=0, by_phase={}, jobs=())
    jobs = tuple(migrations.jobs)
    by_phase: dict[str, int] = {}
    for job in jobs:
        phase = _phase(job)
        by_phase[phase] = by_phase.get(phase, 0) + 1
    first = nsmallest(limit, jobs, key=lambda job: (job.has_ended, job.created_s, job.name))
    rows = tuple(job_rows(first, migrations, pending, now))
    return JobList(enabled=True, total=len(jobs), by_phase=by_phase, jobs=rows)


def _phase(job: MigrationJob) -> str:
    return job.phase or "Pending"


def job_rows(
    jobs: Iterable[MigrationJob],
    migrations: "Migrations",
    pending: Iterable[PendingFinding],
    now: float,
) -> Iterator[JobRow]:
    """Yield what is shown of each job at `now`; `pending` has the findings of those that wait."""
    from reactive_desched.migration.actions import awaits_arbitration, wants_eviction
    from reactive_desched.migration.rounds import JOB_DETAIL

    blocked = {
        name: each
        for each in pending
        if (name := each.decision.finding.details.get(JOB_DETAIL)) is not None
    }
    for job in jobs:
        pod, found = migrations.pod_of(job), blocked.get(job.name)
        waits = awaits_arbitration(job) or wants_eviction(job, migrations.modes)
        wait = found if waits else None
        yield JobRow(
            name=job.name,
            namespace=job.pod.namespace,
            pod=job.pod.name,
            node="" if pod is None else pod.node,
            phase=_phase(job),
            step=job.status.step,
            created=utc_time(job.created_s),
            made_by=job.trigger or "by hand",
            reason=job.status.reason if wait is None else wait.decision.reason,
            message=job.status.message if wait is None else wait.message(now),
            setting="" if wait is None else wait.setting,
            is_paused=job.is_paused,
        )
