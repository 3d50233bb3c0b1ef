"""The sink of traces, against a receiver that reads what OTLP sends."""

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from pydantic import ValidationError

from reactive_desched.api import event as api
from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.otlp import OtlpSettings
from reactive_desched.sinks.otlp.sink import MAX_BATCH_RECORDS, OtlpSink
from tests.support.entries import decision_data, entry, eviction_entries, finding_data, outcome_data
from tests.support.golden import Golden
from tests.support.receiver import ReceivedPost, WebhookReceiver, status_answer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Sinks = Callable[..., OtlpSink]


@pytest.fixture
async def otlp(receiver: WebhookReceiver) -> AsyncIterator[Sinks]:
    """Return a way to make sinks that send to the receiver and are closed in the end."""
    made: list[OtlpSink] = []

    def make(**settings: object) -> OtlpSink:
        read = OtlpSettings.model_validate({"url": receiver.url, **settings})
        made.append(OtlpSink(read, wall=lambda: 1_790_000_000.0, environ={}))
        return made[-1]

    yield make
    for sink in made:
        await sink.close()


def names(post: ReceivedPost) -> list[str]:
    """Return the names of the spans that were sent with a request."""
    request = ExportTraceServiceRequest.FromString(post.body)
    return [
        span.name for of in request.resource_spans for in_ in of.scope_spans for span in in_.spans
    ]


def story() -> list[JournalRecord]:
    return [
        entry(api.FINDING_MADE, finding_data(), 1, id_="case-1.finding"),
        entry(api.DECISION_EVICT, decision_data("evict"), 2),
        entry(api.EVICTION_SUCCEEDED, outcome_data("evicted"), 3),
    ]


async def test_the_events_of_cases_are_sent_as_spans_in_one_request(
    receiver: WebhookReceiver, otlp: Sinks
) -> None:
    assert await otlp().deliver(story()) == 3

    [post] = receiver.posts
    assert names(post) == ["finding.made", "decision.evict", "eviction.succeeded"]
    assert post.headers["content-type"] == "application/x-protobuf"


async def test_spans_that_a_collector_drops_are_counted(
    receiver: WebhookReceiver, otlp: Sinks
) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 2
    receiver.script = [status_answer(200, {}, answer.SerializeToString())]
    sink = otlp()

    assert (await sink.deliver(story()), sink.dropped) == (3, 2)


async def test_what_is_about_no_pod_is_passed_over_without_a_request(
    receiver: WebhookReceiver, otlp: Sinks
) -> None:
    cleared = api.FutileCleared(by="ann", cleared=1, message="", owner="", owner_uid="")

    assert await otlp().deliver([entry(api.FUTILE_CLEARED, cleared)]) == 1
    assert receiver.posts == []


async def test_a_request_has_a_bound(receiver: WebhookReceiver, otlp: Sinks) -> None:
    assert await otlp().deliver(eviction_entries(MAX_BATCH_RECORDS + 7)) == MAX_BATCH_RECORDS
    assert len(names(receiver.posts[0])) == MAX_BATCH_RECORDS


async def test_headers_are_read_from_their_file_for_each_request(
    receiver: WebhookReceiver, otlp: Sinks, tmp_path: Path
) -> None:
    (file := tmp_path / "headers").write_text("api-key: one\n\nX-Scope-OrgID: shop\n")
    sink = otlp(headers_file=str(file))
    await sink.deliver(eviction_entries(1))
    file.write_text("api-key: two")
    await sink.deliver(eviction_entries(1))

    first, second = (post.headers for post in receiver.posts)
    assert (first["api-key"], first["x-scope-orgid"]) == ("one", "shop")
    assert second["api-key"] == "two"
    assert "x-scope-orgid" not in second


@pytest.mark.parametrize("content", ["canary", ": canary", "a b\x07: canary", "x" * 20_000, None])
async def test_a_file_without_headers_is_named_and_not_shown(
    otlp: Sinks, tmp_path: Path, content: str | None, golden: Golden
) -> None:
    file = tmp_path / "headers"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SinkUnavailable) as caught:
        await otlp(headers_file=str(file)).deliver(eviction_entries(1))
    assert str(caught.value) == golden(path=file)
    assert "canary" not in str(caught.value)


async def test_without_the_library_the_sink_says_how_to_get_it(
    otlp: Sinks, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setitem(sys.modules, "reactive_desched.sinks.otlp.spans", None)
    with pytest.raises(SinkUnavailable) as caught:
        await otlp().deliver(eviction_entries(1))
    assert str(caught.value) == golden()


@pytest.mark.parametrize("status", [401, 404, 405, 503])
async def test_a_collector_that_takes_nothing_is_tried_again(
    receiver: WebhookReceiver, otlp: Sinks, status: int, golden: Golden
) -> None:
    sink = otlp()
    receiver.answer(status, Retry_After="7")
    with pytest.raises(SinkUnavailable) as caught:
        await sink.deliver(story())
    origin = receiver.url.removesuffix("/in?a=b")
    assert str(caught.value) == golden(origin=origin)
    assert caught.value.retry_after_s == 7

    assert await sink.deliver(story()) == 3
    assert receiver.posts[0].body == receiver.posts[1].body


async def test_of_several_records_that_are_refused_the_first_is_sent_alone(
    receiver: WebhookReceiver, otlp: Sinks
) -> None:
    sink = otlp()
    receiver.answer(400)
    assert await sink.deliver(story()) == 1
    assert await sink.deliver(story()[1:]) == 2

    assert [names(post) for post in receiver.posts[1:]] == [
        ["finding.made"],
        ["decision.evict", "eviction.succeeded"],
    ]


async def test_a_record_that_is_refused_alone_is_for_the_dead_letters(
    receiver: WebhookReceiver, otlp: Sinks
) -> None:
    receiver.answer(400, 400)
    with pytest.raises(EventRejected):
        await otlp().deliver(story())


async def test_records_before_a_damaged_one_are_sent_first(
    receiver: WebhookReceiver, otlp: Sinks
) -> None:
    sink = otlp()
    damaged = JournalRecord(3, b'{"half')
    assert await sink.deliver([*story()[:2], damaged]) == 2
    with pytest.raises(EventRejected):
        await sink.deliver([damaged])
    assert len(receiver.posts) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "collector:4318/v1/traces"},
        {"url": "https://ann:pw@collector/v1/traces"},
        {"url": "https://collector:4318"},
        {"url": "http://collector:4318/v1/traces"},
        {"url": "https://collector/v1/traces", "sample_ratio": 0},
    ],
    ids=["no-url", "password", "no-path", "plain", "no-sample"],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        OtlpSettings.model_validate(settings)


def test_plain_http_to_another_host_is_sent_where_the_settings_allow_it() -> None:
    url = "http://collector.observability:4318/v1/traces"

    assert OtlpSettings.model_validate({"url": url, "insecure": True}).url == url
