"""Jobs: what controls them, how many tries they have left, and whether they keep their pods."""

from collections.abc import Callable
from typing import Final

from msgspec import field

from reactive_desched.model.changes import WorkloadChanged
from reactive_desched.model.job_tries import SUSPENDED, UNLIMITED, FailureRule, JobTries
from reactive_desched.model.objects import Job
from reactive_desched.state.kinds.interning import (
    InternTables,
    epoch_seconds,
    parse_resource_version,
)
from reactive_desched.state.kinds.kind import (
    LargeParts,
    Purpose,
    Timestamp,
    WatchedKind,
    WireStruct,
)
from reactive_desched.state.kinds.owners import NO_TOPMOST_OWNER, OwnerMetadata, controller_reader

__all__ = ["JOB"]

_OURS: Final = "kubernetes.io/job-controller"
"""The value of spec.managedBy that means the Job controller of Kubernetes, as does none."""

_ENDED: Final = "Failed"
"""The value of spec.podReplacementPolicy by which a pod is replaced once it has ended."""

_OVER: Final = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})
"""The conditions of a Job that stops, or has stopped, whatever its pods do."""


class OnExitCodes(WireStruct, frozen=True, gc=False):
    """The exit codes that a rule is about."""

    operator: str = ""
    container_name: str | None = None
    values: tuple[int, ...] = ()


class OnPodCondition(WireStruct, frozen=True, gc=False):
    """A condition of a pod that a rule is about."""

    type: str = ""
    status: str = "True"


class PodFailurePolicyRule(WireStruct, frozen=True, gc=False):
    """A rule about pods that fail."""

    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class PodFailurePolicy(WireStruct, frozen=True, gc=False):
    """The rules about pods that fail; the first one that matches counts."""

    rules: tuple[PodFailurePolicyRule, ...] = ()


class BatchJobSpec(WireStruct, frozen=True, gc=False):
    """The fields of a Job's spec that decide how many pods run, and what follows a failure of one.

    One pod at a time is the API server's default.
    """

    parallelism: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    completions: int | None = None
    suspend: bool | None = None
    active_deadline_seconds: int | None = None
    managed_by: str | None = None
    pod_replacement_policy: str | None = None


class BatchJobCondition(WireStruct, frozen=True, gc=False):
    """A condition of a Job."""

    type: str = ""
    status: str = ""


class UncountedPods(WireStruct, frozen=True, gc=False):
    """Pods that have ended, and that the counters of the status have yet to add up."""

    failed: tuple[str, ...] = ()
    succeeded: tuple[str, ...] = ()


class BatchJobStatus(WireStruct, frozen=True, gc=False):
    """A Job's status."""

    failed: int = 0
    succeeded: int = 0
    start_time: Timestamp | None = None
    conditions: tuple[BatchJobCondition, ...] = ()
    uncounted: UncountedPods | None = field(name="uncountedTerminatedPods", default=None)


class WireJob(WireStruct, frozen=True, gc=False):
    """A Job's JSON; only its metadata where there is no spec."""

    metadata: OwnerMetadata
    spec: BatchJobSpec | None = None
    status: BatchJobStatus = BatchJobStatus()


def _reader(tables: InternTables) -> Callable[[WireJob], Job]:
    """Return a reader that keeps the controller, the opt-out, the size, and the tries left."""
    read_controller = controller_reader(tables)

    def read(wire: WireJob) -> Job:
        metadata = wire.metadata
        return Job(
            metadata.uid,
            parse_resource_version(metadata.resource_version),
            read_controller(metadata.owner_references),
            metadata.annotations.do_not_evict,
            None if wire.spec is None else _wanted(wire.spec, wire.status),
            answer=metadata.annotations.answer,
            is_terminating=metadata.deletion_timestamp is not None,
            tries=None if wire.spec is None else _tries(wire.spec, wire),
        )

    return read


def _wanted(spec: BatchJobSpec, status: BatchJobStatus) -> int | None:
    """Return how many pods run at a time, as the Job controller counts; None if it is not known.

    One without completions begins none once a pod has succeeded: those that run are as many as it
    wants.
    """
    wanted = 1 if spec.parallelism is None else spec.parallelism
    succeeded = status.succeeded
    if status.uncounted is not None:
        succeeded += len(status.uncounted.succeeded)
    if spec.managed_by not in (None, "", _OURS) or (spec.completions is None and succeeded):
        return None
    return wanted if spec.completions is None else min(wanted, spec.completions - succeeded)


def _tries(spec: BatchJobSpec, wire: WireJob) -> JobTries:
    status, per_index = wire.status, spec.backoff_limit_per_index
    uncounted, started_s = status.uncounted, epoch_seconds(status.start_time)
    policy, limit = spec.pod_failure_policy, spec.backoff_limit
    if limit is None:
        limit = JobTries().backoff_limit if per_index is None else UNLIMITED
    deadline_s = spec.active_deadline_seconds
    has_ended = any(each.type in _OVER and each.status == "True" for each in status.conditions)
    return JobTries(
        limit,
        per_index,
        status.failed + (0 if uncounted is None else len(uncounted.failed)),
        () if policy is None else tuple(map(_rule, policy.rules)),
        _why_no_pod(spec, status),
        has_ended or wire.metadata.deletion_timestamp is not None,
        None if deadline_s is None or started_s is None else started_s + deadline_s,
        # The API server's default is Failed where there is a podFailurePolicy.
        (spec.pod_replacement_policy or (_ENDED if policy is not None else "")) == _ENDED,
        has_ended,
    )


def _rule(wire: PodFailurePolicyRule) -> FailureRule:
    if (codes := wire.on_exit_codes) is not None:
        return FailureRule(wire.action, codes.values, codes.operator, codes.container_name or "")
    conditions = tuple((each.type, each.status) for each in wire.on_pod_conditions)
    return FailureRule(wire.action, conditions=conditions)


def _why_no_pod(spec: BatchJobSpec, status: BatchJobStatus) -> str:
    """Say why a Job makes no new pod for one that is gone; empty where it does."""
    if spec.managed_by not in (None, "", _OURS):
        return f"{spec.managed_by} manages it, whose rules are not known here"
    if spec.suspend:
        return SUSPENDED
    if spec.completions is None and status.succeeded:
        return "it has no completions, and begins no pod once one has succeeded"
    return ""


JOB: Final = WatchedKind(
    kind="Job",
    resource="jobs",
    api_version="batch/v1",
    namespaced=True,
    record=Job,
    wire=WireJob,
    large_parts=LargeParts(limits={"status.uncountedTerminatedPods.failed": 1024 * 1024}),
    make_reader=_reader,
    make_change=lambda job: WorkloadChanged(job.uid),
    purpose=Purpose.OWNERS,
    read_for="the CronJob above a pod's Job, and whether an eviction ends the Job",
    if_forbidden=f"{NO_TOPMOST_OWNER}; the pods of Jobs are not evicted",
)
