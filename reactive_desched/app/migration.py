"""Writes what becomes of migration jobs, one job after the other, while this process acts."""

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import anyio
from anyio.lowlevel import checkpoint

from reactive_desched.app.input_notes import InputNotes
from reactive_desched.app.options import Dependencies
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.errors import ClusterError, Malformed
from reactive_desched.eviction.recorder import RecorderSlot
from reactive_desched.kube.client.events import EventRecorder
from reactive_desched.kube.client.migration_jobs import MigrationJobWriter
from reactive_desched.kube.client.session import Session
from reactive_desched.kube.codec import make_codecs
from reactive_desched.migration.actions import (
    Action,
    CreatePlaceholder,
    CreateReservation,
    DeleteJob,
    DeletePlaceholder,
    DeleteReservation,
    PassArbitration,
    SetReservationOrder,
    SetStatus,
    step_name,
)
from reactive_desched.migration.admission import NewJob
from reactive_desched.migration.answers import JobAnswers
from reactive_desched.migration.migrations import Migrations
from reactive_desched.migration.state_machine import FAILED_CREATE
from reactive_desched.migration.step_records import MigrationSteps
from reactive_desched.model.changes import Change
from reactive_desched.model.kube_events import KubeEvent, Regarding
from reactive_desched.model.migration_jobs import (
    API_VERSION,
    ENDED,
    KIND,
    RESOURCE,
    MigrationJob,
    Phase,
)
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.telemetry.logs import Logger

BUSY_S: Final = 0.05
"""How long a job waits that is being written already."""

IDLE_S: Final = 1.0
"""How often a controller that must not act looks whether it may."""

_DONE: Final[Mapping[type[Action], str]] = {
    CreatePlaceholder: "made a placeholder",
    DeletePlaceholder: "deleted a placeholder",
    CreateReservation: "made a Reservation",
    SetReservationOrder: "changed the order of a Reservation",
    DeleteReservation: "deleted a Reservation",
}
"""What the log says of a step about a place."""


class JobWriter(Protocol):
    """Carries out a step at the API server."""

    async def carry_out(self, step: Action) -> MigrationJob | None:
        """Write a step; return the job as it is then, None where it is gone or was overtaken."""
        ...

    async def create(self, order: NewJob) -> MigrationJob:
        """Make a job, and return it."""
        ...


class MigrationRunner:
    """Drives `Migrations`: what is due is written, and what was written is applied at once.

    `may_act` says whether the cluster is known and the controller acts: a job's pod that a watch
    does not show yet is not missing. `store` stores a job as the API server has it, `answers`
    what follows from an answer. `record` writes Kubernetes Events; `notes` has for a recording what
    a replay needs.
    """

    def __init__(
        self,
        migrations: Migrations,
        writer: JobWriter,
        store: Callable[[MigrationJob], None],
        answers: JobAnswers,
        may_act: Callable[[], bool],
        record: Callable[[KubeEvent], None],
        notes: InputNotes,
        log: Logger,
    ) -> None:
        self._migrations = migrations
        self._writer = writer
        self._store = store
        self._answers = answers
        self._may_act = may_act
        self._record = record
        self._notes = notes
        self._log = log
        self._busy: set[str] = set()

    async def run(self) -> None:
        """Write until cancelled."""
        async with anyio.create_task_group() as tasks:
            for _ in range(self._migrations.settings.max_concurrent_reconciles):
                tasks.start_soon(self._work)

    async def _work(self) -> None:
        while True:
            await self._wait_for_work()
            if (order := self._migrations.pending_jobs.take()) is not None:
                await self._make(order)
                continue
            if (name := self._migrations.queue.take()) is None:
                continue
            if name in self._busy:
                self._migrations.queue.add_after(name, BUSY_S)
            elif (step := self._look_at(name)) is not None:
                self._busy.add(name)
                try:
                    await self._carry_out(step)
                finally:
                    self._busy.discard(name)

    async def _wait_for_work(self) -> None:
        await checkpoint()
        while not self._may_act():  # noqa: ASYNC110 -- pauses have many owners
            await anyio.sleep(IDLE_S)
        while not self._migrations.is_due:
            with anyio.move_on_after(self._migrations.queue.next_due_s()):
                await self._migrations.changed.wait()

    def _look_at(self, name: str) -> Action | None:
        step = self._migrations.action_of(name)
        self._notes.job_looked_at(name, step_name(step))
        return step

    async def _make(self, order: NewJob) -> None:
        """Create a job; where the API server refuses it, its finding is evaluated again."""
        try:
            job = await self._writer.create(order)
        except (ClusterError, Malformed) as error:
            message = _text_of(error)
            self._log.warning("a migration job was not made", pod=str(order.pod), message=message)
            self._notes.job_order_ended(order.pod.uid, message)
            self._answers.not_made(order, message)
        else:
            self._store(job)
            self._notes.job_order_ended(order.pod.uid)
            self._answers.made(order, job)

    async def _carry_out(self, step: Action) -> None:
        job = step.job
        try:
            written = await self._writer.carry_out(step)
            if written is not None and isinstance(
                step, PassArbitration | SetStatus | CreateReservation
            ):
                self._store(written)
        except (ClusterError, Malformed) as error:
            message = _text_of(error)
            if isinstance(step, CreatePlaceholder | CreateReservation):
                self._log.warning(
                    "no room was kept for a pod's replacement", job=job.name, message=message
                )
            else:
                self._log.warning("a migration job was not written", job=job.name, message=message)
            self._notes.job_step_ended(job.name, message)
            self._answers.refused(step, message)
            return
        self._notes.job_step_ended(job.name, is_written=written is not None)
        self._answers.carried_out(step, written)
        if isinstance(step, DeleteJob):
            self._log.info("deleted an old migration job", job=job.name)
        elif written is None:
            return
        elif (done := _DONE.get(type(step))) is not None:
            self._log.info(done, job=job.name, pod=str(job.pod))
        elif isinstance(step, SetStatus):
            self._report(step)

    def _report(self, step: SetStatus) -> None:
        job, status = step.job, step.status
        if status.phase in ENDED:
            self._migrations.count_end(status)
        is_failed = status.phase in (Phase.FAILED, Phase.ABORTED) or status.reason == FAILED_CREATE
        code = status.reason or status.step or status.phase
        waits = (status.phase, status.step) == (job.phase, job.status.step)
        self._log.info(
            "a migration job waits" if waits else "a migration job went on",
            job=job.name,
            pod=str(job.pod),
            phase=status.phase,
            reason=code,
            message=status.message,
        )
        about = Regarding(KIND, "", job.name, job.uid, API_VERSION)
        steps = {
            each.reason: each.message
            for each in status.conditions
            if each not in job.status.conditions
        }
        if not steps or (status.reason, status.step) != (job.status.reason, job.status.step):
            steps[code] = status.message or f'Pod "{job.pod}" is being migrated'
        for passed, note in steps.items():
            is_warning = is_failed and passed == code
            self._record(KubeEvent(about, passed, "Migrating", note, is_warning=is_warning))


def _text_of(error: Exception) -> str:
    """Return the text of an error, or its type where it has none."""
    return str(error) or type(error).__name__


def build_migration(
    deps: Dependencies,
    session: Session,
    pipeline: Pipeline,
    interned: InternTables,
    events: EventRecorder,
    recorder: RecorderSlot,
    migrations: Migrations,
    notes: InputNotes,
) -> MigrationRunner:
    """Build what writes migration jobs."""
    controller = pipeline.controller
    decode = make_codecs(interned)[RESOURCE].decode_object
    handler, readiness = pipeline.event_handlers[RESOURCE], controller.readiness

    def may_act() -> bool:
        return controller.evaluator.started and (
            not readiness.reason or readiness.is_paused_on_purpose
        )

    def announce(change: Change) -> None:
        if controller.apply((change,)):
            pipeline.worker.wake()

    steps = MigrationSteps(controller.view, recorder.record_migration_step)
    return MigrationRunner(
        migrations,
        MigrationJobWriter(session, decode, migrations.settings, time.time),
        handler.upsert,
        JobAnswers(migrations, announce, steps),
        may_act,
        events.record,
        notes,
        deps.log,
    )
