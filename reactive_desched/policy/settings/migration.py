"""Settings of migration jobs: which may begin, and how long each may take.

The names are those of koordinator's MigrationControllerArgs, and so are the defaults but for the
mode.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from reactive_desched.api.args import (
    INT32_MAX,
    FieldError,
    FieldErrors,
    Int32,
    Seconds,
    Section,
    SelectorObject,
)
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import Namespaces
from reactive_desched.model.eviction_options import EVICTION, DeleteOptions
from reactive_desched.model.evictor_table import EVICTORS, EvictorName
from reactive_desched.model.migration_jobs import Mode, SkipGate
from reactive_desched.policy.settings.limit_values import limit_reader

MAX_LIMIT: Final = 1_000_000
DEFAULT_PER_NODE: Final = 2
MAX_LIMITER_S: Final = 86_400.0
MAX_AT_ONCE: Final = 100
MIN_QPS: Final = 0.0001
MAX_QPS: Final = 1_000.0
_SHARE: Final = re.compile(r"(0|[1-9][0-9]*)%")

JobLimit = Annotated[int, Field(ge=0, le=MAX_LIMIT)]
WorkloadLimit = Annotated[
    int | str,
    PlainValidator(limit_reader(_SHARE)),
    WithJsonSchema(
        {"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^(0|[1-9][0-9]*)%$"}
    ),
]


def _choices() -> str:
    """Return what the evictors are, for people."""
    *others, last = (
        ", ".join(filter(None, (each.name, each.choice))) for each in EVICTORS.values()
    )
    return "; ".join((*others, f"or {last}"))


class MigratedPriority(Section):
    """From which priority on pods stay where they are."""

    value: Int32 | None = Field(default=None, description="The priority.")
    name: str = Field(
        default="",
        description="A PriorityClass whose value it is; while there is none of that name, no pod "
        "with a priority is moved.",
    )


class PlaceholderSettings(Section):
    """The pods that keep a place for the replacement until the pod is evicted."""

    image: str = Field(
        default="registry.k8s.io/pause:3.10",
        min_length=1,
        description="The image of their container, which does nothing.",
    )
    priority_class_name: str = Field(
        default="",
        description="Their PriorityClass; left out, the cluster's default. One below those of "
        "other pods lets any of them take the place before the eviction.",
    )


class DefaultDeleteOptions(Section):
    """Options of the eviction, or the deletion, of a pod."""

    grace_period_seconds: Annotated[int, Field(ge=0, le=INT32_MAX)] | None = Field(
        default=None, description="Overrides the grace period of the pod and of the policy."
    )
    propagation_policy: Literal["Background", "Foreground", "Orphan"] | None = Field(
        default=None, description="What becomes of objects that the pod owns."
    )

    @property
    def options(self) -> DeleteOptions:
        """The options as a request has them."""
        return DeleteOptions(self.grace_period_seconds, self.propagation_policy)


class ObjectLimiterSettings(Section):
    """The rate at which the pods of one workload, or of one namespace, are moved."""

    duration_s: Annotated[Seconds, Field(le=MAX_LIMITER_S)] = Field(
        default=0.0, description="The time, at most 24h; 0s: no limit."
    )
    max_migrating: WorkloadLimit | None = Field(
        default=None,
        description="So many pods in that time, evenly; of a workload a number or a percentage of "
        "its replicas, as maxMigratingPerWorkload when left out; of a namespace a number, and any "
        "when left out.",
    )
    burst: Annotated[int, Field(ge=0, le=MAX_LIMIT)] = Field(
        default=0, description="The most at once after a quiet time; 0 is 1."
    )


LimitedObject = Literal["workload", "namespace"]


class MigrationSettings(Section):
    """Migration jobs move pods by these fields and defaults of koordinator."""

    default_job_mode: Mode = Field(
        default=Mode.EVICT_DIRECTLY,
        description="The mode of jobs that say none: EvictDirectly, or ReservationFirst, which "
        "first keeps a place for the replacement and needs `placeholder`.",
    )
    default_job_ttl_s: Seconds = Field(
        default=300.0,
        validation_alias="defaultJobTTL",
        serialization_alias="defaultJobTTL",
        description="How long a job made by the controller may take from its creation; 0s: for "
        "ever. Of other jobs `spec.ttl` says it.",
    )
    max_migrating_globally: JobLimit = Field(
        default=0, description="So many jobs may be in progress at once; 0: any number."
    )
    max_migrating_per_node: JobLimit = Field(
        default=DEFAULT_PER_NODE, description="The same for the pods of one node."
    )
    max_migrating_per_namespace: JobLimit = Field(
        default=0, description="The same for the pods of one namespace."
    )
    max_migrating_per_workload: WorkloadLimit | None = Field(
        default=None,
        description="So many pods of one workload may be moved at once: a number, or a percentage "
        "of its replicas, rounded down, at least 1. Left out: 1 below 4 replicas, 2 up to 10, a "
        "tenth of them above.",
    )
    max_unavailable_per_workload: WorkloadLimit | None = Field(
        default=None,
        description="So many pods of one workload may be moved or unavailable at once; as above.",
    )
    skip_check_expected_replicas: bool = Field(
        default=False,
        description="Also move pods of workloads with one replica, or with no more than may move "
        "at once.",
    )
    evict_failed_bare_pods: bool = Field(
        default=False, description="Also move pods without an owner that have failed."
    )
    evict_all_bare_pods: bool = Field(
        default=False, description="Also move pods without an owner, which no controller replaces."
    )
    evict_local_storage_pods: bool = Field(
        default=False, description="Also move pods with a hostPath or emptyDir volume."
    )
    evict_system_critical_pods: bool = Field(
        default=False,
        description="Also move pods of priority 2000000000 and above; priorityThreshold then "
        "protects none.",
    )
    ignore_pvc_pods: bool = Field(
        default=False, description="Leave pods alone that use a PersistentVolumeClaim."
    )
    priority_threshold: MigratedPriority = Field(
        default=MigratedPriority.model_construct(),
        description="Pods of this priority or above are not moved.",
    )
    label_selector: SelectorObject | None = Field(
        default=None, description="Only pods with matching labels are moved."
    )
    namespaces: Namespaces = Field(
        default=Namespaces.model_construct(),
        description="The namespaces whose pods may be moved; all when left out.",
    )
    skip_eviction_gates: tuple[SkipGate, ...] = Field(
        default=(), description="Checks that are left out, whatever the other fields say."
    )


class MigrationJobSettings(MigrationSettings):
    """Migration jobs: PodMigrationJobs of koordinator's API, each of which moves one pod.

    While this section is there, jobs are watched, and one that a person makes is carried out.
    `null`, or leaving it out, switches all of it off.
    """

    scheduler_names: tuple[str, ...] = Field(
        default=(),
        description="The schedulers that know koordinator's Reservations, such as koord-scheduler. "
        "Jobs of mode ReservationFirst keep a place for their pods by a Reservation, for those of "
        "other schedulers by `placeholder`.",
    )
    placeholder: PlaceholderSettings | None = Field(
        default=None,
        description="Jobs of mode ReservationFirst keep a place by a placeholder: a pod that "
        "requests what the moved one does, on another node. Left out, only pods of "
        "`schedulerNames` are moved so.",
    )

    object_limiters: Mapping[LimitedObject, ObjectLimiterSettings] = Field(
        default={},
        description="How often the pods of one `workload` or `namespace` are moved by jobs. A job "
        "with the annotation descheduler.alpha.kubernetes.io/evict is not held up.",
    )
    evict_qps: Annotated[float, Field(ge=MIN_QPS, le=MAX_QPS)] = Field(
        default=10.0,
        validation_alias="evictQPS",
        serialization_alias="evictQPS",
        description="Evictions by jobs per second, from 0.0001 (one in three hours) to 1000. "
        "`budgets` hold as well.",
    )
    evict_burst: Annotated[int, Field(gt=0, le=MAX_LIMIT)] = Field(
        default=1, description="The most at once after a quiet time."
    )
    max_concurrent_reconciles: Annotated[int, Field(ge=1, le=MAX_AT_ONCE)] = Field(
        default=8,
        description="How many jobs are written at once, each with its placeholder or Reservation; "
        "koordinator's default is 1.",
    )
    eviction_policy: EvictorName = Field(
        default=EVICTION,
        description=f"How pods are asked to leave: {_choices()}. Each but the first takes a right "
        "of its own. The label koordinator.sh/evict-policy of a pod, or else of its job, comes "
        "first.",
    )
    default_delete_options: DefaultDeleteOptions | None = Field(
        default=None, description="Options of jobs without `spec.deleteOptions`."
    )

    @model_validator(mode="after")
    def _check_limiters(self) -> "MigrationJobSettings":
        limiter = self.object_limiters.get("namespace")
        if limiter is not None and isinstance(limiter.max_migrating, str):
            error = FieldError(
                "a share of the replicas limits no namespace",
                "write a number of pods",
                ("objectLimiters", "namespace", "maxMigrating"),
                rule=Rule.NOT_A_LIMIT,
            )
            raise FieldErrors([error])
        return self

    @model_validator(mode="after")
    def _check_threshold(self) -> "MigrationJobSettings":
        threshold = self.priority_threshold
        if threshold.value is not None and threshold.name:
            error = FieldError(
                "value and name both say the threshold",
                "remove one of them",
                ("priorityThreshold", "name"),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
            raise FieldErrors([error])
        return self

    @model_validator(mode="after")
    def _check_mode(self) -> "MigrationJobSettings":
        keeps_places = self.placeholder is not None or bool(self.scheduler_names)
        if self.default_job_mode is Mode.RESERVATION_FIRST and not keeps_places:
            error = FieldError(
                "ReservationFirst needs schedulerNames or placeholder, which keep a place",
                "write placeholder: {} beside it, or schedulerNames: [koord-scheduler]",
                ("defaultJobMode",),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
            raise FieldErrors([error])
        return self
