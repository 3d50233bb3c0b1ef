"""The section `brakes` of the settings: what stops evictions when the cluster looks wrong.

docs/explain/safety.md explains each number.
"""

from math import ceil
from typing import Annotated, Final

from pydantic import Field, model_validator

from reactive_desched.api.args import (
    NEEDS_RESTART,
    Seconds,
    Section,
    longer_than_zero,
    raise_field_errors,
)
from reactive_desched.policy.settings.health import HealthCheckSettings
from reactive_desched.policy.settings.limits import PositiveCount, RateLimitSettings
from reactive_desched.policy.settings.unique_names import duplicate_names

_OFF: Final = "off"
Percent = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]


class LargeZoneRateLimit(RateLimitSettings):
    """The rate of evictions in a large zone of which part is disrupted."""

    evictions: PositiveCount = Field(default=3, description="Evictions per `per`.")
    burst: PositiveCount = Field(
        default=1, description="The most evictions at once after a quiet time."
    )


class ZoneBrakeSettings(Section):
    """Leaves the pods of a zone alone while many of its nodes are not Ready or sick."""

    unhealthy_percent: Percent = Field(
        default=55.0,
        description="A zone is partially disrupted when more than two of its nodes are not Ready, "
        "or have a condition that the policy names, and they are this share of its nodes.",
    )
    large_zone_nodes: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=50,
        description="In a partially disrupted zone of more nodes evictions are slowed; in a "
        "smaller one there are none.",
    )
    large_zone_rate: LargeZoneRateLimit | None = Field(
        default=LargeZoneRateLimit.model_construct(),
        description="The rate of evictions in a partially disrupted large zone; null: unlimited.",
    )


class _ManyPodsSettings(Section):
    """From how many pods on a brake engages: a number, or a share of all on nodes if it is more."""

    pods: PositiveCount
    percent: Percent

    def threshold(self, pods: int) -> int:
        """Return how many pods are too many in a cluster with so many on its nodes."""
        return max(self.pods, ceil(pods * self.percent / 100))


class StormBrakeSettings(_ManyPodsSettings):
    """Stops and asks when far more pods are found than a change should concern."""

    pods: PositiveCount = Field(
        default=100, description="Fewer pods found within `window` are not a storm."
    )
    percent: Percent = Field(
        default=10.0,
        description="Pods found within `window` are a storm from this share of those on nodes.",
    )
    window_s: Annotated[Seconds, longer_than_zero("1m")] = Field(
        default=60.0, description="The time `pods` and `percent` count for."
    )
    release_after_s: Seconds | None = Field(
        default=1800.0,
        description="Released after so long without new findings, a tenth of a storm excepted; "
        "null: only by a person (`reactive-desched resume`).",
    )


class PendingBrakeSettings(_ManyPodsSettings):
    """Evicts nothing while the cluster cannot place the pods that it has."""

    pods: PositiveCount = Field(
        default=10, description="Fewer unschedulable pods than this are tolerated."
    )
    percent: Percent = Field(
        default=1.0,
        description="Fewer unschedulable pods than this share of those on nodes are tolerated.",
    )
    after_s: Seconds = Field(
        default=60.0, description="A pod counts when it has been unschedulable for so long."
    )


class BrakeSettings(Section):
    """Brakes stop evictions when the cluster, or what is found in it, looks wrong."""

    zones: ZoneBrakeSettings | None = Field(
        default=ZoneBrakeSettings.model_construct(),
        description="Nodes that are not Ready, or have a condition that the policy names; null: "
        "none.",
    )
    storm: StormBrakeSettings | None = Field(
        default=StormBrakeSettings.model_construct(),
        description="Sudden waves of findings; null: none.",
    )
    pending: PendingBrakeSettings | None = Field(
        default=PendingBrakeSettings.model_construct(),
        description="Unschedulable pods; null: none.",
    )
    health: tuple[HealthCheckSettings, ...] = Field(
        default=(),
        description="Checks of the service's health, each with a name; what one holds waits until "
        "the service is well.",
    )
    pause_file: Annotated[str, NEEDS_RESTART] = Field(
        default="",
        description="Evictions are paused while this file says `true`, a reason, or until which "
        "RFC 3339 time; not while it is missing, empty or says `false`. A key of a ConfigMap that "
        "is mounted as a folder is such a file. `run --once` reads it, too.",
    )

    @model_validator(mode="after")
    def _check_names(self) -> "BrakeSettings":
        raise_field_errors(duplicate_names(self.health, "health checks", "health"))
        return self

    def describe(self, pods: int) -> dict[str, str]:
        """Say each brake to a person, as it is in a cluster with so many pods on its nodes."""
        zones, storm, pending = self.zones, self.storm, self.pending
        return {
            "zone": _OFF
            if zones is None
            else f"from {zones.unhealthy_percent:g} % of a zone's nodes not Ready or sick",
            "storm": _OFF
            if storm is None
            else f"from {storm.threshold(pods)} pods found within {storm.window_s:g} s",
            "pending": _OFF
            if pending is None
            else f"from {pending.threshold(pods)} unschedulable pods",
            "health": "; ".join(map(str, self.health)) or _OFF,
            "pause_file": self.pause_file or "none",
        }
