"""Takes the API server's answers to what is written of jobs, in the process and in a replay.

What a write changed of a job itself comes with the job, from the answer or from the watch.
"""

from collections.abc import Callable
from typing import Final

from reactive_desched.migration.actions import (
    Action,
    CreatePlaceholder,
    CreateReservation,
    DeleteJob,
)
from reactive_desched.migration.admission import NewJob
from reactive_desched.migration.migrations import Migrations
from reactive_desched.migration.step_records import MigrationSteps
from reactive_desched.model.changes import Change, MigrationJobEnded
from reactive_desched.model.migration_jobs import MigrationJob

RETRY_S: Final = 5.0
"""How long a write that failed, or was overtaken, waits to be tried again."""


class JobAnswers:
    """Takes the answers to orders and steps, and has `steps` record what was made and deleted.

    `announce` takes a change that the cluster does not show.
    """

    def __init__(
        self, migrations: Migrations, announce: Callable[[Change], None], steps: MigrationSteps
    ) -> None:
        self._migrations: Final = migrations
        self._announce: Final = announce
        self._steps: Final = steps

    def made(self, order: NewJob, job: MigrationJob | None) -> None:
        """A job was made; None where it is gone already."""
        self._migrations.end_order(order, made=True)
        self._steps.ordered(order, job)

    def not_made(self, order: NewJob, error: str) -> None:
        """A job could not be made: its finding is evaluated again."""
        self._steps.ordered(order, None, error)
        self._migrations.end_order(order, made=False)
        self._announce(MigrationJobEnded(order.name))

    def carried_out(self, step: Action, written: MigrationJob | None) -> None:
        """A step was carried out: `written` is the job as it is then.

        None stands for a job that is gone, or differs since the step was decided on.
        """
        self._steps.carried_out(step, written)
        if written is None and not isinstance(step, DeleteJob):
            self._migrations.queue.add_after(step.job.name, RETRY_S)
        elif isinstance(step, CreatePlaceholder | CreateReservation):
            self._migrations.end_attempt(step.job.name)

    def refused(self, step: Action, error: str) -> None:
        """The API server refused a step, or did not answer: it is tried again."""
        self._steps.refused(step, error)
        if isinstance(step, CreatePlaceholder | CreateReservation):
            self._migrations.end_attempt(step.job.name, error)
        else:
            self._migrations.queue.add_after(step.job.name, RETRY_S)
