"""The spans that a collector of traces gets for the events of a case."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

from reactive_desched.api import event as api
from reactive_desched.journal.event_builder import traceparent_for
from reactive_desched.journal.events import decode_event
from reactive_desched.policy.settings.otlp import OtlpSettings
from reactive_desched.sinks.otlp.spans import CaseSpans
from tests.support.entries import decision_data, entry, finding_data, followed_up_data, outcome_data

BEGAN = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
BEGAN_NS = 1_774_747_800_000_000_000
SECOND_NS = 1_000_000_000


def settings(sample_ratio: float = 1.0) -> OtlpSettings:
    given = {"url": "https://collector:4318/v1/traces", "service_name": "descheduler"}
    return OtlpSettings.model_validate({**given, "sample_ratio": sample_ratio})


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def event(type_: str, data: api.EventData, seconds: float, id_: str) -> api.Event[Any]:
    record = entry(type_, data, time=at(seconds), id_=id_)
    found = decode_event(type_, record.raw)
    assert found is not None
    return found


def story() -> list[api.Event[Any]]:
    refusal = decision_data("defer", "RateLimited", "RateLimited", "the next token comes in 2 s")
    return [
        event(api.FINDING_MADE, finding_data(), 0, "case-1.finding"),
        event(api.DECISION_DEFER, refusal, 0.001, "case-1.decision.1"),
        event(api.DECISION_EVICT, decision_data("evict"), 2.5, "case-1.decision.2"),
        event(api.EVICTION_SUCCEEDED, outcome_data("evicted"), 2.75, "case-1.outcome.1"),
        event(api.EVICTION_FOLLOWED_UP, followed_up_data("moved"), 9, "case-1.followed_up.1"),
    ]


def spans_in(found: list[ResourceSpans]) -> list[Span]:
    return [span for of in found for scope in of.scope_spans for span in scope.spans]


def spans_of(*events: api.Event[Any], sample_ratio: float = 1.0) -> list[Span]:
    return spans_in(CaseSpans(settings(sample_ratio)).of(events))


def attributes(of: Any) -> dict[str, str | int]:
    return {each.key: each.value.string_value or each.value.int_value for each in of.attributes}


def test_a_case_is_one_trace_below_the_span_of_its_finding() -> None:
    events = story()
    found = spans_of(*events)

    assert [span.name for span in found] == [
        "finding.made",
        "decision.defer",
        "decision.evict",
        "eviction.succeeded",
        "eviction.followed_up",
    ]
    assert {span.trace_id.hex() for span in found} == {events[0].traceparent.split("-")[1]}
    assert [span.span_id.hex() for span in found] == [e.traceparent.split("-")[2] for e in events]
    root, *others = found
    assert root.parent_span_id == b""
    assert {span.parent_span_id for span in others} == {root.span_id}


def test_a_span_lasts_from_the_event_before_it_to_its_own() -> None:
    lasted = [
        (span.start_time_unix_nano - BEGAN_NS, span.end_time_unix_nano - BEGAN_NS)
        for span in spans_of(*story())
    ]

    waited, requested, moved = 2.5 * SECOND_NS, 2.75 * SECOND_NS, 9 * SECOND_NS
    assert lasted == [
        (0, 0),
        (0, 1_000_000),
        (1_000_000, waited),
        (waited, requested),
        (requested, moved),
    ]


def test_spans_of_events_that_come_in_several_calls_are_the_same() -> None:
    spans, found = CaseSpans(settings()), []
    for each in story():
        found += spans_in(spans.of([each]))
        spans.remember([each])

    assert found == spans_of(*story())


def test_events_that_come_again_before_they_were_taken_have_the_same_spans() -> None:
    spans = CaseSpans(settings())

    assert spans_in(spans.of(story())) == spans_in(spans.of(story()))


def test_the_span_of_an_event_whose_case_is_not_known_lasts_as_long_as_the_event_says() -> None:
    [moved] = spans_of(story()[-1])

    assert moved.end_time_unix_nano - moved.start_time_unix_nano == 6 * SECOND_NS


def test_a_span_does_not_end_before_it_begins_where_the_clock_was_set_back() -> None:
    first, *_ = story()
    earlier = event(api.DECISION_EVICT, decision_data("evict"), -5, "case-1.decision.1")

    _, span = spans_of(first, earlier)
    assert span.start_time_unix_nano == span.end_time_unix_nano == BEGAN_NS - 5 * SECOND_NS


def test_a_span_says_what_its_event_says() -> None:
    _, deferred, *_, moved = spans_of(*story())

    said = attributes(deferred)
    assert said["k8s.pod.name"] == "web"
    assert said["k8s.namespace.name"] == "shop"
    assert said["descheduler.plugin"] == "RemovePodsViolatingNodeTaints"
    assert said["descheduler.gate"] == "RateLimited"
    assert said["descheduler.change.object"] == "node n1"
    assert attributes(moved)["descheduler.replacement.node"] == "n2"


def test_the_resource_is_the_controller_of_a_cluster() -> None:
    [found] = CaseSpans(settings()).of(story())

    said = attributes(found.resource)
    assert said["service.name"] == "descheduler"
    assert {"service.instance.id", "service.version", "k8s.cluster.name"} <= said.keys()


@pytest.mark.parametrize(
    "failed",
    [
        event(api.EVICTION_REFUSED, outcome_data("pdb_refused", "no budget"), 1, "case-1.1"),
        event(api.EVICTION_UNKNOWN, outcome_data("unknown"), 1, "case-1.1"),
        event(api.EVICTION_FOLLOWED_UP, followed_up_data("unscheduled"), 1, "case-1.1"),
    ],
    ids=lambda each: each.type.split(".")[-2],
)
def test_what_went_wrong_is_an_error(failed: api.Event[Any]) -> None:
    [span] = spans_of(failed)

    assert span.status.code == Status.STATUS_CODE_ERROR
    assert span.status.message


def test_what_went_well_is_none() -> None:
    assert {span.status.code for span in spans_of(*story())} == {Status.STATUS_CODE_UNSET}


def test_a_share_of_the_cases_is_sent_and_each_as_a_whole() -> None:
    cases = [[as_case(each, f"case-{number}") for each in story()] for number in range(200)]
    sent = [len(spans_of(*case, sample_ratio=0.25)) for case in cases]

    assert set(sent) == {0, len(story())}
    assert 25 < sum(map(bool, sent)) < 75


def as_case(of: api.Event[Any], case: str) -> api.Event[Any]:
    """Return an event as one of another case."""
    id_ = of.id.replace("case-1", case)
    return replace(of, id=id_, correlationid=case, traceparent=traceparent_for(case, id_))


def test_events_that_are_about_no_pod_have_no_span() -> None:
    cleared = api.FutileCleared(by="ann", cleared=1, message="", owner="", owner_uid="")

    assert spans_of(event(api.FUTILE_CLEARED, cleared, 0, "futile.1")) == []
