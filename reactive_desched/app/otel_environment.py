"""Reads the environment variables that OpenTelemetry specifies for its exporters.

They count for what the settings and flags do not name. What they say wrongly is a notice, and that
signal is not sent: the variables may be those of a whole cluster, and no controller ends for them.
"""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError
from yarl import URL

from reactive_desched.app.overrides import field_problems
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.settings.otlp import (
    GZIP,
    NO_COMPRESSION,
    OtlpEndpoint,
    OtlpLogsSettings,
    OtlpMetricsSettings,
    OtlpSettings,
)
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.primitives.hints import quote

GRPC_PORT: Final = 4317
"""Without a protocol, this port means gRPC: it is registered for that."""

PREFIX: Final = "OTEL_EXPORTER_OTLP"

_SECTIONS: Final[Mapping[str, type[OtlpEndpoint]]] = {
    "traces": OtlpSettings,
    "metrics": OtlpMetricsSettings,
    "logs": OtlpLogsSettings,
}
_FILES: Final = {
    "ca_file": "CERTIFICATE",
    "cert_file": "CLIENT_CERTIFICATE",
    "key_file": "CLIENT_KEY",
}
_ALL, _NONE, _SHARE = "always_on", "always_off", "traceidratio"


class OtelEnvironment(Struct, frozen=True):
    """The sections that the variables come to, by signal, and what is to be logged of them."""

    sections: Mapping[str, OtlpEndpoint] = {}
    notices: tuple[str, ...] = ()

    def apply_to(self, configuration: Configuration) -> Configuration:
        """Return the configuration with a section for each signal that it does not have."""
        if not self.sections:
            return configuration
        settings = configuration.settings
        sinks = {"otlp": settings.sinks.otlp or self.sections.get("traces")}
        telemetry = {
            "metrics": settings.telemetry.metrics or self.sections.get("metrics"),
            "logs": settings.telemetry.logs or self.sections.get("logs"),
        }
        written: ReactiveSettings = settings.model_copy(
            update={
                "sinks": settings.sinks.model_copy(update=sinks),
                "telemetry": settings.telemetry.model_copy(update=telemetry),
            }
        )
        return replace(configuration, written=written)


def lacking_package(protocol: str) -> str:
    """Return the package of the extra that a protocol needs and that is not installed."""
    needed = {"opentelemetry.proto": "opentelemetry-proto"}
    if protocol == "grpc":
        needed["grpclib"] = "grpclib"
    return next((package for name, package in needed.items() if not _is_installed(name)), "")


def read_otel_environment(
    environ: Mapping[str, str], lacking: Callable[[str], str] = lacking_package
) -> OtelEnvironment:
    """Return what the variables say; `lacking` returns the package that a protocol lacks."""
    given = {name: value.strip() for name, value in environ.items() if name.startswith("OTEL_")}
    if given.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return OtelEnvironment()
    sections: dict[str, OtlpEndpoint] = {}
    notices: list[str] = []
    not_sent: dict[str, list[str]] = {}
    for signal in _SECTIONS:
        variables = _Variables(given, signal)
        if not variables.endpoint or not variables.is_wanted:
            continue
        try:
            section = variables.section(lacking)
        except _NotSentError as error:
            not_sent.setdefault(str(error), []).append(signal)
            continue
        notices += variables.notices
        if section is not None:
            sections[signal] = section
    notices += [f"{why}; not sent: {', '.join(signals)}" for why, signals in not_sent.items()]
    return OtelEnvironment(sections, tuple(dict.fromkeys(notices)))


class _NotSentError(Exception):
    """A signal is not sent, because a variable says what cannot be followed."""


class _Variables:
    """The variables of one signal: its own count before those of all."""

    def __init__(self, given: Mapping[str, str], signal: str) -> None:
        self.notices: list[str] = []
        self._given = given
        self._signal = signal

    @property
    def endpoint(self) -> str:
        """Return the address; empty where nothing is to be sent."""
        return self._of("ENDPOINT")

    @property
    def is_wanted(self) -> bool:
        """Say whether the signal goes by OTLP, as it does where nothing else is said."""
        name = f"OTEL_{self._signal.upper()}_EXPORTER"
        exporters = {each.strip() for each in self._given.get(name, "").split(",")} - {""}
        return not exporters or "otlp" in exporters

    def section(self, lacking: Callable[[str], str]) -> OtlpEndpoint | None:
        """Return the settings of the signal, None where its sampler takes nothing."""
        protocol = self._protocol()
        if package := lacking(protocol):
            raise _NotSentError(
                f"{self._name('ENDPOINT')} needs the package {package}: install"
                " reactive-desched[otlp], or build the image with REQUIREMENTS=otlp"
            )
        fields: dict[str, Any] = {
            "url": self._url(protocol),
            "protocol": protocol,
            "insecure": True,  # http is written out, or asked for by a variable
            **{field: self._of(name) for field, name in _FILES.items()},
            **self._resource(),
            **self._of_the_signal(),
        }
        fields["compression"] = self._compression(protocol)
        if self._of("HEADERS"):
            fields["headers_variable"] = self._name("HEADERS")
        if self._of("TIMEOUT"):
            fields["timeout_s"] = self._milliseconds(self._name("TIMEOUT"))
        if fields.get("sample_ratio") == 0:
            return None
        try:
            return _SECTIONS[self._signal].model_validate(fields)
        except ValidationError as error:
            problems = ", ".join(field_problems(error))
            raise _NotSentError(f"{self._name('ENDPOINT')} and its like: {problems}") from error

    def _name(self, end: str) -> str:
        own = f"{PREFIX}_{self._signal.upper()}_{end}"
        return own if self._given.get(own) else f"{PREFIX}_{end}"

    def _of(self, end: str) -> str:
        return self._given.get(self._name(end), "")

    def _protocol(self) -> str:
        protocol = self._of("PROTOCOL")
        if not protocol:
            return "grpc" if _port(self.endpoint) == GRPC_PORT else "http/protobuf"
        if protocol not in ("grpc", "http/protobuf"):
            name = self._name("PROTOCOL")
            raise _NotSentError(f"{name} is {quote(protocol)}, and not grpc or http/protobuf")
        return protocol

    def _compression(self, protocol: str) -> str:
        name, compression = self._name("COMPRESSION"), self._of("COMPRESSION")
        if compression in ("", NO_COMPRESSION):
            return NO_COMPRESSION
        if compression == GZIP and protocol != "grpc":
            return GZIP
        if compression == GZIP:
            remedy = f"gzip needs {self._name('PROTOCOL')}=http/protobuf, and port 4318 of most"
            self.notices.append(
                f"{name} is not followed: requests over gRPC are not compressed; {remedy}"
                " collectors"
            )
        else:
            self.notices.append(
                f"{name} is not followed (it is neither gzip nor none): requests are not compressed"
            )
        return NO_COMPRESSION

    def _url(self, protocol: str) -> str:
        """Return the URL; the address of all signals gets the path of this one."""
        url = self.endpoint
        if protocol == "grpc" and "://" not in url:
            is_open = self._of("INSECURE").lower() == "true"
            return f"{'http' if is_open else 'https'}://{url}"
        if "://" not in url:
            name = self._name("ENDPOINT")
            raise _NotSentError(f"{name} has no scheme: write http:// or https:// before it")
        is_of_all = self._name("ENDPOINT") == f"{PREFIX}_ENDPOINT"
        if protocol != "grpc" and is_of_all:
            return f"{url.rstrip('/')}/v1/{self._signal}"
        return url

    def _resource(self) -> dict[str, Any]:
        attributes = {}
        for pair in filter(None, self._given.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")):
            name, _, value = (unquote(part.strip()) for part in pair.partition("="))
            if name and value:
                attributes[name] = value
        found: dict[str, Any] = {"resource_attributes": attributes}
        of_attributes = attributes.pop("service.name", "")
        if name := self._given.get("OTEL_SERVICE_NAME", "") or of_attributes:
            found["service_name"] = name
        return found

    def _of_the_signal(self) -> dict[str, Any]:
        if self._signal == "traces":
            return {"sample_ratio": self._sample_ratio()}
        if self._signal == "metrics":
            temporality = f"{PREFIX}_METRICS_TEMPORALITY_PREFERENCE"
            if self._given.get(temporality, "cumulative").lower() not in ("", "cumulative"):
                self.notices.append(f"{temporality} is not followed: metrics are cumulative")
            if self._given.get(name := "OTEL_METRIC_EXPORT_INTERVAL"):
                return {"interval_s": self._milliseconds(name)}
        return {}

    def _sample_ratio(self) -> float:
        name = "OTEL_TRACES_SAMPLER"
        sampler = self._given.get(name, "").removeprefix("parentbased_")
        if sampler == _NONE:
            return 0.0
        if sampler == _SHARE:
            return self._number(f"{name}_ARG", 1.0)
        if sampler not in ("", _ALL):
            self.notices.append(f"{name} is {quote(sampler)}, which is unknown: all cases are sent")
        return 1.0

    def _milliseconds(self, name: str) -> float:
        return self._number(name, 0.0) / 1000

    def _number(self, name: str, default: float) -> float:
        try:
            return float(self._given.get(name) or default)
        except ValueError:
            raise _NotSentError(f"{name} is no number") from None


def _port(url: str) -> int | None:
    try:
        return URL(url if "://" in url else f"//{url}").port
    except ValueError:
        return None


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
