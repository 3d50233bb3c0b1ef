"""PodMigrationJobs of koordinator's API: which pods are to be moved, and how far each move is."""

from typing import Final

from msgspec import field

from reactive_desched.model.changes import MigrationJobChanged
from reactive_desched.model.eviction_options import POLICY_LABEL, DeleteOptions
from reactive_desched.model.migration_jobs import (
    ABORT,
    API_VERSION,
    EVICT_REASON,
    EVICT_TRIGGER,
    KIND,
    PASSED_ARBITRATION,
    RESOURCE,
    JobCondition,
    JobStatus,
    MigrationJob,
    Phase,
    PodReference,
)
from reactive_desched.model.opt_outs import EVICT, is_set
from reactive_desched.primitives.durations import DurationError, parse_duration
from reactive_desched.state.kinds.interning import epoch_seconds, parse_resource_version
from reactive_desched.state.kinds.kind import (
    Metadata,
    Purpose,
    Timestamp,
    WatchedKind,
    WireStruct,
)

__all__ = ["POD_MIGRATION_JOB"]

TRUE: Final = "true"


class JobAnnotations(WireStruct, frozen=True, gc=False):
    """The annotations that matter of a job."""

    passed: str = field(name=PASSED_ARBITRATION, default="")
    cause: str = field(name=EVICT_REASON, default="")
    trigger: str = field(name=EVICT_TRIGGER, default="")
    abort: str = field(name=ABORT, default="")
    evict: str | None = field(name=EVICT, default=None)


class JobMetadata(Metadata, frozen=True, gc=False):
    """A job's metadata."""

    creation_timestamp: Timestamp | None = None
    annotations: JobAnnotations = JobAnnotations()


class NamedObject(WireStruct, frozen=True, gc=False):
    """A reference by name."""

    name: str = ""


class ReservationOptions(WireStruct, frozen=True, gc=False):
    """The Reservation that the job uses."""

    reservation_ref: NamedObject = NamedObject()


class JobSpec(WireStruct, frozen=True, gc=False):
    """The spec of a migration job."""

    pod_ref: PodReference = PodReference()
    mode: str = ""
    ttl: str = ""
    paused: bool = False
    delete_options: DeleteOptions | None = None
    reservation_options: ReservationOptions = ReservationOptions()


class WireJobStatus(WireStruct, frozen=True, gc=False):
    """The status of a migration job."""

    phase: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    node_name: str = ""
    pod_ref: PodReference | None = None
    conditions: tuple[JobCondition, ...] = ()


class WirePodMigrationJob(WireStruct, frozen=True, gc=False):
    """A PodMigrationJob's JSON."""

    metadata: JobMetadata
    spec: JobSpec = JobSpec()
    status: WireJobStatus = WireJobStatus()


def _read(wire: WirePodMigrationJob) -> MigrationJob:
    metadata, spec = wire.metadata, wire.spec
    annotations = metadata.annotations
    return MigrationJob(
        name=metadata.name,
        uid=metadata.uid,
        pod=spec.pod_ref,
        resource_version=parse_resource_version(metadata.resource_version),
        created_s=epoch_seconds(metadata.creation_timestamp) or 0,
        status=_status(wire.status),
        has_passed=annotations.passed == TRUE,
        trigger=annotations.trigger,
        cause=annotations.cause,
        mode=spec.mode,
        ttl_s=_seconds(spec.ttl),
        is_paused=spec.paused,
        is_to_be_aborted=annotations.abort == TRUE,
        reservation=spec.reservation_options.reservation_ref.name,
        is_unlimited=is_set(annotations.evict),
        policy=metadata.labels.get(POLICY_LABEL, ""),
        delete_options=spec.delete_options,
    )


def _status(wire: WireJobStatus) -> JobStatus:
    """Read a status; a job in a phase that is not known is left alone, as one that has ended."""
    known = wire.phase in set(Phase)
    return JobStatus(
        phase=Phase(wire.phase) if known else Phase.ABORTED,
        step=wire.status,
        reason=wire.reason,
        message=wire.message,
        node=wire.node_name,
        replacement=wire.pod_ref,
        conditions=wire.conditions,
    )


def _seconds(ttl: str) -> float:
    """Read a duration; None for one that koordinator cannot read either."""
    try:
        return max(0.0, parse_duration(ttl)) if ttl else 0.0
    except DurationError:
        return 0.0


POD_MIGRATION_JOB: Final = WatchedKind(
    kind=KIND,
    resource=RESOURCE,
    api_version=API_VERSION,
    namespaced=False,
    record=MigrationJob,
    wire=WirePodMigrationJob,
    make_reader=lambda _: _read,
    make_change=lambda job: MigrationJobChanged(job.name),
    purpose=Purpose.MIGRATION,
    read_for="pods that are to be moved; watched only while the settings have `migration`",
    if_forbidden="migration jobs are not seen and move nothing",
)
