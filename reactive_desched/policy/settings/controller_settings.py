"""The settings by which the controller decides: those that `plan` goes by, too."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, model_validator

from reactive_desched.api.args import (
    NEEDS_RESTART,
    FieldError,
    FieldErrors,
    Seconds,
    Section,
    field_error,
    longer_than_zero,
)
from reactive_desched.api.rules import Rule
from reactive_desched.api.usage_source import (
    SmoothingSettings,
    UsageSourceSettings,
    section_key,
)
from reactive_desched.model.eviction_options import EVICTION
from reactive_desched.model.evictor_table import EVICTORS
from reactive_desched.model.modes import ACT, Mode
from reactive_desched.model.usage import source_kind
from reactive_desched.policy.detect_kind import DocumentKind
from reactive_desched.policy.policy import SWEEP_NODE_FIT
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.policy.settings.debounce import DebounceSettings
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.policy.settings.limits import EvictionRateLimits
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.policy.settings.pace import NORMAL, Pace
from reactive_desched.policy.settings.proposals import ProposalSettings
from reactive_desched.policy.settings.scheduler import SchedulerSettings


class PluginSettings(Section):
    """The settings of one plugin in one profile."""

    mode: Mode | None = Field(
        default=None, description="The mode of this plugin; left out: that of its profile."
    )


class ProfileSettings(Section):
    """The settings of one profile of the policy."""

    mode: Mode | None = Field(
        default=None,
        description="The mode of this profile's plugins; left out: that of all profiles.",
    )
    plugins: Mapping[str, PluginSettings] = Field(
        default={}, description="The same for single plugins of this profile, by name."
    )


API_VERSION, KIND = DocumentKind.SETTINGS.value

ConcurrencyLimit = Annotated[int, Field(ge=1, le=1000)]


class RetrySettings(Section):
    """The waits before a refused eviction is requested again; each is longer."""

    initial_s: Annotated[Seconds, longer_than_zero("5s")] = Field(
        default=5.0, description="The first wait."
    )
    max_s: Seconds = Field(default=300.0, description="The longest wait.")
    jitter: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=0.2,
        description="Each wait is shorter by up to this share of it, so that pods which were "
        "refused together do not try again together; 0: waits are exact.",
    )

    @model_validator(mode="after")
    def _check_delays(self) -> "RetrySettings":
        if self.initial_s > self.max_s:
            raise field_error(
                "initial is longer than max",
                "raise max",
                ("initial",),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
        return self


_FOR_PROFILES: Final = {each.name: each for each in EVICTORS.values() if each.for_profiles}

if TYPE_CHECKING:
    EvictorOfProfiles = str
else:
    EvictorOfProfiles = Literal[("api", "migration", *_FOR_PROFILES)]


def _others() -> str:
    """Return what the evictors are that a profile may name beside these two, for people."""
    return "".join(f" `{each.name}` is {each.choice}." for each in _FOR_PROFILES.values())


class EvictionSettings(Section):
    """The number of evictions at once, and the retries of refused ones."""

    max_in_flight: Annotated[ConcurrencyLimit, NEEDS_RESTART] = Field(
        default=50, description="The largest number of evictions requested and without an outcome."
    )
    retry: RetrySettings = Field(
        default=RetrySettings.model_construct(), description="Waits after a refusal."
    )
    evictor: Annotated[EvictorOfProfiles, NEEDS_RESTART] = Field(
        default="api",
        description="What carries a decision out: `api` is a request to the Eviction API; with "
        "`migration` each finding that its gates let through makes a PodMigrationJob, and the job "
        "evicts the pod. That needs the section `migration`." + _others(),
    )
    per_profile: Annotated[Mapping[str, EvictorOfProfiles], NEEDS_RESTART] = Field(
        default={}, description="The same for single profiles, by name, which comes first."
    )

    def evictor_of(self, profile: str) -> EvictorOfProfiles:
        """Return what carries out the decisions of a profile."""
        return self.per_profile.get(profile, self.evictor)

    def evictor_of_intents(self, profile: str) -> str:
        """Return the evictor, by its name in the table, of a profile's own evictions."""
        named = self.evictor_of(profile)
        return named if named in _FOR_PROFILES else EVICTION


class MetricsServerSmoothing(SmoothingSettings):
    """The same for metrics-server, by default about as the SIG descheduler has it."""

    weight: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        default=0.27,
        description="Of a new value in the moving average; 1: no average. The SIG descheduler's "
        "0.1 every 5 s comes to 0.27 every 15 s, as often as metrics-server measures.",
    )


class MetricsServerSettings(UsageSourceSettings):
    """The queries to metrics-server, the source KubernetesMetrics."""

    pod_interval_s: Seconds = Field(
        default=60.0, description="Ask what pods use this often; nodes are asked for more often."
    )
    smoothing: MetricsServerSmoothing = Field(
        default=MetricsServerSmoothing.model_construct(), description="How samples are smoothed."
    )


class UsageSettings(Section):
    """Measured use, for plugins that go by it; what no plugin reads is not asked for."""

    kubernetes_metrics: MetricsServerSettings = Field(
        default=MetricsServerSettings.model_construct(), description="The metrics-server."
    )
    prometheus: UsageSourceSettings = Field(
        default=UsageSourceSettings.model_construct(), description="Queries to Prometheus."
    )

    def of(self, source: str) -> UsageSourceSettings:
        """Return the settings of a source, as `NodeUsage.source` names it."""
        key = section_key(source_kind(source))
        fields = type(self).model_fields
        field = next((each for each in fields if fields[each].validation_alias == key), None)
        return UsageSourceSettings.model_construct() if field is None else getattr(self, field)


class ControllerSettings(Section):
    """The settings that decide on evictions; each part gets its own section."""

    api_version: str = Field(default=API_VERSION, description=f"Always {API_VERSION}.")
    kind: str = Field(default=KIND, description=f"Always {KIND}.")
    mode: Mode = Field(
        default=ACT,
        description="What is done with what plugins find: `act` evicts pods; `observe` decides "
        "everything and sends no request, with limits of its own; `propose` waits for a person "
        "to approve what everything else has agreed to. Migration jobs that others "
        "make are carried out in every mode.",
    )
    profiles: Mapping[str, ProfileSettings] = Field(
        default={}, description="The modes of single profiles and their plugins, by name."
    )
    proposals: ProposalSettings = Field(
        default=ProposalSettings.model_construct(),
        description="Answers to what plugins propose.",
    )
    debounce: DebounceSettings = Field(
        default=DebounceSettings.model_construct(), description="Waiting for quiet."
    )
    pace: Pace = Field(
        default=NORMAL,
        description="One word for how fast pods move: it sets the fields of `budgets`, "
        "`moves.maxMoving` and `brakes.storm` that these settings do not name; "
        "`policy check` prints the numbers.",
    )
    budgets: EvictionRateLimits = Field(
        default=EvictionRateLimits.model_construct(), description="Rates of eviction."
    )
    guards: GuardSettings = Field(
        default=GuardSettings.model_construct(),
        description="What keeps pods where they are in reactive mode.",
    )
    brakes: BrakeSettings = Field(
        default=BrakeSettings.model_construct(), description="What stops evictions."
    )
    evictions: EvictionSettings = Field(
        default=EvictionSettings.model_construct(), description="Carrying out decisions."
    )
    moves: MoveSettings = Field(
        default=MoveSettings.model_construct(),
        description="What becomes of evicted pods: limits and memory.",
    )
    migration: Annotated[MigrationJobSettings | None, NEEDS_RESTART] = Field(
        default=None,
        description="Migration jobs: PodMigrationJobs of koordinator's API are watched and carried "
        "out; left out, they are not.",
    )
    node_fit: Literal["scheduler", "upstream"] = Field(
        default=SWEEP_NODE_FIT,
        description="How `run --once` and `plan --as once` check nodes for nodeFit: `upstream` as "
        "the SIG descheduler does, `scheduler` by the kube-scheduler's filters, counting "
        "reservations. A controller that keeps running always does the latter.",
    )
    scheduler: SchedulerSettings = Field(
        default=SchedulerSettings.model_construct(),
        description="The configurations of the schedulers that place the cluster's pods, for node "
        "fit.",
    )
    usage: UsageSettings = Field(
        default=UsageSettings.model_construct(), description="Measured use of nodes and pods."
    )

    def mode_of(self, profile: str, plugin: str) -> Mode:
        """Return what is done with the findings of a plugin in a profile."""
        if (named := self.profiles.get(profile)) is None:
            return self.mode
        own = named.plugins.get(plugin)
        return (own and own.mode) or named.mode or self.mode

    @model_validator(mode="after")
    def _check_evictor(self) -> "ControllerSettings":
        evictions = self.evictions
        by_place = {("evictor",): evictions.evictor} | {
            ("perProfile", name): evictor for name, evictor in evictions.per_profile.items()
        }
        errors = [
            FieldError(
                "needs the section migration, which says how jobs are carried out",
                "write migration: {} beside evictions",
                ("evictions", *place),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
            for place, evictor in by_place.items()
            if evictor == "migration" and self.migration is None
        ]
        if errors:
            raise FieldErrors(errors)
        return self


@cache
def default_controller_settings() -> ControllerSettings:
    """Return the settings that hold where no file says anything.

    They need no validation, and so no validators to be built.
    """
    return ControllerSettings.model_construct()
