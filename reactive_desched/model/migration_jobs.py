"""A migration job: one pod that is to be moved, and how far the move is.

It is koordinator's PodMigrationJob, of which only that is kept which decides.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.eviction_options import DeleteOptions
from reactive_desched.model.kube_events import Regarding
from reactive_desched.model.objects import OwnerReference, Pod

API_VERSION: Final = "scheduling.koordinator.sh/v1alpha1"
KIND: Final = "PodMigrationJob"
RESOURCE: Final = "podmigrationjobs"

MIGRATION_PROFILE: Final = "migration"
"""The profile that records name for the findings of migration jobs."""

PASSED_ARBITRATION: Final = "descheduler.koordinator.sh/passed-arbitration"
"""koordinator's annotation of a job that arbitration let through: `true`."""
EVICT_REASON: Final = "koordinator.sh/evict-reason"
EVICT_TRIGGER: Final = "koordinator.sh/evict-trigger"
ABORT: Final = "reactive-desched/abort"
"""Our annotation by which a person aborts a job whose pod was not evicted yet: `true`."""

PLACEHOLDER_OF: Final = "reactive-desched/placeholder-of"
"""Our label of a pod that keeps a place for a job's replacement: the job's uid."""
PLACEHOLDER_FOR: Final = "reactive-desched/placeholder-for"
"""Our label of the same pod: the uid of the controller whose next pod is to take the place."""

PLACEHOLDER_FOR_KIND: Final = "reactive-desched/placeholder-for-kind"
"""Our label of the same pod: the kind of that controller."""


class Phase(StrEnum):
    """The phase of a job; one that was just made has none, which means Pending."""

    NONE = ""
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"


ENDED: Final = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.ABORTED})
"""The phases in which a job stays until it is deleted."""


class Mode(StrEnum):
    """The way in which a job moves its pod; a job without one has the mode of the settings."""

    EVICT_DIRECTLY = "EvictDirectly"
    RESERVATION_FIRST = "ReservationFirst"


class SkipGate(StrEnum):
    """A check that `skipEvictionGates` leaves out."""

    MIGRATING_GLOBALLY = "MaxMigratingGlobally"
    MIGRATING_PER_NODE = "MaxMigratingPerNode"
    MIGRATING_PER_NAMESPACE = "MaxMigratingPerNamespace"
    MIGRATING_PER_WORKLOAD = "MaxMigratingPerWorkload"
    UNAVAILABLE_PER_WORKLOAD = "MaxUnavailablePerWorkload"
    EXPECTED_REPLICAS = "ExpectedReplicas"
    PVC = "PVC"
    BARE_PODS = "BarePods"
    LOCAL_STORAGE = "LocalStorage"
    SYSTEM_CRITICAL = "SystemCritical"
    PRIORITY_THRESHOLD = "PriorityThreshold"
    LABEL_SELECTOR = "LabelSelector"
    NAMESPACES = "Namespaces"
    NODE_FIT = "NodeFit"


class PodReference(Struct, frozen=True, gc=False, omit_defaults=True):
    """The pod that a job names; jobs that people write often leave the uid out."""

    namespace: str = ""
    name: str = ""
    uid: str = ""

    @classmethod
    def to(cls, pod: Pod) -> Self:
        """Return the reference to a pod, by its uid as well."""
        return cls(pod.namespace, pod.name, pod.uid)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class JobCondition(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One step of a job; times as the API server writes them, empty for none."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None


class JobStatus(Struct, frozen=True, gc=False):
    """The status of a job; `step` is the last condition that changed, or Complete.

    `node` is where the place for the pod's replacement is, and `replacement` the pod that took it.
    """

    phase: Phase = Phase.NONE
    step: str = ""
    reason: str = ""
    message: str = ""
    node: str = ""
    replacement: PodReference | None = None
    conditions: tuple[JobCondition, ...] = ()

    def condition(self, kind: str) -> JobCondition | None:
        """Return the condition of a type, where there is one."""
        for each in self.conditions:
            if each.type == kind:
                return each
        return None

    def holds(self, kind: str) -> bool:
        """Say whether there is a condition of this type that is true."""
        found = self.condition(kind)
        return found is not None and found.status == "True"

    def with_condition(self, condition: JobCondition) -> "JobStatus":
        """Return the status after a step; its time stays where only the words differ."""
        before = self.condition(condition.type)
        if before is not None and before.status == condition.status:
            condition = replace(condition, last_transition_time=before.last_transition_time)
        return replace(
            self,
            step=condition.type,
            reason=condition.reason,
            message=condition.message,
            conditions=tuple(_in_place_of(before, condition, self.conditions)),
        )


def _in_place_of(
    before: JobCondition | None, condition: JobCondition, conditions: Iterable[JobCondition]
) -> Iterable[JobCondition]:
    if before is None:
        return (*conditions, condition)
    return (condition if each is before else each for each in conditions)


class MigrationJob(Struct, frozen=True, gc=False, kw_only=True):
    """One PodMigrationJob; `created_s` is in whole seconds since the epoch.

    `has_passed` says that an arbitration let it through: its annotation, which it keeps for good.
    `ttl_s` is 0 where it never times out. `trigger` names the plugin that found the pod, and
    `cause` why; both are empty where a person made the job. `is_unlimited` says that no object
    limiter holds it up. `policy` and `delete_options` say how its pod is asked to leave; where they
    say nothing the settings do.
    """

    name: str
    uid: str
    pod: PodReference
    resource_version: int = 0
    created_s: int = 0
    status: JobStatus = JobStatus()
    has_passed: bool = False
    trigger: str = ""
    cause: str = ""
    mode: str = ""
    ttl_s: float = 0.0
    is_paused: bool = False
    is_to_be_aborted: bool = False
    reservation: str = ""
    is_unlimited: bool = False
    policy: str = ""
    delete_options: DeleteOptions | None = None

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    def is_made_for(self, uid: str) -> bool:
        """Say whether this program made it, for a pod that a plugin had found."""
        return bool(uid) and self.name.startswith(f"{uid}-")

    @property
    def placeholder_name(self) -> str:
        """Return the name of the job's placeholder."""
        return f"placeholder-{self.uid}"

    @property
    def names_own_reservation(self) -> bool:
        """Say whether it names the Reservation that is made for it, and has its uid for a name."""
        return self.reservation == self.uid

    @property
    def phase(self) -> Phase:
        """Return how far the job is."""
        return self.status.phase

    @property
    def is_pending(self) -> bool:
        """Say whether the move has not begun."""
        return self.status.phase in (Phase.NONE, Phase.PENDING)

    @property
    def has_ended(self) -> bool:
        """Say whether nothing more comes of the job."""
        return self.status.phase in ENDED


CREATE, DELETE, END = "create", "delete", "end"
"""What a MigrationStep does: make or delete an object, or end the job."""

DONE, NOT_DONE = "done", "failed"


class MigrationStep(Struct, frozen=True, gc=False):
    """A step of a job, for the record: the object it wrote, the pod, and the result.

    `result` is one of the above, or the phase in which the job ended; `reason` is then that of its
    status. `trigger` names what had the job made. `owners` and `zone` are those of the pod, as far
    as they are known.
    """

    action: str
    object: Regarding
    job: str
    pod: Pod
    result: str
    message: str = ""
    reason: str = ""
    trigger: str = ""
    owners: tuple[OwnerReference, ...] = ()
    zone: str = ""


class JobOfPod(Struct, frozen=True, gc=False):
    """A job and the pod that it names; None where there is no such pod."""

    job: MigrationJob
    pod: Pod | None
