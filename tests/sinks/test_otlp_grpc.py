"""What is sent over gRPC, against a receiver that speaks it."""

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest
from grpclib.const import Status
from pydantic import ValidationError

from reactive_desched.errors import EventRejected, SinkError, SinkUnavailable
from reactive_desched.policy.settings.otlp import OtlpLogsSettings, OtlpSettings
from reactive_desched.sinks.otlp import collector
from reactive_desched.sinks.otlp.collector import (
    TAKEN,
    OtlpCollector,
    PartialSuccess,
    open_collector,
)
from reactive_desched.sinks.otlp.exporters import Export, LinesContent, Origin, running
from reactive_desched.sinks.otlp.sink import OtlpSink
from reactive_desched.telemetry import logs
from reactive_desched.telemetry.line_queue import LineQueue
from tests.support.authority import CertificateAuthority
from tests.support.entries import eviction_entries
from tests.support.golden import Golden
from tests.support.grpc_receiver import GrpcReceiver
from tests.support.ports import free_port
from tests.support.receiver import WebhookReceiver

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Collectors = Callable[..., OtlpCollector]


@pytest.fixture
async def grpc() -> AsyncIterator[GrpcReceiver]:
    async with GrpcReceiver().serving() as receiver:
        yield receiver


@pytest.fixture
async def collectors() -> AsyncIterator[Collectors]:
    """Return a way to make clients of logs, which are closed in the end."""
    made: list[OtlpCollector] = []

    def make(url: str, **settings: object) -> OtlpCollector:
        given = {"url": url, "protocol": "grpc", **settings}
        made.append(open_collector(OtlpLogsSettings.model_validate(given), lambda: 0.0, {}))
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def failure(client: OtlpCollector) -> SinkError:
    with pytest.raises(SinkError) as caught:
        await client.send(b"")
    return caught.value


async def test_traces_go_to_the_method_of_traces_with_the_headers_of_the_file(
    grpc: GrpcReceiver, tmp_path: Path
) -> None:
    (file := tmp_path / "headers").write_text("X-Scope-OrgID: shop\n")
    given = {"url": grpc.url, "protocol": "grpc", "headers_file": str(file)}
    sink = OtlpSink(OtlpSettings.model_validate(given), wall=lambda: 0.0)
    try:
        assert await sink.deliver(eviction_entries(3)) == 3
    finally:
        await sink.close()

    [request] = grpc.requests
    assert len(request.resource_spans[0].scope_spans[0].spans) == 3
    assert grpc.metadata[0]["x-scope-orgid"] == "shop"


async def test_headers_stand_in_no_log_line(
    grpc: GrpcReceiver, collectors: Collectors, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    environ = {"OTLP_HEADERS": "api-key=canary%20one, team = shop"}
    settings = OtlpLogsSettings(url=grpc.url, protocol="grpc", headers_variable="OTLP_HEADERS")
    client = open_collector(settings, lambda: 0.0, environ)
    try:
        await client.send(b"")
    finally:
        await client.close()
    [metadata] = grpc.metadata
    assert (metadata["api-key"], metadata["team"]) == ("canary one", "shop")
    assert "canary" not in caplog.text


async def test_a_variable_without_headers_is_named_and_not_shown(
    grpc: GrpcReceiver, golden: Golden
) -> None:
    settings = OtlpLogsSettings(url=grpc.url, protocol="grpc", headers_variable="OTLP_HEADERS")
    client = open_collector(settings, lambda: 0.0, {"OTLP_HEADERS": "canary"})
    assert str(await failure(client)) == golden()


async def test_requests_share_a_connection(grpc: GrpcReceiver, collectors: Collectors) -> None:
    client = collectors(grpc.url)
    for _ in range(3):
        await client.send(b"")
    assert len(grpc.requests) == 3


async def test_a_connection_that_was_closed_meanwhile_is_opened_again_at_once(
    grpc: GrpcReceiver, collectors: Collectors
) -> None:
    client = collectors(grpc.url)
    grpc.hangs_up = True
    for _ in range(3):
        await client.send(b"")
        await anyio.sleep(0.05)
    assert len(grpc.requests) == 3


@pytest.mark.parametrize(
    "status",
    [Status.UNAVAILABLE, Status.UNAUTHENTICATED, Status.UNIMPLEMENTED, Status.RESOURCE_EXHAUSTED],
    ids=lambda status: status.name,
)
async def test_what_a_collector_does_not_take_now_is_tried_again_without_its_words(
    grpc: GrpcReceiver, collectors: Collectors, status: Status, golden: Golden
) -> None:
    grpc.answer(status, text="the token canary is wrong")
    client = collectors(grpc.url)
    error = await failure(client)
    assert isinstance(error, SinkUnavailable)
    assert str(error) == golden(origin=grpc.url)
    await client.send(b"")


async def test_a_request_that_is_never_taken_is_refused_for_good(
    grpc: GrpcReceiver, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = collectors(grpc.url)
    grpc.answer(Status.INVALID_ARGUMENT)
    assert isinstance(await failure(client), EventRejected)

    monkeypatch.setattr(collector, "MAX_GRPC_BYTES", -1)
    grpc.answer(Status.RESOURCE_EXHAUSTED)
    assert isinstance(await failure(client), EventRejected)


async def test_the_answer_says_what_was_dropped_of_a_request_that_was_taken(
    grpc: GrpcReceiver, collectors: Collectors
) -> None:
    client = collectors(grpc.url)
    assert await client.send(b"") == TAKEN
    grpc.drops = {"rejected_log_records": 2, "error_message": "too\nold"}
    assert await client.send(b"") == PartialSuccess(2, "too old")


async def test_where_there_is_no_collector_there_is_no_connection(
    collectors: Collectors, golden: Golden
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert str(await failure(collectors(url))) == golden(url=url)


async def test_a_server_that_speaks_no_grpc_is_named(
    receiver: WebhookReceiver, collectors: Collectors
) -> None:
    url = receiver.url.removesuffix("/in?a=b")
    error = await failure(collectors(url, timeout_s=2))
    assert isinstance(error, SinkUnavailable)
    assert str(error).startswith(f"{url}: ")
    assert receiver.posts == []


async def test_an_answer_that_does_not_come_is_waited_for_no_longer_than_set(
    collectors: Collectors, golden: Golden
) -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        error = await failure(collectors(f"http://127.0.0.1:{port}", timeout_s=0.2))
    assert str(error) == golden(port=port)


@pytest.fixture
def authority() -> CertificateAuthority:
    return CertificateAuthority(is_lax=True)


async def test_over_tls_the_authorities_of_the_file_count(
    collectors: Collectors, authority: CertificateAuthority, tmp_path: Path
) -> None:
    tls = authority.server_context(tmp_path, "127.0.0.1")
    tls.set_alpn_protocols(["h2"])
    trusted = authority.write(tmp_path / "ca.pem")
    async with GrpcReceiver().serving(tls=tls) as receiver:
        client = collectors(receiver.url, ca_file=str(trusted))
        CertificateAuthority().write(trusted)
        error = await failure(client)
        assert "is not to be trusted" in str(error)
        authority.write(trusted)
        await client.send(b"")
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
async def test_a_collector_that_asks_for_a_certificate_gets_that_of_the_files(
    collectors: Collectors, authority: CertificateAuthority, tmp_path: Path, protocol: str
) -> None:
    tls = authority.server_context(tmp_path, "127.0.0.1", ask_clients=True)
    cert, key = authority.issue(tmp_path, "client")
    given = {"protocol": protocol, "ca_file": str(authority.write(tmp_path / "ca.pem"))}
    pair = {"cert_file": str(cert), "key_file": str(key)}
    receiver = GrpcReceiver() if protocol == "grpc" else WebhookReceiver()
    async with receiver.serving(tls=tls):
        await collectors(receiver.url, **given, **pair).send(b"")
        assert isinstance(await failure(collectors(receiver.url, **given)), SinkUnavailable)
        key.write_text("canary")
        error = await failure(collectors(receiver.url, **given, **pair))
    assert str(error).startswith(f"certFile {cert} and keyFile {key} cannot be used: ")
    assert "canary" not in str(error)


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"], ids=["grpc", "http"])
async def test_of_the_port_of_the_other_protocol_the_error_says_so(
    collectors: Collectors, protocol: str, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    port, path = free_port(), "" if protocol == "grpc" else "/v1/logs"
    monkeypatch.setattr(collector, "HTTP_PORT" if protocol == "grpc" else "GRPC_PORT", port)
    error = await failure(collectors(f"http://127.0.0.1:{port}{path}", protocol=protocol))
    assert str(error) == golden(port=port)


async def test_without_the_package_the_error_says_how_to_get_it(
    collectors: Collectors, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setitem(sys.modules, "reactive_desched.sinks.otlp.grpc_call", None)
    assert str(await failure(collectors("http://127.0.0.1:1"))) == golden()


async def test_log_lines_arrive_over_grpc_and_those_of_its_libraries_do_not_follow(
    grpc: GrpcReceiver, collectors: Collectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LinesContent, "every_s", 0.01)
    queue = LineQueue()
    settings = OtlpLogsSettings(url=grpc.url, protocol="grpc")
    export = Export(settings, collectors(grpc.url), logs.logger("test"))
    async with running((export, LinesContent(settings, queue, Origin("pod")))):
        queue.put({"event": "a line", "level": "info"})
        with anyio.fail_after(20):
            while not export.is_up:  # noqa: ASYNC110 -- what is waited for has no event
                await anyio.sleep(0.001)
    [request] = grpc.requests
    [record] = request.resource_logs[0].scope_logs[0].log_records
    assert record.body.string_value == "a line"


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "https://collector:4317/v1/logs"},
        {"url": "collector:4317"},
        {"url": "http://collector:4317"},
        {"url": "https://collector:4317", "cert_file": "a.pem"},
    ],
    ids=["path", "no scheme", "plain", "no key"],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        OtlpLogsSettings.model_validate({"protocol": "grpc", **settings})
