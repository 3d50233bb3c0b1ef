"""Records what is made and deleted for migration jobs, and how the jobs end."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from reactive_desched.migration.actions import (
    Action,
    CreatePlaceholder,
    CreateReservation,
    DeleteJob,
    DeletePlaceholder,
    DeleteReservation,
    SetStatus,
)
from reactive_desched.migration.admission import NewJob
from reactive_desched.model.kube_events import Regarding
from reactive_desched.model.migration_jobs import (
    API_VERSION,
    CREATE,
    DELETE,
    DONE,
    END,
    ENDED,
    KIND,
    NOT_DONE,
    MigrationJob,
    MigrationStep,
    PodReference,
)
from reactive_desched.model.objects import Pod
from reactive_desched.model.reservations import RESERVATION_API, RESERVATION_KIND
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.job_pods import JobPods
from reactive_desched.state.indexes.owners import OwnerIndex

MAX_REFUSED: Final = 10_000
"""So many steps that the API server refuses are remembered: one that is tried again is recorded
once for each of its errors."""


class MigrationSteps:
    """Turns steps of jobs into records; steps that make and delete nothing have none."""

    def __init__(self, view: ClusterView, record: Callable[[MigrationStep], None]) -> None:
        self._view = view
        self._record = record
        self._refused: OrderedDict[tuple[str, type[Action]], str] = OrderedDict()

    def ordered(self, order: NewJob, job: MigrationJob | None, error: str = "") -> None:
        """A job was made for a finding, or could not be."""
        uid, result = ("", NOT_DONE) if job is None else (job.uid, DONE)
        about = Regarding(KIND, "", order.name, uid, API_VERSION)
        step = MigrationStep(CREATE, about, order.name, order.pod, result, error or order.cause)
        self._write(step, order.trigger)

    def refused(self, step: Action, error: str) -> None:
        """The API server refused a step, or did not answer."""
        key = step.job.name, type(step)
        if self._refused.get(key) == error:
            return
        self._refused[key] = error
        if len(self._refused) > MAX_REFUSED:
            self._refused.popitem(last=False)
        self._record_step(step, step.job, NOT_DONE, error)

    def carried_out(self, step: Action, written: MigrationJob | None) -> None:
        """A step was carried out; `written` is the job as it is then."""
        self._refused.pop((step.job.name, type(step)), None)
        if written is not None or isinstance(step, DeleteJob):
            self._record_step(step, written or step.job, DONE)

    def _record_step(
        self, step: Action, written: MigrationJob, result: str, message: str = ""
    ) -> None:
        job, reason = step.job, ""
        match step:
            case CreatePlaceholder(pod=pod):
                action = CREATE
                about = Regarding("Pod", pod.namespace, job.placeholder_name)
            case CreateReservation():
                if result == DONE and not written.reservation:
                    return  # its pod is gone
                action, name = CREATE, written.reservation or job.uid
                about = Regarding(RESERVATION_KIND, "", name, "", RESERVATION_API)
            case DeletePlaceholder(placeholder=placeholder):
                action = DELETE
                about = Regarding("Pod", placeholder.namespace, placeholder.name, placeholder.uid)
            case DeleteReservation(reservation=kept):
                action = DELETE
                about = Regarding(RESERVATION_KIND, "", kept.name, kept.uid, RESERVATION_API)
            case DeleteJob():
                action, about = DELETE, _regarding(job)
            case SetStatus(status=status) if status.phase in ENDED and result == DONE:
                if job.phase in ENDED:
                    return
                action, about, result = END, _regarding(job), status.phase.value
                reason, message = status.reason, status.message
            case _:
                return
        pod = self._view.index(JobPods).pod_of(job) or _named(job.pod)
        self._write(
            MigrationStep(action, about, job.name, pod, result, message, reason), job.trigger
        )

    def _write(self, step: MigrationStep, trigger: str) -> None:
        pod = step.pod
        self._record(
            MigrationStep(
                *(step.action, step.object, step.job, pod, step.result, step.message, step.reason),
                trigger,
                self._view.index(OwnerIndex).chain(pod),
                self._view.zone(pod.node),
            )
        )


def _regarding(job: MigrationJob) -> Regarding:
    return Regarding(KIND, "", job.name, job.uid, API_VERSION)


def _named(reference: PodReference) -> Pod:
    """Return what is known of a pod that is gone."""
    return Pod(reference.namespace, reference.name, reference.uid)
