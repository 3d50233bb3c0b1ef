"""Metrics and log lines of a controller, as its configuration and environment have them sent."""

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from reactive_desched.app.options import Options, load_dependencies
from reactive_desched.app.telemetry import open_telemetry
from reactive_desched.journal.cluster import ClusterIdentity
from reactive_desched.sinks.otlp.exporters import LinesContent
from tests.support.receiver import ReceivedPost, WebhookReceiver

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

POLICY = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
LOGS = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    async with WebhookReceiver().serving() as receiving:
        yield receiving


@pytest.fixture
def options(tmp_path: Path) -> Iterator[Options]:
    """Give options with a policy, and set logging back at the end."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    (policy := tmp_path / "policy.yaml").write_text(POLICY)
    yield Options(str(policy))
    root.handlers[:] = before
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def events(*posts: ReceivedPost) -> list[tuple[str, str]]:
    """Return the cluster and the sentence of each line that was sent."""
    found: list[tuple[str, str]] = []
    for post in posts:
        for of in ExportLogsServiceRequest.FromString(post.body).resource_logs:
            said = {each.key: each.value.string_value for each in of.resource.attributes}
            cluster, lines = said.get("k8s.cluster.name", ""), of.scope_logs[0].log_records
            found += [(cluster, line.body.string_value) for line in lines]
    return found


async def until(receiver: WebhookReceiver, posts: int) -> None:
    with anyio.fail_after(20):
        while len(receiver.posts) < posts:  # noqa: ASYNC110 -- it is a mere list
            await anyio.sleep(0.001)


async def test_lines_from_the_start_on_are_sent_with_the_cluster_once_it_is_known(
    receiver: WebhookReceiver, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOGS, receiver.url)
    monkeypatch.setattr(LinesContent, "every_s", 0.01)
    deps = load_dependencies(options)
    logging.getLogger("early").warning("before anything is opened")
    async with open_telemetry(deps) as telemetry:
        await until(receiver, 1)
        telemetry.set_cluster(ClusterIdentity(name="prod", is_named=True))
        logging.getLogger("late").warning("the last line")

    found = events(*receiver.posts)
    assert ("", "before anything is opened") in found
    assert ("prod", "the last line") in found
    exported = {metric.family.name for metric in deps.metrics.collect()}
    assert {"telemetry_requests", "telemetry_up", "telemetry_dropped_lines"} <= exported


async def test_a_signal_that_does_not_reach_its_collector_is_named(
    receiver: WebhookReceiver, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOGS, receiver.url)
    monkeypatch.setattr(LinesContent, "every_s", 0.01)
    receiver.answer(*[503] * 50)
    deps = load_dependencies(options)
    logging.getLogger("early").warning("a line")
    async with open_telemetry(deps) as telemetry:
        await until(receiver, 2)
        [(name, error)] = telemetry.errors()
    assert name == "telemetry.logs"
    assert "503" in error


async def test_without_a_collector_no_line_is_kept(options: Options) -> None:
    deps = load_dependencies(options)
    assert deps.lines is None
    async with open_telemetry(deps) as telemetry:
        telemetry.set_cluster(ClusterIdentity(name="prod"))
        assert [*telemetry.errors()] == []


async def test_a_variable_that_cannot_be_followed_is_logged_and_the_start_goes_on(
    options: Options, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(LOGS, "collector:4318")
    assert load_dependencies(options).lines is None
    assert LOGS in capsys.readouterr().err
