"""The limits that hold a job back until another ends, and the check of a workload's size.

Counts, exceptions and order are koordinator's; the first limit that is reached decides.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from reactive_desched.gate.filters import Rejection
from reactive_desched.migration.in_progress import JobsInProgress, PodName
from reactive_desched.migration.settings import ArbitrationSettings
from reactive_desched.migration.workload_limit import workload_limit
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.migration_jobs import SkipGate
from reactive_desched.model.objects import Pod, controller_of

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


class WorkloadSize(Struct, frozen=True, gc=False):
    """How many pods a workload wants, and those that it has; none of either where it is gone."""

    replicas: int
    pods: Iterable[Pod] = ()
    is_gone: bool = False


SizeOf = Callable[[Pod], WorkloadSize | None]
"""Returns the workload of a pod that has a controller; None where it cannot be read."""


class MigrationLimits:
    """The limits as they stand in one round, during which the cluster does not change."""

    def __init__(
        self, settings: ArbitrationSettings, in_progress: JobsInProgress, size_of: SizeOf
    ) -> None:
        self._settings = settings
        self._in_progress = in_progress
        self._size_of = size_of
        self._unavailable: Final[dict[str, frozenset[PodName]]] = {}
        self._counts: Final[
            Mapping[SkipGate, tuple[GateReason, Callable[[Pod], int], Callable[[Pod], str]]]
        ] = {
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

    def too_small(self, pod: Pod) -> Rejection | None:
        """Reject for good a pod whose workload is no larger than what may move at a time."""
        if (controller := controller_of(pod.owners)) is None:
            return None
        if (size := self._size_of(pod)) is None:
            return WORKLOAD_UNREADABLE, f"{controller} cannot be read"
        settings = self._settings
        limits = (
            workload_limit(size.replicas, settings.max_migrating_per_workload),
            workload_limit(size.replicas, settings.max_unavailable_per_workload),
        )
        if settings.skip_check_expected_replicas or size.replicas not in (1, *limits):
            return None
        if size.is_gone:
            return TOO_FEW_EXPECTED, f"{controller} does not exist: no pod would be made again"
        return TOO_FEW_EXPECTED, (
            f"{controller} has {size.replicas} replicas, and {max(limits)} may move at a time"
        )

    def reached(self, pod: Pod) -> Rejection | None:
        """Return the first limit that holds the pod's job back now, or None."""
        return next(self._reached_limits(pod), None)

    def _reached_limits(self, pod: Pod) -> Iterator[Rejection]:
        for gate, most in self._settings.job_limits.items():
            reason, count, where = self._counts[gate]
            if (moving := count(pod)) >= most:
                jobs = "1 migration job is" if moving == 1 else f"{moving} migration jobs are"
                yield reason, f"{jobs} in progress{where(pod)}, and {reason.setting} is {most}"
        yield from self._reached_of_workload(pod)

    def _reached_of_workload(self, pod: Pod) -> Iterator[Rejection]:
        settings, controller = self._settings, controller_of(pod.owners)
        if controller is None:
            return
        if (size := self._size_of(pod)) is None:
            yield WORKLOAD_UNREADABLE, f"{controller} cannot be read"
            return
        moving = self._in_progress.of_workload(pod)
        most = workload_limit(size.replicas, settings.max_migrating_per_workload)
        skipped = settings.skips(SkipGate.MIGRATING_PER_WORKLOAD)
        if moving and len(moving) >= most and not skipped:
            yield (
                TOO_MANY_OF_WORKLOAD,
                f"{len(moving)} pods of {controller} move, at most {most}",
            )
        unavailable = moving | self._unavailable_of(controller.uid, size)
        most = workload_limit(size.replicas, settings.max_unavailable_per_workload)
        if len(unavailable) >= most and not settings.skips(SkipGate.UNAVAILABLE_PER_WORKLOAD):
            yield (
                TOO_MANY_UNAVAILABLE,
                f"{len(unavailable)} pods of {controller} are unavailable or move, at most {most}",
            )

    def _unavailable_of(self, controller: str, size: WorkloadSize) -> frozenset[PodName]:
        """Return the pods that are not Ready, have ended or are terminating; read once a round."""
        if (found := self._unavailable.get(controller)) is None:
            found = self._unavailable[controller] = frozenset(
                (pod.namespace, pod.name)
                for pod in size.pods
                if pod.has_ended or pod.is_terminating or not pod.status.is_ready
            )
        return found
