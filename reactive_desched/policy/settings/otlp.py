"""Settings of what is sent to a collector of OpenTelemetry: traces, metrics and log lines."""

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from reactive_desched.api.args import FieldErrors, Seconds, Section, field_error, longer_than_zero
from reactive_desched.api.rules import Rule
from reactive_desched.policy.settings.certificates import CertificateFiles
from reactive_desched.policy.settings.webhook_url import otlp_url_error
from reactive_desched.primitives.hints import quote

MAX_ATTRIBUTES: Final = 64
MAX_ATTRIBUTE_CHARS: Final = 1024

NO_COMPRESSION: Final = "none"
GZIP: Final = "gzip"

_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9._/-]{0,254}")


def _check_attributes(attributes: dict[str, str]) -> dict[str, str]:
    for name, value in attributes.items():
        if not _ATTRIBUTE.fullmatch(name):
            message = f"{quote(name)} cannot be the name of an attribute"
            hint = "write for example deployment.environment.name"
            raise field_error(message, hint, rule=Rule.NOT_A_NAME)
        if not value or len(value) > MAX_ATTRIBUTE_CHARS:
            message = f"the value of {name} must have 1 to {MAX_ATTRIBUTE_CHARS} characters"
            raise field_error(message, "leave the attribute out", rule=Rule.OUT_OF_BOUNDS)
    return attributes


Attributes = Annotated[
    dict[str, str], Field(max_length=MAX_ATTRIBUTES), AfterValidator(_check_attributes)
]


class OtlpEndpoint(CertificateFiles):
    """A collector that takes one signal, and as what we come."""

    signal: ClassVar[str]
    """What is sent there: the last part of its usual path, /v1/traces, /v1/metrics or /v1/logs."""

    url: str = Field(description="The collector's address.")
    protocol: Literal["http/protobuf", "grpc"] = Field(
        default="http/protobuf",
        description="http/protobuf, port 4318 of most collectors, or grpc, port 4317.",
    )
    compression: Literal["none", "gzip"] = Field(
        default=NO_COMPRESSION, description="Of requests; gzip for http/protobuf alone."
    )
    insecure: bool = Field(
        default=False, description="Whether http is allowed to a host that is not this one."
    )
    ca_file: str = Field(
        default="", description="PEM file of authorities to trust; default: the system's."
    )
    cert_file: str = Field(
        default="", description="PEM file of the client certificate, where the collector wants one."
    )
    key_file: str = Field(default="", description="PEM file of its private key.")
    headers_file: str = Field(
        default="",
        description="File with more headers, a line `name: value` for each, such as a token.",
    )
    headers_variable: str = Field(
        default="",
        description="Environment variable with more headers, as `name=value,name=value`; those of "
        "the file count before them.",
    )
    service_name: str = Field(
        default="reactive-desched",
        min_length=1,
        max_length=255,
        description="The name of the service (`service.name`).",
    )
    resource_attributes: Attributes = Field(
        default={},
        description="More attributes of the service, such as `deployment.environment.name: prod`.",
    )
    timeout_s: Annotated[Seconds, longer_than_zero("10s")] = Field(
        default=10.0, description="For one request; not 0."
    )

    @model_validator(mode="after")
    def _check_url(self) -> "OtlpEndpoint":
        path = "" if self.protocol == "grpc" else f"/v1/{self.signal}"
        if (error := otlp_url_error(self.url, path, insecure=self.insecure)) is not None:
            raise FieldErrors([error])
        if self.protocol == "grpc" and self.compression != NO_COMPRESSION:
            message = "requests over gRPC are not compressed"
            hint = "write protocol: http/protobuf, with port 4318 of most collectors, or remove it"
            raise field_error(message, hint, ("compression",), rule=Rule.CONTRADICTING_SETTINGS)
        return self


class OtlpSettings(OtlpEndpoint):
    """Traces sent to a collector of OpenTelemetry."""

    signal: ClassVar[str] = "traces"

    url: str = Field(
        description="The address that takes traces, such as https://collector:4318/v1/traces, "
        "or with grpc https://collector:4317; https unless it is on loopback or `insecure`."
    )
    sample_ratio: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="The share of cases that is sent, from above 0 to 1; by the trace id, so a "
        "case is sent as a whole or not at all.",
    )


class OtlpMetricsSettings(OtlpEndpoint):
    """Metrics sent to a collector of OpenTelemetry: the same series as at /metrics."""

    signal: ClassVar[str] = "metrics"

    url: str = Field(
        description="The address that takes metrics, such as https://collector:4318/v1/metrics, "
        "or with grpc https://collector:4317; https unless it is on loopback or `insecure`."
    )
    interval_s: Annotated[Seconds, Field(ge=1, le=3600)] = Field(
        default=60.0, description="How often they are sent, from 1s to 1h."
    )


class OtlpLogsSettings(OtlpEndpoint):
    """Log lines sent to a collector of OpenTelemetry, besides standard error."""

    signal: ClassVar[str] = "logs"

    url: str = Field(
        description="The address that takes logs, such as https://collector:4318/v1/logs, "
        "or with grpc https://collector:4317; https unless it is on loopback or `insecure`."
    )


class TelemetrySettings(Section):
    """Metrics and log lines sent by OTLP, each to its collector; null: not sent."""

    metrics: OtlpMetricsSettings | None = Field(
        default=None, description="The metrics, besides /metrics."
    )
    logs: OtlpLogsSettings | None = Field(
        default=None, description="The log lines, besides standard error."
    )
