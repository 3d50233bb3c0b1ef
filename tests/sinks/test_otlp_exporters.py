"""Metrics and log lines, against a receiver that reads what OTLP sends."""

import io
import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as Sent
from prometheus_client.parser import text_string_to_metric_families

from reactive_desched.journal.events import decode_event
from reactive_desched.policy.settings.otlp import (
    OtlpLogsSettings,
    OtlpMetricsSettings,
    OtlpSettings,
)
from reactive_desched.sinks.otlp import exporters, lines, points, spans
from reactive_desched.sinks.otlp.collector import (
    PARTLY_TAKEN,
    TAKEN,
    PartialSuccess,
    open_collector,
)
from reactive_desched.sinks.otlp.exporters import (
    Export,
    LinesContent,
    MetricsContent,
    Origin,
    running,
)
from reactive_desched.sinks.otlp.messages import resource
from reactive_desched.telemetry import line_queue, logs
from reactive_desched.telemetry.line_queue import LineQueue
from reactive_desched.telemetry.metrics import (
    ExposedMetric,
    Histogram,
    Metric,
    counter,
    gauge,
    histogram,
)
from reactive_desched.telemetry.registry import MetricsRegistry
from reactive_desched.testing.builders import pod as build_pod
from tests.support.entries import eviction_entries
from tests.support.golden import Golden
from tests.support.receiver import (
    ReceivedPost,
    ScriptedAnswer,
    WebhookReceiver,
    never_answer,
    status_answer,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

BEGAN_NS, NOW_NS = 1_790_000_000_000_000_000, 1_790_000_060_000_000_000
ORIGIN = Origin("descheduler-7f9c", "prod")

FOUND = counter("things", "Things.", "kind")
DEPTH = gauge("depth", "Depth.")
TOOK = histogram("took_seconds", "Took.")


class Counted:
    """A component that counts."""

    def __init__(self, *metrics: Metric) -> None:
        self.metrics = list(metrics)

    def collect(self) -> Iterator[Metric]:
        yield from self.metrics


class RecordedLog:
    """Takes the lines that a part logs."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **values: Any) -> None:
        self.lines.append(f"info: {event}: {values.get('sink')}")

    def warning(self, event: str, **values: Any) -> None:
        said = values.get("message", values.get("answer"))
        self.lines.append(f"warning: {event}: {said}")


def timing(*seconds: float) -> Histogram:
    found = Histogram((0.1, 1.0))
    for each in seconds:
        found.observe(each)
    return found


def registry(*metrics: Metric) -> MetricsRegistry:
    made = MetricsRegistry()
    made.register(Counted(*metrics))
    return made


def metrics_settings(url: str, **given: object) -> OtlpMetricsSettings:
    return OtlpMetricsSettings.model_validate({"url": url, "interval_s": 1, **given})


def clock() -> Iterator[int]:
    yield BEGAN_NS
    while True:
        yield NOW_NS


def metrics_of(settings: OtlpMetricsSettings, registry: MetricsRegistry) -> MetricsContent:
    return MetricsContent(settings, registry, ORIGIN, clock().__next__)


@asynccontextmanager
async def exporting(
    settings: OtlpMetricsSettings | OtlpLogsSettings, log: RecordedLog | None = None
) -> AsyncIterator[Export]:
    collector = open_collector(settings, lambda: 1_790_000_000.0, {})
    export = Export(settings, collector, log or RecordedLog(), clock=lambda: 0.0)
    try:
        yield export
    finally:
        await collector.close()


def sent_metrics(*posts: ReceivedPost) -> dict[str, Sent]:
    found: dict[str, Sent] = {}
    for post in posts:
        for of in ExportMetricsServiceRequest.FromString(post.body).resource_metrics:
            for scope in of.scope_metrics:
                for metric in scope.metrics:
                    found.setdefault(metric.name, Sent()).MergeFrom(metric)
    return found


def sent_lines(*posts: ReceivedPost) -> list[LogRecord]:
    return [
        record
        for post in posts
        for of in ExportLogsServiceRequest.FromString(post.body).resource_logs
        for scope in of.scope_logs
        for record in scope.log_records
    ]


def said(of: Any) -> dict[str, Any]:
    """Return the attributes of a message by their names."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in of.attributes}


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110 -- what is waited for has no event
            await anyio.sleep(0.001)


async def post_metrics(receiver: WebhookReceiver, registry: MetricsRegistry) -> dict[str, Sent]:
    settings = metrics_settings(receiver.url)
    async with exporting(settings) as export:
        await metrics_of(settings, registry).send_all(export.send)
    return sent_metrics(*receiver.posts)


async def test_every_series_of_the_metrics_page_is_sent_under_its_name(
    receiver: WebhookReceiver,
) -> None:
    counting = registry(FOUND.by_label({"a": 3.0}), DEPTH.value(2.0), TOOK.value(timing(0.05, 5.0)))
    counting.upstream.count_eviction("default", "PodLifeTime", build_pod("web-1"), "success")
    counting.upstream.observe_plugin("default", "PodLifeTime", 0.2)
    counting.upstream.observe_cycle(0.3)

    found = await post_metrics(receiver, counting)

    text = counting.exposition("")[0].decode()
    expected: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {k: v for k, v in sample.labels.items() if v and k != "le"}
            name = family.name if family.type == "histogram" else sample.name
            expected.setdefault(name, set()).add(tuple(sorted(labels.items())))
    assert {
        name: {tuple(sorted(said(point).items())) for point in points_of(metric)}
        for name, metric in found.items()
    } == expected


def points_of(metric: Sent) -> list[Any]:
    return [*getattr(metric, metric.WhichOneof("data") or "").data_points]


async def test_numbers_are_cumulative_since_the_start_and_gauges_of_the_moment(
    receiver: WebhookReceiver,
) -> None:
    found = await post_metrics(
        receiver,
        registry(FOUND.by_label({"a": 3.0}), DEPTH.value(2.0), TOOK.value(timing(0.05, 0.1, 5.0))),
    )

    counted = found["reactive_desched_things_total"].sum
    assert counted.is_monotonic
    assert counted.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    [point] = counted.data_points
    assert (point.as_double, point.start_time_unix_nano, point.time_unix_nano) == (
        3.0,
        BEGAN_NS,
        NOW_NS,
    )

    [point] = found["reactive_desched_depth"].gauge.data_points
    assert (point.as_double, point.start_time_unix_nano) == (2.0, 0)

    [took] = found["reactive_desched_took_seconds"].histogram.data_points
    assert (took.count, [*took.bucket_counts], [*took.explicit_bounds]) == (
        3,
        [2, 0, 1],
        [0.1, 1.0],
    )
    assert took.sum == pytest.approx(5.15)


async def test_what_sends_is_named_as_the_settings_name_it(receiver: WebhookReceiver) -> None:
    settings = metrics_settings(
        receiver.url,
        service_name="descheduler",
        resource_attributes={"deployment.environment.name": "prod", "service.name": "other"},
    )
    async with exporting(settings) as export:
        await metrics_of(settings, registry()).send_all(export.send)

    [post] = receiver.posts
    [of] = ExportMetricsServiceRequest.FromString(post.body).resource_metrics
    found = said(of.resource)
    assert found.pop("service.version")
    assert found == {
        "service.name": "descheduler",
        "service.instance.id": "descheduler-7f9c",
        "k8s.cluster.name": "prod",
        "deployment.environment.name": "prod",
    }


async def test_thousands_of_series_go_in_several_requests(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "MAX_POINTS", 1_000)
    series = {str(number): float(number) for number in range(2_500)}
    found = await post_metrics(receiver, registry(FOUND.by_label(series)))

    counted = found["reactive_desched_things_total"].sum.data_points
    assert {said(point)["kind"]: point.as_double for point in counted} == series
    assert len(receiver.posts) == 3


async def turns_during(work: Awaitable[object]) -> int:
    """Return how many turns the event loop had for others meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        await work
        tasks.cancel_scope.cancel()
    return turns


async def test_what_is_written_leaves_turns_to_others() -> None:
    source = resource(OtlpLogsSettings(url="https://collector/v1/logs"), "pod", "prod")
    series: dict[tuple[str, ...], float] = {
        (str(number),): 1.0 for number in range(points.POINTS_AT_ONCE * 10)
    }
    metric = ExposedMetric("things_total", "counter", "Things.", ("kind",), series)

    async def write_points() -> None:
        assert [request async for request in points.requests([metric], source, 0, 0)]

    assert await turns_during(write_points()) >= 8
    logged = [{"event": "a line"}] * (lines.LINES_AT_ONCE * 10)
    assert await turns_during(lines.request(logged, source, 0)) >= 8
    settings = OtlpSettings(url="https://collector/v1/traces")
    records = eviction_entries(spans.SPANS_AT_ONCE * 10)
    events = [decode_event(json.loads(each.raw)["type"], each.raw) for each in records]
    writing = spans.CaseSpans(settings).request(event for event in events if event is not None)
    assert await turns_during(writing) >= 8


async def test_metrics_that_failed_are_sent_anew_soon_and_with_one_warning(
    receiver: WebhookReceiver, golden: Golden
) -> None:
    settings, log = metrics_settings(receiver.url), RecordedLog()
    receiver.answer(503, 503)
    async with (
        exporting(settings, log) as export,
        running((export, metrics_of(settings, registry(DEPTH.value(1.0))))),
    ):
        await until(lambda: len(receiver.posts) == 3 and export.is_up)
        assert export.error == ""
        assert export.counts == {"sent": 1, "failed": 2, "refused": 0}
    origin = receiver.url.removesuffix("/in?a=b")
    assert "\n".join(log.lines) == golden(origin=origin)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Give a stream for log lines, and set logging back at the end."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = before
    root.setLevel(level)
    logging.captureWarnings(capture=False)


async def post_lines(receiver: WebhookReceiver, queue: LineQueue) -> list[LogRecord]:
    settings = OtlpLogsSettings(url=receiver.url)
    async with exporting(settings) as export:
        await LinesContent(settings, queue, ORIGIN, lambda: NOW_NS).send_all(export.send)
    return sent_lines(*receiver.posts)


@pytest.mark.parametrize("style", logs.FORMATS)
async def test_log_lines_are_sent_as_they_are_written(
    receiver: WebhookReceiver, stream: io.StringIO, style: str
) -> None:
    queue = LineQueue()
    logs.configure("info", style, stream, mode="dry_run", also=queue.put)
    logs.logger("controller").warning(
        "a pod stays", pod="shop/web-1", tries=3, token="canary", by={"gates": ["Rate"]}
    )
    logging.getLogger("library").error("it broke")
    logs.logger("controller").info(
        "later", path="\udcff", timestamp=logs.format_timestamp(1_790_000_000.000123), none=None
    )
    logs.logger("controller").debug("not logged")

    first, second, third = await post_lines(receiver, queue)

    assert (first.body.string_value, first.severity_text, first.severity_number) == (
        "a pod stays",
        "WARNING",
        13,
    )
    found = said(first)
    assert [each.string_value for each in found.pop("by").values[0].value.array_value.values] == [
        "Rate"
    ]
    assert found == {
        "mode": "dry_run",
        "pod": "shop/web-1",
        "tries": 3,
        "token": logs.REDACTED,
        "logger": "controller",
    }
    assert (second.body.string_value, said(second)["logger"]) == ("it broke", "library")
    assert said(third)["path"] == r"\udcff"
    assert third.time_unix_nano == 1_790_000_000_000_123_000
    assert third.observed_time_unix_nano == NOW_NS
    written = stream.getvalue().splitlines()[:3]
    for line, event in zip(written, ("a pod stays", "it broke", "later"), strict=True):
        assert event in line


@pytest.mark.parametrize(
    "fields",
    [
        {"timestamp": "0001-01-01T00:00:00"},
        {"timestamp": "1969-12-31T23:59:59Z"},
        {"timestamp": "9999-12-31T23:59:59Z"},
        {"timestamp": {"is": "none"}, "level": 3, "event": None},
        {"number": 2**70, "less": -(2**70), "nothing": float("nan"), "half": "\ud800"},
        {"\udcff": [b"bytes", {1, 2}, ("a", None)], "deep": {3: {"4": object}}},
        {},
    ],
    ids=["first year", "before 1970", "last year", "no texts", "numbers", "others", "none"],
)
async def test_whatever_a_library_logs_can_be_sent(
    receiver: WebhookReceiver, fields: dict[str, object]
) -> None:
    (queue := LineQueue()).put(fields)
    [record] = await post_lines(receiver, queue)
    assert record.time_unix_nano == NOW_NS


async def test_what_is_logged_while_lines_are_sent_is_not_sent(
    receiver: WebhookReceiver, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LinesContent, "every_s", 0.01)
    queue, settings = LineQueue(), OtlpLogsSettings(url=receiver.url)
    logs.configure("debug", "json", stream, also=queue.put)

    class Chatty:
        async def send(self, request: bytes) -> PartialSuccess:
            logging.getLogger("chatty").debug("encoding a header")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.answer)
            posts.append(request)
            return TAKEN

        async def answer(self) -> None:
            logging.getLogger("chatty").debug("decoding a header")
            await anyio.lowlevel.checkpoint()

        async def close(self) -> None: ...

    posts: list[bytes] = []
    export = Export(settings, Chatty(), RecordedLog())
    async with running((export, LinesContent(settings, queue, ORIGIN))):
        logs.logger("controller").info("one line")
        await anyio.sleep(0.5)
    assert len(posts) == 1
    assert "decoding a header" in stream.getvalue()


async def test_lines_wait_for_a_collector_that_is_away_and_are_then_sent_in_order(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LinesContent, "every_s", 0.01)
    monkeypatch.setattr(exporters, "MAX_LINES_AT_ONCE", 2)
    queue, settings, log = LineQueue(), OtlpLogsSettings(url=receiver.url), RecordedLog()
    receiver.answer(503)
    for number in range(5):
        queue.put({"event": f"line {number}"})
    async with (
        exporting(settings, log) as export,
        running((export, LinesContent(settings, queue, ORIGIN))),
    ):
        await until(lambda: len(receiver.posts) == 4)
    _, *taken = receiver.posts
    found = [line.body.string_value for line in sent_lines(*taken)]
    assert found == [f"line {number}" for number in range(5)]


async def test_of_too_many_lines_the_oldest_go_and_are_counted(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_queue, "MAX_LINES", 3)
    queue = LineQueue()
    for number in range(5):
        queue.put({"event": f"line {number}"})

    content = LinesContent(OtlpLogsSettings(url=receiver.url), queue, ORIGIN)
    assert [metric.samples for metric in content.collect()] == [{(): 2}]
    found = await post_lines(receiver, queue)
    assert [line.body.string_value for line in found] == ["line 2", "line 3", "line 4"]


async def test_lines_that_are_refused_are_counted_and_not_sent_again(
    receiver: WebhookReceiver,
) -> None:
    queue, settings = LineQueue(), OtlpLogsSettings(url=receiver.url)
    receiver.answer(400)
    queue.put({"event": "bad"})
    content = LinesContent(settings, queue, ORIGIN)
    async with exporting(settings) as export:
        await content.send_all(export.send)
        queue.put({"event": "good"})
        await content.send_all(export.send)

        assert export.counts == {"sent": 1, "failed": 0, "refused": 1}
        [dropped] = content.collect()
        assert dropped.samples == {(): 1}
    assert [line.body.string_value for line in sent_lines(receiver.posts[1])] == ["good"]


def partly(dropped: int, message: str = "") -> ScriptedAnswer:
    """Take a request, and drop so much of it."""
    dropping = ExportMetricsPartialSuccess(rejected_data_points=dropped, error_message=message)
    answer = ExportMetricsServiceResponse(partial_success=dropping)
    return status_answer(200, {}, answer.SerializeToString())


async def test_what_a_collector_drops_of_what_it_takes_is_counted_and_logged_once(
    receiver: WebhookReceiver,
) -> None:
    settings, log = metrics_settings(receiver.url), RecordedLog()
    receiver.script = [
        partly(3, "too old"),
        partly(3, "too old"),
        partly(0),
        partly(0, "slower"),
    ]
    async with exporting(settings, log) as export:
        content = metrics_of(settings, registry(DEPTH.value(1)))
        for _ in range(4):
            await content.send_all(export.send)

    assert (export.counts["sent"], export.rejected) == (4, 6)
    assert log.lines == [f"warning: {PARTLY_TAKEN}: {said}" for said in ("too old", "slower")]


async def test_an_answer_that_is_none_of_a_collectors_says_nothing(
    receiver: WebhookReceiver,
) -> None:
    settings, log = metrics_settings(receiver.url), RecordedLog()
    receiver.script = [status_answer(200, {}, b"<html>all is well</html>")]
    async with exporting(settings, log) as export:
        await metrics_of(settings, registry(DEPTH.value(1))).send_all(export.send)

    assert (export.counts["sent"], export.rejected, log.lines) == (1, 0, [])


async def test_compressed_requests_say_so(receiver: WebhookReceiver) -> None:
    settings = metrics_settings(receiver.url, compression="gzip")
    async with exporting(settings) as export:
        await metrics_of(settings, registry(DEPTH.value(1))).send_all(export.send)

    [post] = receiver.posts
    assert post.headers["content-encoding"] == "gzip", "the receiver has unpacked it"
    assert "reactive_desched_depth" in sent_metrics(post)


async def test_at_the_end_what_is_left_is_sent(receiver: WebhookReceiver) -> None:
    queue, settings = LineQueue(), OtlpLogsSettings(url=receiver.url)
    async with (
        exporting(settings) as export,
        running((export, LinesContent(settings, queue, ORIGIN))),
    ):
        queue.put({"event": "the last line"})

    assert [line.body.string_value for line in sent_lines(*receiver.posts)] == ["the last line"]


async def test_a_collector_that_does_not_answer_holds_the_end_for_a_moment_at_most(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporters, "FLUSH_TIMEOUT_S", 0.2)
    receiver.script += [never_answer] * 3
    queue, settings = LineQueue(), OtlpLogsSettings(url=receiver.url)
    with anyio.fail_after(5):
        async with (
            exporting(settings) as export,
            running((export, LinesContent(settings, queue, ORIGIN))),
        ):
            queue.put({"event": "the last line"})
    assert len(receiver.posts) == 1


async def test_a_collector_that_was_away_is_not_waited_for_at_the_end(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LinesContent, "every_s", 0.01)
    receiver.answer(503)
    receiver.script += [never_answer] * 3
    queue, settings = LineQueue(), OtlpLogsSettings(url=receiver.url)
    queue.put({"event": "a line"})
    async with (
        exporting(settings) as export,
        running((export, LinesContent(settings, queue, ORIGIN))),
    ):
        await until(lambda: bool(export.error))
    assert len(receiver.posts) == 1


async def test_without_the_library_a_warning_says_how_to_get_it(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setitem(sys.modules, "reactive_desched.sinks.otlp.lines", None)
    monkeypatch.setattr(LinesContent, "every_s", 0.01)
    queue, log, settings = LineQueue(), RecordedLog(), OtlpLogsSettings(url=receiver.url)
    queue.put({"event": "a line"})
    async with (
        exporting(settings, log) as export,
        running((export, LinesContent(settings, queue, ORIGIN))),
    ):
        await until(lambda: bool(export.error))
    assert export.error == golden()
    [line] = log.lines
    assert line.startswith("warning: ")
    assert line.endswith(export.error)
