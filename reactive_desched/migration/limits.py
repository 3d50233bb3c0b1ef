"""The limits that hold a job back until another ends, and the check of a workload's size.

Counts, exceptions and order are koordinator's; the first limit that is reached decides.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import ClassVar, Final

from msgspec import Struct

from reactive_desched.gate.filters import Rejection
from reactive_desched.migration.in_progress import JobsInProgress, PodName
from reactive_desched.migration.settings import ArbitrationSettings, WorkloadLimit
from reactive_desched.model.changes import MigrationJobEnded
from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.migration_jobs import SkipGate
from reactive_desched.model.objects import OwnerReference, Pod, controller_of
from reactive_desched.model.wakes import ChangeTypes, WakeOn, WakeOnPod, WakeOnWorkload
from reactive_desched.text.counts import format_count

_LARGE: Final = 10
_SMALL: Final = 4


def workload_limit(replicas: int, written: WorkloadLimit) -> int:
    """Return the limit for so many replicas, never above them.

    A share is rounded down, and a limit that comes to 0 means 1. Unset, it is 1 below 4 replicas, 2
    up to 10, and a tenth above. A negative number stays negative: it allows nothing.
    Raises ValueError for a text that is no whole percentage.
    """
    if written is None:
        return min(replicas, _unset_limit(replicas))
    limit = written if isinstance(written, int) else _percentage(written) * replicas // 100
    return min(replicas, limit or 1)


def _unset_limit(replicas: int) -> int:
    if replicas > _LARGE:
        return replicas // 10
    return 2 if replicas >= _SMALL else 1


def _percentage(written: str) -> int:
    digits = written.removesuffix("%")
    if digits == written or not (digits.isascii() and digits.removeprefix("-").isdecimal()):
        raise ValueError(f'"{written}" is no limit: write a whole number, or a share such as 25%')
    return int(digits)


_GATE: Final = "MigrationLimit"
TOO_MANY_JOBS: Final = GateReason(
    _GATE,
    "MaxMigratingGlobally",
    "As many migration jobs are in progress as `maxMigratingGlobally` allows.",
    "maxMigratingGlobally",
)
TOO_MANY_ON_NODE: Final = GateReason(
    _GATE,
    "MaxMigratingPerNode",
    "As many pods of the node have a migration job in progress as `maxMigratingPerNode` allows.",
    "maxMigratingPerNode",
)
TOO_MANY_IN_NAMESPACE: Final = GateReason(
    _GATE,
    "MaxMigratingPerNamespace",
    "As many migration jobs of the namespace are in progress as `maxMigratingPerNamespace` allows.",
    "maxMigratingPerNamespace",
)
TOO_MANY_OF_WORKLOAD: Final = GateReason(
    _GATE,
    "MaxMigratingPerWorkload",
    "As many pods of the workload are being moved as `maxMigratingPerWorkload` allows.",
    "maxMigratingPerWorkload",
)
TOO_MANY_UNAVAILABLE: Final = GateReason(
    _GATE,
    "MaxUnavailablePerWorkload",
    "As many pods of the workload are unavailable or being moved as `maxUnavailablePerWorkload` "
    "allows.",
    "maxUnavailablePerWorkload",
)
WORKLOAD_UNREADABLE: Final = GateReason(
    _GATE, "WorkloadUnreadable", "The workload of the pod cannot be read, so its size is unknown."
)
TOO_FEW_EXPECTED: Final = GateReason(
    "ExpectedReplicas",
    "ExpectedReplicas",
    "The workload has one replica, or no more than its limits would let move at a time, or it is "
    "gone.",
    "skipCheckExpectedReplicas",
)


class WakeOnAnyJob(WakeOn, frozen=True, gc=False):
    """One migration job fewer counts against the limits."""

    changes: ClassVar[ChangeTypes] = (MigrationJobEnded,)
    words = "the end of another migration job"


def wakes_of(pod: Pod) -> tuple[WakeOn, ...]:
    """Return what may end a wait for the limits on jobs."""
    controller = controller_of(pod.owners)
    workload = () if controller is None else (WakeOnWorkload(controller.uid),)
    return WakeOnPod(pod.uid), WakeOnAnyJob(), *workload


def refused(finding: Finding, rejection: Rejection, wakes: tuple[WakeOn, ...]) -> Refuse:
    """Refuse a pod for the reason for which arbitration rejects its job."""
    reason, message = rejection
    setting = f"migration.{reason.setting}" if reason.setting else ""
    return reason.refuse(finding, message, wakes, setting=setting)


class WorkloadSize(Struct, frozen=True, gc=False):
    """The number of pods that a workload wants, and of those it has; none where it is gone."""

    replicas: int
    pods: Iterable[Pod] = ()
    is_gone: bool = False


SizeOf = Callable[[Pod], WorkloadSize | None]
"""Returns the workload of a pod that has a controller; None where it cannot be read."""


class MovableWorkload:
    """A workload as a round sees it: its limits, and its pods that are unavailable."""

    def __init__(self, size: WorkloadSize, settings: ArbitrationSettings) -> None:
        self.replicas: Final = size.replicas
        self.is_gone: Final = size.is_gone
        self.may_move: Final = workload_limit(size.replicas, settings.max_migrating_per_workload)
        self.may_be_unavailable: Final = workload_limit(
            size.replicas, settings.max_unavailable_per_workload
        )
        self._pods: Final = size.pods

    @cached_property
    def unavailable(self) -> frozenset[PodName]:
        """The pods that are not Ready, have ended or are terminating."""
        return frozenset(
            (pod.namespace, pod.name)
            for pod in self._pods
            if pod.has_ended or pod.is_terminating or not pod.status.is_ready
        )


class MigrationLimits:
    """The limits as they are in one round, during which the cluster does not change.

    What the pods of a controller have in common is found out once.
    """

    def __init__(
        self, settings: ArbitrationSettings, in_progress: JobsInProgress, size_of: SizeOf
    ) -> None:
        self._settings = settings
        self._in_progress = in_progress
        self._size_of = size_of
        self._workloads: Final[dict[str, MovableWorkload | None]] = {}
        counts: Mapping[SkipGate, tuple[GateReason, Callable[[Pod], int], Callable[[Pod], str]]] = {
            SkipGate.MIGRATING_GLOBALLY: (TOO_MANY_JOBS, in_progress.in_cluster, lambda _: ""),
            SkipGate.MIGRATING_PER_NODE: (
                TOO_MANY_ON_NODE,
                in_progress.on_node,
                lambda pod: f" on node {pod.node}",
            ),
            SkipGate.MIGRATING_PER_NAMESPACE: (
                TOO_MANY_IN_NAMESPACE,
                in_progress.in_namespace,
                lambda pod: f" in namespace {pod.namespace}",
            ),
        }
        self._counts: Final = [
            (limit, *counts[gate]) for gate, limit in settings.job_limits.items()
        ]

    def too_small(self, pod: Pod) -> Rejection | None:
        """Reject for good a pod whose workload is no larger than what may move at a time."""
        if (controller := controller_of(pod.owners)) is None:
            return None
        name = controller.named(pod.namespace)
        if (workload := self._workload_of(pod, controller)) is None:
            return WORKLOAD_UNREADABLE, f"{name} cannot be read"
        replicas, may_move = workload.replicas, workload.may_move
        if self._settings.skip_check_expected_replicas:
            return None
        if replicas not in (1, may_move, workload.may_be_unavailable):
            return None
        if workload.is_gone:
            return (
                TOO_FEW_EXPECTED,
                f"{name} does not exist: no pod would be made again",
            )
        limit = max(may_move, workload.may_be_unavailable)
        return TOO_FEW_EXPECTED, (
            f"{name} has {format_count(replicas, 'replica')}, and {limit} may move at a time"
        )

    def reached(self, pod: Pod) -> Rejection | None:
        """Return the first limit that holds the pod's job back now, or None."""
        for limit, reason, count, where in self._counts:
            if (moving := count(pod)) >= limit:
                jobs = format_count(moving, "migration job", "is", "are")
                return (
                    reason,
                    f"{jobs} in progress{where(pod)}, and {reason.setting} is {limit}",
                )
        return self._reached_of_workload(pod)

    def _reached_of_workload(self, pod: Pod) -> Rejection | None:
        settings, controller = self._settings, controller_of(pod.owners)
        if controller is None:
            return None
        name = controller.named(pod.namespace)
        if (workload := self._workload_of(pod, controller)) is None:
            return WORKLOAD_UNREADABLE, f"{name} cannot be read"
        moving, limit = self._in_progress.of_workload(pod), workload.may_move
        skipped = settings.skips(SkipGate.MIGRATING_PER_WORKLOAD)
        if moving and len(moving) >= limit and not skipped:
            return (
                TOO_MANY_OF_WORKLOAD,
                f"{len(moving)} pods of {name} move, at most {limit}",
            )
        if settings.skips(SkipGate.UNAVAILABLE_PER_WORKLOAD):
            return None
        unavailable, limit = moving | workload.unavailable, workload.may_be_unavailable
        if len(unavailable) < limit:
            return None
        return (
            TOO_MANY_UNAVAILABLE,
            f"{len(unavailable)} pods of {name} are unavailable or move, at most {limit}",
        )

    def _workload_of(self, pod: Pod, controller: OwnerReference) -> MovableWorkload | None:
        """Return the workload of a pod; None where it cannot be read."""
        uid = controller.uid
        if uid not in self._workloads:
            size = self._size_of(pod)
            found = None if size is None else MovableWorkload(size, self._settings)
            self._workloads[uid] = found
        return self._workloads[uid]
