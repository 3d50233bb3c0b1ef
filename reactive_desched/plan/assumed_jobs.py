"""Carries out migration jobs for a preview: the API server's copy of them, which takes no time."""

from typing import Final

from msgspec.structs import replace

from reactive_desched.controller.controller import Controller
from reactive_desched.migration.actions import (
    DeleteJob,
    DeletePlaceholder,
    PassArbitration,
    SetStatus,
)
from reactive_desched.migration.admission import NewJob
from reactive_desched.migration.job_state import RESERVATION_SCHEDULED
from reactive_desched.migration.migrations import Migrations
from reactive_desched.migration.rules import no_place_for
from reactive_desched.migration.volumes import reach_of
from reactive_desched.model.changes import MigrationJobEnded
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.migration_jobs import MigrationJob, Mode, PodReference
from reactive_desched.model.objects import Pod
from reactive_desched.plan.assumed_cluster import PreviewClock

__all__ = ["AssumedJobs"]


class AssumedJobs:
    """The migration jobs behind a controller: those that the cluster has, and those that it makes.

    With `needs_place` a job is made only for a pod whose place can be kept, and that fits on
    another node; else its making fails. A job of the cluster that is to keep a place first, and
    has none, waits where there is none. A job that has ended is deleted at once.
    """

    def __init__(
        self,
        controller: Controller,
        migrations: Migrations,
        clock: PreviewClock,
        *,
        needs_place: bool,
    ) -> None:
        self._controller: Final = controller
        self._migrations: Final = migrations
        self._clock: Final = clock
        self._needs_place: Final = needs_place
        for job in tuple(controller.state.store(MigrationJob)):
            self._store(self._without_place(job))
        migrations.follow_all()

    def _without_place(self, job: MigrationJob) -> MigrationJob:
        """Return a job of the cluster that evicts at once, or is paused for want of a place."""
        at_once = replace(job, mode=Mode.EVICT_DIRECTLY, reservation="")
        mode = job.mode or (Mode.RESERVATION_FIRST if self._needs_place else Mode.EVICT_DIRECTLY)
        if mode != Mode.RESERVATION_FIRST or job.has_ended:
            return at_once
        pod = self._migrations.pod_of(job)
        has_place = job.status.holds(RESERVATION_SCHEDULED)
        if has_place or (pod is not None and self._has_place(job, pod)):
            return at_once
        return replace(at_once, is_paused=True)

    def take(self, job: MigrationJob) -> None:
        """Take a job of the cluster that was made or changed; what was written of it here stays."""
        own = self._migrations.get(job.name)
        if own is not None:
            job = replace(job, pod=own.pod, status=own.status, has_passed=own.has_passed)
        self._store(self._without_place(job))

    def next_due(self) -> float | None:
        """Return when something is to be written of a job, in seconds of the preview's clock."""
        wait_s = 0.0 if self._migrations.is_due else self._migrations.queue.next_due_s()
        return None if wait_s is None else self._clock.now + wait_s

    def advance(self) -> None:
        """Make the jobs that are to be made, and write what is to be written."""
        while self._migrations.is_due:
            if (order := self._migrations.pending_jobs.take()) is not None:
                self._make(order)
            elif (name := self._migrations.queue.take()) is not None:
                self._write(name)

    def _make(self, order: NewJob) -> None:
        pod = PodReference.to(order.pod)
        job = MigrationJob(
            name=order.name,
            uid=order.name,
            pod=pod,
            created_s=int(self._clock.wall()),
            ttl_s=self._migrations.settings.default_job_ttl_s,
            trigger=order.trigger,
            cause=order.cause,
        )
        if self._needs_place and not self._has_place(job, order.pod):
            self._migrations.end_order(order, made=False)
            self._controller.apply((MigrationJobEnded(order.name),))
            return
        self._store(job)
        self._migrations.end_order(order, made=True)

    def _has_place(self, job: MigrationJob, pod: Pod) -> bool:
        modes = replace(self._migrations.modes, default=Mode.RESERVATION_FIRST)
        node_fit = self._controller.node_fit
        is_possible = not no_place_for(job, modes, pod, reach_of(pod, self._controller.view))
        return is_possible and node_fit.find_other_node(pod, EVERYTHING) is not None

    def _write(self, name: str) -> None:
        match self._migrations.action_of(name):
            case PassArbitration(job, uid):
                self._store(replace(job, has_passed=True, pod=replace(job.pod, uid=uid)))
            case SetStatus(job, status):
                written = replace(job, status=status)
                self._store(written)
                if written.has_ended:
                    self._controller.apply(self._controller.state.remove(written))
            case DeleteJob(job):
                self._controller.apply(self._controller.state.remove(job))
            case DeletePlaceholder(_, placeholder):
                self._controller.apply(self._controller.state.remove(placeholder))

    def _store(self, job: MigrationJob) -> None:
        self._controller.apply(self._controller.state.upsert(job))
