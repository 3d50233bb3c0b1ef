"""The arguments of koordinator's MigrationController, with its defaults and what it refuses."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo, WithJsonSchema

from reactive_desched.api.args import (
    INT32_MAX,
    INT64_MAX,
    FieldError,
    Int32,
    Path,
    Section,
    SelectorText,
    SignedSeconds,
    field_error,
)
from reactive_desched.api.rules import Rule
from reactive_desched.model.eviction_options import EVICTION
from reactive_desched.model.evictor_table import EVICTORS, EvictorName
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.migration_jobs import Mode
from reactive_desched.policy.settings.limit_values import limit_reader
from reactive_desched.policy.settings.migration import DEFAULT_PER_NODE, MigrationSettings
from reactive_desched.primitives.hints import quote

DEFAULT_SCHEDULER: Final = "koord-scheduler"
DEFAULT_QPS: Final = 10.0
IGNORE_UNREADABLE: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"
"""The name of the option to delete an object that the API server cannot read."""
WORKLOAD: Final = "workload"
NAMESPACE: Final = "namespace"

_SHARE: Final = re.compile(r"[+-]?[0-9]+%")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_QPS_HINT: Final = "write a number above 0, for example 10"


def _or(default: str) -> BeforeValidator:
    """Return a validator that takes the empty text for the default, as koordinator does."""
    return BeforeValidator(lambda written: default if written == "" else written)


def _read_qps(written: object, info: ValidationInfo) -> float:
    """Read evictions per second, a number or a text with one in it."""
    del info
    number = written if isinstance(written, str) else json.dumps(written)
    if not _NUMBER.fullmatch(number):
        message = "must be a number, or a text with one in it"
        raise field_error(message, _QPS_HINT, rule=Rule.WRONG_TYPE)
    qps = float(number)
    if not 0 < qps < INT64_MAX:
        message = f"must be more than 0, not {quote(str(written))[1:-1]}"
        raise field_error(message, _QPS_HINT, rule=Rule.OUT_OF_BOUNDS)
    return qps


JobLimit = Annotated[int, Field(ge=0, le=INT32_MAX)]
WorkloadLimit = Annotated[
    int | str, PlainValidator(limit_reader(_SHARE)), WithJsonSchema({"type": ["integer", "string"]})
]
EvictQps = Annotated[
    float,
    PlainValidator(_read_qps),
    WithJsonSchema({"type": ["number", "string"]}),
]


class MigratedPriorityThreshold(Section):
    """From which priority on pods stay; koordinator goes by the number where both are given."""

    value: Int32 | None = Field(default=None, description="The priority.")
    name: str = Field(
        default="",
        description="A PriorityClass whose value is the threshold; koordinator does not look it "
        "up, so that it protects no pod there.",
    )


class ObjectLimiter(Section):
    """A limit on how often pods of one workload, or of one namespace, are moved."""

    duration_s: SignedSeconds = Field(default=0.0, description="The time; 0s: no limit.")
    max_migrating: WorkloadLimit | None = Field(
        default=None,
        description="So many pods in that time; of a workload a number or a percentage of its "
        "replicas, as maxMigratingPerWorkload when left out.",
    )
    burst: Int32 = Field(default=0, description="The most at once after a quiet time; 0 is 1.")

    @property
    def is_of_namespaces(self) -> bool:
        """Say whether it would limit a namespace, which has no replicas to have a percentage of."""
        return isinstance(self.max_migrating, int) and self.max_migrating > 0


class ArbitrationArgs(Section):
    """koordinator's interval between looks at waiting jobs; here a change does that."""

    enabled: bool = Field(default=True, description="Not read by koordinator either.")
    interval_s: SignedSeconds = Field(default=0.5, description="The wait between two rounds.")


class KoordinatorsPreconditions(Section):
    """The uid and the resource version that a pod must have for it to be deleted."""

    uid: str | None = Field(default=None, description="Its uid.")
    resource_version: str | None = Field(default=None, description="Its resource version.")


class KoordinatorsDeleteOptions(Section):
    """Options of the eviction or the deletion of a pod."""

    api_version: str = Field(default="", description="Not read.")
    kind: str = Field(default="", description="Not read.")
    grace_period_seconds: int | None = Field(
        default=None,
        ge=-INT64_MAX - 1,
        le=INT64_MAX,
        description="Overrides the pod's own grace period.",
    )
    preconditions: KoordinatorsPreconditions | None = Field(
        default=None, description="What must hold."
    )
    orphan_dependents: bool | None = Field(default=None, description="Deprecated.")
    propagation_policy: str | None = Field(default=None, description="What becomes of dependents.")
    dry_run: tuple[str, ...] = Field(default=(), description="All: nothing is deleted.")
    ignores_unreadable: bool | None = Field(
        default=None,
        validation_alias=IGNORE_UNREADABLE,
        serialization_alias=IGNORE_UNREADABLE,
        description="Also delete what cannot be read.",
    )


class MigrationControllerArgs(MigrationSettings):
    """Arguments of koordinator's moves: the pods, how many at once, and the evictor.

    `migration` in the settings has those of them by which jobs are carried out.
    """

    dry_run: bool = Field(default=False, description="Evict nothing that plugins find.")
    max_concurrent_reconciles: Annotated[int, Field(ge=1, le=INT32_MAX)] = Field(
        default=1, description="How many jobs are worked on at once."
    )
    priority_threshold: MigratedPriorityThreshold = Field(  # type: ignore[assignment]  # wider
        default=MigratedPriorityThreshold.model_construct(),
        description="Pods of this priority or above are not moved.",
    )
    node_fit: bool = Field(default=False, description="Move only pods that fit on some other node.")
    node_selector: SelectorText = Field(
        default=EVERYTHING, description="Nodes that nodeFit may consider; none means all."
    )
    max_migrating_globally: JobLimit | None = Field(  # type: ignore[assignment]  # may be null
        default=None, description="So many jobs may be in progress at once; 0: any number."
    )
    max_migrating_per_node: JobLimit | None = Field(  # type: ignore[assignment]  # may be null
        default=DEFAULT_PER_NODE, description="The same for the pods of one node."
    )
    max_migrating_per_namespace: JobLimit | None = Field(  # type: ignore[assignment]  # may be null
        default=None, description="The same for the pods of one namespace."
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
    object_limiters: Mapping[str, ObjectLimiter] = Field(
        default={},
        description="How often pods of one `workload` or `namespace` are moved. Left out: of a "
        "workload as many in 5m as maxMigratingPerWorkload.",
    )
    default_job_mode: Annotated[Mode, _or(Mode.RESERVATION_FIRST)] = Field(
        default=Mode.RESERVATION_FIRST,
        description="The mode of jobs that say none: ReservationFirst or EvictDirectly.",
    )
    scheduler_names: tuple[str, ...] = Field(
        default=(DEFAULT_SCHEDULER,),
        description="The schedulers that know Reservations; in mode ReservationFirst pods of "
        "others are not moved.",
    )
    evict_qps: EvictQps = Field(
        default=DEFAULT_QPS,
        validation_alias="evictQPS",
        serialization_alias="evictQPS",
        description="Evictions per second, a number or a text with one in it.",
    )
    evict_burst: Annotated[int, Field(gt=0, le=INT32_MAX)] = Field(
        default=1, description="Most evictions at once."
    )
    eviction_policy: Annotated[EvictorName, _or(EVICTION)] = Field(
        default=EVICTION,
        description=f"How a pod is asked to go: {', '.join(EVICTORS)}.",
    )
    default_delete_options: KoordinatorsDeleteOptions | None = Field(
        default=None, description="Options of evictions that say none themselves."
    )
    arbitration_args: ArbitrationArgs = Field(
        default=ArbitrationArgs.model_construct(), description="When waiting jobs are looked at."
    )

    def warnings(self) -> Iterator[FieldError]:
        """Say what is accepted and has no effect, in koordinator either."""
        for kind in self.object_limiters.keys() - {WORKLOAD, NAMESPACE}:
            hint = f"write {WORKLOAD} or {NAMESPACE}"
            path = ("objectLimiters", kind)
            yield FieldError("limits nothing", hint, path, rule=Rule.NO_EFFECT, at_key=True)
        limiter = self.object_limiters.get(NAMESPACE)
        if limiter is not None and limiter.duration_s > 0 and not limiter.is_of_namespaces:
            hint = "write a number of pods as its maxMigrating"
            place = ("objectLimiters", NAMESPACE)
            yield FieldError("limits nothing", hint, place, rule=Rule.NO_EFFECT, at_key=True)
        for at, hint in self._ineffective():
            yield FieldError("has no effect", hint, at, rule=Rule.NO_EFFECT, at_key=True)

    def _ineffective(self) -> Iterator[tuple[Path, str]]:
        """Yield the arguments that other arguments make ineffective."""
        threshold = self.priority_threshold
        if self.evict_system_critical_pods and threshold.value is not None:
            yield ("priorityThreshold",), "evictSystemCriticalPods lets pods of every priority go"
        if threshold.value is not None and threshold.name:
            yield ("priorityThreshold", "name"), "value counts where both are written: remove one"
        if self.node_selector != EVERYTHING and not self.node_fit:
            yield ("nodeSelector",), "it says which nodes nodeFit considers: write nodeFit: true"
