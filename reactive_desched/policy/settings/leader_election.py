"""The settings of leader election, with the names and rules of component-base."""

from collections.abc import Iterator
from typing import Final, Literal

from pydantic import Field, model_validator

from reactive_desched.api.args import FieldError, Seconds, Section, raise_field_errors
from reactive_desched.api.rules import Rule

JITTER_FACTOR: Final = 1.2
"""A candidate waits for the retry period and up to so many times it again, as client-go's do."""


class LeaderElectionSettings(Section):
    """Leader election among replicas; names and rules are those of Kubernetes' components."""

    leader_elect: bool = Field(
        default=False,
        description="Act only while this process holds the Lease. Needed for two replicas and "
        "more; a dry run and `run --once` never take the Lease.",
    )
    lease_duration_s: Seconds = Field(
        default=15.0,
        description="A standby takes over when it saw no renewal for so long; at least 1s, and "
        "longer than renewDeadline.",
    )
    renew_deadline_s: Seconds = Field(
        default=10.0,
        description="The leader stops acting when no renewal succeeded for so long; at least 1s, "
        "and longer than 1.2 times retryPeriod.",
    )
    retry_period_s: Seconds = Field(
        default=2.0, description="The wait between two attempts to renew or take the Lease."
    )
    resource_lock: Literal["leases"] = Field(
        default="leases", description="The kind of object that is the lock: only leases."
    )
    resource_name: str = Field(default="descheduler", description="The name of the Lease.")
    resource_namespace: str = Field(
        default="kube-system", description="The namespace of the Lease."
    )

    @model_validator(mode="after")
    def _check_election(self) -> "LeaderElectionSettings":
        if self.leader_elect:
            raise_field_errors(self._field_errors())
        return self

    def _field_errors(self) -> Iterator[FieldError]:
        """Refuse times in which two could act, as component-base and client-go do."""
        times = {
            "leaseDuration": self.lease_duration_s,
            "renewDeadline": self.renew_deadline_s,
        }
        for name, seconds in times.items():
            if seconds < 1:
                yield FieldError(
                    "must be at least 1s", "write for example 15s", (name,), rule=Rule.OUT_OF_BOUNDS
                )
        if self.retry_period_s <= 0:
            message = "must be longer than 0s"
            yield FieldError(
                message, "write for example 2s", ("retryPeriod",), rule=Rule.NOT_LONGER_THAN_ZERO
            )
        if self.lease_duration_s <= self.renew_deadline_s:
            message = "must be greater than renewDeadline"
            yield FieldError(
                message,
                "raise it, or lower renewDeadline",
                ("leaseDuration",),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
        if self.renew_deadline_s <= JITTER_FACTOR * self.retry_period_s:
            message = f"must be greater than {JITTER_FACTOR} times retryPeriod"
            yield FieldError(
                message,
                "raise it, or lower retryPeriod",
                ("renewDeadline",),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
        names = {"resourceName": self.resource_name, "resourceNamespace": self.resource_namespace}
        for name, text in names.items():
            if not text:
                yield FieldError("must not be empty", "write a name", (name,), rule=Rule.NOT_A_NAME)
