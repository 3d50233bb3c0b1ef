"""Our own settings: everything a DeschedulerPolicy does not say, with safe defaults."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from reactive_desched.api.args import (
    NEEDS_RESTART,
    FieldError,
    Seconds,
    Section,
    file_key,
    raise_field_errors,
)
from reactive_desched.api.rules import Rule
from reactive_desched.policy.settings.chat import ChatSettings
from reactive_desched.policy.settings.controller_settings import ControllerSettings
from reactive_desched.policy.settings.drains import MAX_RULES, DrainRule
from reactive_desched.policy.settings.leader_election import LeaderElectionSettings
from reactive_desched.policy.settings.limits import PositiveCount
from reactive_desched.policy.settings.otlp import TelemetrySettings
from reactive_desched.policy.settings.recorder import RecorderSettings
from reactive_desched.policy.settings.recording import EventSettings, JournalSettings, SinkSettings
from reactive_desched.policy.settings.server import ServerSettings
from reactive_desched.policy.settings.unique_names import duplicate_names

_OFF_BY_DEFAULT: Final[Mapping[str, str]] = {
    "leader_election": "leader_elect",
    "recording": "enabled",
}
"""The sections that do nothing until they are switched on, each with its switch."""

RequestsPerSecond = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]


class ClientSettings(Section):
    """Timeouts and request rate of the API client."""

    requests_per_second: RequestsPerSecond = Field(
        default=50.0, description="Steady rate of requests."
    )
    burst: PositiveCount = Field(
        default=100, description="Most requests at once after a quiet time."
    )
    connect_timeout_s: Seconds = Field(default=5.0, description="To open a connection; not 0.")
    read_timeout_s: Seconds = Field(default=30.0, description="Between two bytes; not 0.")
    total_timeout_s: Seconds = Field(
        default=60.0, description="For a whole request other than a watch; not 0."
    )

    @model_validator(mode="after")
    def _check_timeouts(self) -> "ClientSettings":
        raise_field_errors(self._field_errors())
        return self

    def _field_errors(self) -> Iterator[FieldError]:
        """Refuse time-outs that no request can meet."""
        written = {
            "connectTimeout": self.connect_timeout_s,
            "readTimeout": self.read_timeout_s,
            "totalTimeout": self.total_timeout_s,
        }
        for name, seconds in written.items():
            if seconds <= 0:
                yield FieldError(
                    "must be longer than 0s",
                    "write for example 30s",
                    (name,),
                    rule=Rule.NOT_LONGER_THAN_ZERO,
                )
            elif seconds > self.total_timeout_s > 0:
                message = "must not be longer than totalTimeout"
                yield FieldError(
                    message, "raise totalTimeout too", (name,), rule=Rule.CONTRADICTING_SETTINGS
                )


class LoggingSettings(Section):
    """The format and the level of log lines."""

    format: Literal["console", "json"] = Field(
        default="console", description="console for people, json for machines."
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level that is logged."
    )


class ReactiveSettings(ControllerSettings):
    """All settings: those that decide, and those of requests, serving, recording and logging."""

    client: Annotated[ClientSettings, NEEDS_RESTART] = Field(
        default=ClientSettings.model_construct(), description="Requests to the API server."
    )
    server: Annotated[ServerSettings, NEEDS_RESTART] = Field(
        default=ServerSettings.model_construct(),
        description="Addresses, TLS and access of the HTTP server.",
    )
    leader_election: Annotated[LeaderElectionSettings, NEEDS_RESTART] = Field(
        default=LeaderElectionSettings.model_construct(), description="Which replica acts."
    )
    journal: Annotated[JournalSettings, NEEDS_RESTART] = Field(
        default=JournalSettings.model_construct(), description="The durable record."
    )
    recording: Annotated[RecorderSettings, NEEDS_RESTART] = Field(
        default=RecorderSettings.model_construct(),
        description="What the controller sees, kept to be looked at again.",
    )
    logging: Annotated[LoggingSettings, NEEDS_RESTART] = Field(
        default=LoggingSettings.model_construct(), description="Log lines: their format and level."
    )
    telemetry: Annotated[TelemetrySettings, NEEDS_RESTART] = Field(
        default=TelemetrySettings.model_construct(),
        description="Metrics and log lines sent to a collector of OpenTelemetry.",
    )
    drains: Annotated[tuple[DrainRule, ...], Field(max_length=MAX_RULES)] = Field(
        default=(),
        description="Nodes that the controller cordons and drains by itself, by their age, labels "
        "or conditions; a profile needs the plugin DrainNodes, and the controller the rights of "
        "deploy/drain/rbac.yaml, to patch nodes.",
    )
    chat: Annotated[ChatSettings | None, NEEDS_RESTART] = Field(
        default=None,
        description="Messages to a chat about what is proposed; null: none.",
    )
    events: EventSettings = Field(
        default=EventSettings.model_construct(),
        description="Kubernetes Events, and the name of the cluster.",
    )
    sinks: Annotated[SinkSettings, NEEDS_RESTART] = Field(
        default=SinkSettings.model_construct(), description="The sinks that follow the journal."
    )

    @model_validator(mode="after")
    def _check_drains(self) -> "ReactiveSettings":
        raise_field_errors(duplicate_names(self.drains, "rules", "drains"))
        return self

    def warnings(self) -> Iterator[FieldError]:
        """Name the sections that are written and do nothing, as their switch is off by default."""
        for name, switch in _OFF_BY_DEFAULT.items():
            section: Section = getattr(self, name)
            if name in self.model_fields_set and switch not in section.model_fields_set:
                key = file_key(switch)
                hint = f"write {key}: true, or {key}: false to keep it off"
                path = (file_key(name),)
                message = f"has no effect: {key} is false by default"
                yield FieldError(message, hint, path, rule=Rule.NO_EFFECT, at_key=True)


@cache
def default_settings() -> ReactiveSettings:
    """Return the settings that hold where no file says anything.

    They need no validation, and so no validators to be built.
    """
    return ReactiveSettings.model_construct()
