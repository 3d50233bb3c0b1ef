"""The environment variables of OpenTelemetry, and what they come to."""

from collections.abc import Mapping

import pytest

from reactive_desched.app.otel_environment import OtelEnvironment, read_otel_environment
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from tests.support.golden import Golden

ALL = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
POLICY = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"


def read(*more: Mapping[str, str], lacking: str = "") -> OtelEnvironment:
    environ = {name: value for each in more for name, value in each.items()}
    return read_otel_environment(environ, lambda _: lacking)


def named(**values: str) -> dict[str, str]:
    """Return variables by the ends of their names."""
    return {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in values.items()}


def urls(found: OtelEnvironment) -> dict[str, str]:
    return {signal: section.url for signal, section in found.sections.items()}


def test_without_an_address_nothing_is_sent() -> None:
    assert read(named(PROTOCOL="grpc"), {"OTEL_SERVICE_NAME": "mine"}) == OtelEnvironment()


def test_the_address_of_all_gets_the_path_of_each_signal() -> None:
    assert urls(read(named(ENDPOINT="http://collector:4318/otel/"))) == {
        "traces": "http://collector:4318/otel/v1/traces",
        "metrics": "http://collector:4318/otel/v1/metrics",
        "logs": "http://collector:4318/otel/v1/logs",
    }


def test_the_address_of_a_signal_is_taken_as_it_is_and_counts_first() -> None:
    own = named(LOGS_ENDPOINT="https://logs/take", METRICS_ENDPOINT=" ")
    assert urls(read(own)) == {"logs": "https://logs/take"}
    found = urls(read(ALL, own))
    assert (found["logs"], found["traces"]) == (
        "https://logs/take",
        "http://collector:4318/v1/traces",
    )


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        (named(ENDPOINT="http://collector:4317"), "http://collector:4317"),
        (named(ENDPOINT="collector:4317"), "https://collector:4317"),
        (named(ENDPOINT="collector:4317", INSECURE="true"), "http://collector:4317"),
        (named(ENDPOINT="https://collector:443", PROTOCOL="grpc"), "https://collector:443"),
    ],
    ids=["by its port", "no scheme", "insecure", "by the protocol"],
)
def test_grpc_has_no_path(variables: Mapping[str, str], url: str) -> None:
    found = read(variables)
    assert urls(found) == dict.fromkeys(("traces", "metrics", "logs"), url)
    assert {section.protocol for section in found.sections.values()} == {"grpc"}


def test_a_protocol_that_is_written_counts_before_the_port() -> None:
    found = read(named(ENDPOINT="http://collector:4317", PROTOCOL="http/protobuf"))
    assert urls(found)["logs"] == "http://collector:4317/v1/logs"


def test_files_time_and_headers_are_those_of_the_signal_before_those_of_all() -> None:
    found = read(
        ALL,
        named(
            CERTIFICATE="ca.pem",
            CLIENT_CERTIFICATE="client.pem",
            CLIENT_KEY="client.key",
            TIMEOUT="2500",
            HEADERS="a=canary",
            LOGS_CERTIFICATE="logs.pem",
            LOGS_HEADERS="b=canary",
        ),
    )
    traces, logs = found.sections["traces"], found.sections["logs"]
    assert (traces.ca_file, traces.cert_file, traces.key_file) == (
        "ca.pem",
        "client.pem",
        "client.key",
    )
    assert traces.timeout_s == 2.5
    assert traces.headers_variable == "OTEL_EXPORTER_OTLP_HEADERS"
    assert (logs.ca_file, logs.headers_variable) == (
        "logs.pem",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    )
    assert "canary" not in repr(found)


def test_requests_are_compressed_by_gzip_where_a_variable_says_so() -> None:
    found = read(ALL, named(COMPRESSION="gzip", LOGS_COMPRESSION="none"))
    said = {name: section.compression for name, section in found.sections.items()}
    assert said == {"traces": "gzip", "metrics": "gzip", "logs": "none"}
    assert found.notices == ()


def test_the_service_and_its_attributes_have_their_names() -> None:
    attributes = {"OTEL_RESOURCE_ATTRIBUTES": "service.name=of, team=a%20b,service.namespace=infra"}
    section = read(ALL, attributes).sections["logs"]
    assert section.service_name == "of"
    assert section.resource_attributes == {"team": "a b", "service.namespace": "infra"}
    found = read(ALL, attributes, {"OTEL_SERVICE_NAME": "mine"}).sections["logs"]
    assert found.service_name == "mine"
    assert read(ALL).sections["logs"].service_name == "reactive-desched"


def test_what_goes_another_way_is_not_sent() -> None:
    off = {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_LOGS_EXPORTER": "none"}
    assert [*read(ALL, off).sections] == ["traces"]
    assert read(ALL, {"OTEL_SDK_DISABLED": "TRUE"}) == OtelEnvironment()


@pytest.mark.parametrize(
    ("sampler", "share"),
    [
        ({"OTEL_TRACES_SAMPLER": "always_off"}, None),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}, 1.0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, 0.25),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, None),
        ({"OTEL_TRACES_SAMPLER_ARG": "0.25"}, 1.0),
    ],
    ids=["off", "no share", "share", "nothing", "no sampler"],
)
def test_a_sampler_says_which_share_of_the_traces_is_sent(
    sampler: Mapping[str, str], share: float | None
) -> None:
    traces = read(ALL, sampler).sections.get("traces")
    assert getattr(traces, "sample_ratio", None) == share


@pytest.mark.parametrize(
    "variables",
    [
        named(ENDPOINT="collector:4318"),
        named(LOGS_ENDPOINT="http://collector:4318"),
        named(LOGS_ENDPOINT="https://ann:canary@collector/v1/logs"),
        named(LOGS_ENDPOINT="http://collector:99999/v1/logs"),
        {**ALL, **named(PROTOCOL="http/json")},
        {**ALL, **named(TIMEOUT="canary")},
        {**ALL, **named(CLIENT_KEY="key.pem")},
        {**ALL, "OTEL_METRIC_EXPORT_INTERVAL": "5"},
        {**ALL, "OTEL_TRACES_SAMPLER": "jaeger_remote"},
        {**ALL, **named(METRICS_TEMPORALITY_PREFERENCE="delta")},
        {**ALL, **named(COMPRESSION="gzip", PROTOCOL="grpc")},
        {**ALL, **named(TRACES_COMPRESSION="zstd")},
    ],
    ids=[
        "no scheme",
        "no path",
        "password",
        "port",
        "protocol",
        "timeout",
        "key",
        "interval",
        "sampler",
        "delta",
        "compression over gRPC",
        "compression",
    ],
)
def test_what_cannot_be_followed_is_a_notice_and_no_error(
    variables: Mapping[str, str], golden: Golden
) -> None:
    found = read(variables)
    assert "\n".join([*found.notices, f"sent: {', '.join(found.sections)}"]) == golden()
    assert "canary" not in repr(found)


def test_without_the_extra_one_notice_says_so(golden: Golden) -> None:
    found = read(ALL, lacking="opentelemetry.proto")
    assert found.sections == {}
    assert "\n".join(found.notices) == golden()


def configuration(settings: str) -> Configuration:
    ours = f"apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n{settings}\n"
    sources = [SourceText(POLICY, "policy.yaml"), SourceText(ours, "settings.yaml")]
    return load_sources(sources, plugin_registry())


def test_what_the_settings_name_is_theirs_alone() -> None:
    written = configuration("telemetry: {logs: {url: 'https://ours/v1/logs'}}")
    settings = read(ALL, {"OTEL_SERVICE_NAME": "mine"}).apply_to(written).settings
    assert settings.telemetry.logs == written.settings.telemetry.logs
    assert settings.telemetry.metrics is not None
    assert settings.telemetry.metrics.service_name == "mine"
    assert settings.sinks.otlp is not None
    assert settings.sinks.stdout is None

    assert OtelEnvironment().apply_to(written) is written
