"""Has the migration jobs of a replay go on as those of the recorded process did.

A job is looked at when it was looked at there, and each answer of the API server comes when it came
there. What is to be written, and what follows from an answer, the controller's own code decides.
"""

from collections.abc import Callable
from typing import Final

from reactive_desched.controller.controller import Controller
from reactive_desched.migration.actions import Action, step_name
from reactive_desched.migration.admission import NewJob
from reactive_desched.migration.answers import JobAnswers
from reactive_desched.migration.migrations import Migrations
from reactive_desched.migration.step_records import MigrationSteps
from reactive_desched.model.changes import Change
from reactive_desched.model.migration_jobs import MigrationJob, MigrationStep, PodReference
from reactive_desched.model.objects import PodKey
from reactive_desched.recording.items import JobLookedAt, JobOrderEnded, JobStepEnded
from reactive_desched.replay.driven_controller import RecordedClock

JobItem = JobLookedAt | JobOrderEnded | JobStepEnded

NOTED_AFTER_S: Final = 0.000_02
"""So much later than recorded a job is looked at: what was due there is due here, for all that
times are rounded."""


class RecordedJobs:
    """The migration jobs of a driven controller.

    `record` takes what was made and deleted, and the ends of jobs; `differs` a job of which
    something else is to be written than was, with that and with what was.
    """

    def __init__(
        self,
        controller: Controller,
        migrations: Migrations,
        clock: RecordedClock,
        record: Callable[[MigrationStep], None],
        differs: Callable[[PodReference, str, str], None],
    ) -> None:
        self._controller: Final = controller
        self._migrations: Final = migrations
        self._clock: Final = clock
        self._differs: Final = differs
        steps = MigrationSteps(controller.view, record)
        self._answers: Final = JobAnswers(migrations, self._announce, steps)
        self._ordered: Final[dict[PodKey, NewJob]] = {}
        self._under_way: Final[dict[str, Action]] = {}

    def take(self, item: JobItem) -> None:
        """Look at a job, or note an answer."""
        match item:
            case JobLookedAt():
                self._look_at(item)
            case JobOrderEnded():
                self._end_order(item)
            case JobStepEnded():
                self._end_step(item)

    def _look_at(self, item: JobLookedAt) -> None:
        """Ask what is to be written of a job; what was not written there is not written here."""
        name, migrations = item.name, self._migrations
        migrations.queue.remove(name)
        with self._clock.set_ahead(NOTED_AFTER_S):
            step = migrations.action_of(name)
        if (found := step_name(step)) != item.step:
            job = migrations.get(name)
            self._differs(PodReference() if job is None else job.pod, found, item.step)
        elif step is not None and found:
            self._under_way[name] = step

    def _end_order(self, item: JobOrderEnded) -> None:
        pending = self._migrations.pending_jobs
        while (taken := pending.take()) is not None:
            self._ordered[taken.pod.uid] = taken
        if (order := self._ordered.pop(item.uid, None)) is None:
            return
        if item.error:
            self._answers.not_made(order, item.error)
        else:
            pod = PodReference.to(order.pod)
            self._answers.made(order, MigrationJob(name=order.name, uid="", pod=pod))

    def _end_step(self, item: JobStepEnded) -> None:
        if (step := self._under_way.pop(item.name, None)) is None:
            return
        if item.error:
            self._answers.refused(step, item.error)
        else:
            written = self._migrations.get(item.name) or step.job if item.is_written else None
            self._answers.carried_out(step, written)

    def _announce(self, change: Change) -> None:
        if self._controller.apply((change,)):
            self._controller.next_due(self._clock.now)  # as the worker asks, which it counts from
