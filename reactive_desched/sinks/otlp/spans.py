"""Turns the events of a case into the spans of a trace.

The ids are those of each event's `traceparent`. The span of an event begins with the event before
it of the same case, and ends with its own: so that of `decision.evict` is how long the gates kept
the pod, and that of `eviction.succeeded` how long the API server took. All are below the span of
the finding, which is a moment.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from anyio.lowlevel import checkpoint
from cachetools import LRUCache
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from reactive_desched.api.event import (
    EVICTION_REFUSED,
    EVICTION_UNKNOWN,
    DecisionMade,
    Event,
    EvictionCorrected,
    EvictionEnded,
    EvictionFollowedUp,
    EvictionRequested,
    PodData,
)
from reactive_desched.journal.event_builder import finding_event_id, traceparent_for
from reactive_desched.model.event_types import short_type
from reactive_desched.policy.settings.otlp import OtlpSettings
from reactive_desched.sinks.otlp.messages import SCOPE, attributes, resource

SPANS_AT_ONCE: Final = 12
"""So many spans are made in one turn of the event loop: half a millisecond."""

MAX_CASES: Final = 10_000
"""Of so many cases it is known when their last event was; the span of an older one has no length,
or the one that its event names."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NS_IN_US: Final = 1_000
_NS_IN_MS: Final = 1_000_000
_FAILED: Final = frozenset({EVICTION_REFUSED, EVICTION_UNKNOWN})
_WITHOUT_REPLACEMENT: Final = frozenset({"not_ready", "unscheduled", "not_replaced"})


class CaseSpans:
    """The spans of the events that it is given, in their order.

    `remember` is called once they have been taken: events that come again have the same spans.
    """

    def __init__(self, settings: OtlpSettings) -> None:
        self._settings = settings
        self._sampled_below = int(settings.sample_ratio * 2**64)
        self._last_ns: LRUCache[str, int] = LRUCache(MAX_CASES)

    def of(self, events: Iterable[Event[Any]]) -> list[ResourceSpans]:
        """Return the spans of the events that are about a pod, grouped by what they come from."""
        message = ExportTraceServiceRequest()
        for _ in self._added(events, message):
            pass
        return [*message.resource_spans]

    async def request(self, events: Iterable[Event[Any]]) -> bytes:
        """Return the request that exports the spans of the events; empty where they have none."""
        message = ExportTraceServiceRequest()
        for number, _ in enumerate(self._added(events, message), 1):
            if number % SPANS_AT_ONCE == 0:
                await checkpoint()
        request: bytes = message.SerializeToString()
        return request

    def _added(
        self, events: Iterable[Event[Any]], message: ExportTraceServiceRequest
    ) -> Iterator[None]:
        """Add the span of each event to the message, and yield after each."""
        found: dict[str, ResourceSpans] = {}
        last_ns: dict[str, int] = {}
        for event in filter(self._is_wanted, events):
            case, ends_ns = event.correlationid, _ns(event.time)
            before = last_ns.get(case) or self._last_ns.get(case)
            last_ns[case] = ends_ns
            began_ns = min(ends_ns, ends_ns - _took_ns(event.data) if before is None else before)
            source = found.get(event.source)
            if source is None:
                message.resource_spans.append(self._from(event.source))
                source = found[event.source] = message.resource_spans[-1]
            source.scope_spans[0].spans.append(_span(event, began_ns, ends_ns))
            yield

    def remember(self, events: Iterable[Event[Any]]) -> None:
        """Note when the last event of each case was."""
        for event in filter(self._is_wanted, events):
            self._last_ns[event.correlationid] = _ns(event.time)

    def _is_wanted(self, event: Event[Any]) -> bool:
        """Say whether it is one of a case that is sampled, as the SDK's TraceIdRatioBased does."""
        if not isinstance(event.data, PodData):
            return False
        return int(event.traceparent.split("-")[1][16:], 16) < self._sampled_below

    def _from(self, source: str) -> ResourceSpans:
        """Return what a journal of this source is to a collector, without spans."""
        cluster, _, instance, _ = source.removeprefix("//").split("/", 3)
        made = resource(self._settings, instance, cluster)
        return ResourceSpans(resource=made, scope_spans=[ScopeSpans(scope=SCOPE)])


def _span(event: Event[Any], began_ns: int, ends_ns: int) -> Span:
    _, trace, span, _ = event.traceparent.split("-")
    root = traceparent_for(event.correlationid, finding_event_id(event.correlationid))
    root_span = root.split("-")[2]
    status = _status(event)
    return Span(
        trace_id=bytes.fromhex(trace),
        span_id=bytes.fromhex(span),
        parent_span_id=b"" if span == root_span else bytes.fromhex(root_span),
        name=short_type(event.type),
        kind=Span.SPAN_KIND_CLIENT if _is_of_api_server(event.data) else Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=began_ns,
        end_time_unix_nano=ends_ns,
        attributes=attributes(dict(_described(event))),
        status=None if status is None else Status(code=Status.STATUS_CODE_ERROR, message=status),
    )


def _described(event: Event[Any]) -> Iterator[tuple[str, str | int]]:
    """Yield what an event says, by OpenTelemetry's names where there are such."""
    data, who, why = event.data, event.data.who, event.data.why
    yield "k8s.namespace.name", who.namespace
    yield "k8s.pod.name", who.name
    yield "k8s.pod.uid", who.uid
    yield "k8s.node.name", who.node
    yield "descheduler.event.id", event.id
    yield "descheduler.event.sequence", event.sequence
    yield "descheduler.plugin", why.plugin
    yield "descheduler.profile", why.profile
    yield "descheduler.policy.revision", why.policy_revision
    yield "descheduler.mode", data.mode
    yield "descheduler.change", data.trigger.change
    yield "descheduler.change.object", data.trigger.object
    yield "descheduler.message", data.describe()
    match data:
        case DecisionMade():
            yield "descheduler.gate", data.decision.gate
            yield "descheduler.reason", data.decision.reason
        case EvictionRequested():
            yield "descheduler.attempt", data.attempt
        case EvictionEnded() | EvictionCorrected():
            yield "descheduler.attempt", data.attempt
            yield "descheduler.result", data.outcome.result
            yield "descheduler.reason", data.outcome.reason
        case EvictionFollowedUp():
            yield "descheduler.result", data.follow_up.result
            if (replacement := data.follow_up.replacement) is not None:
                yield "descheduler.replacement.name", replacement.name
                yield "descheduler.replacement.node", replacement.node


def _status(event: Event[Any]) -> str | None:
    """Return what went wrong, None where nothing did."""
    data = event.data
    if event.type in _FAILED:
        return str(data.outcome.describe())
    if isinstance(data, EvictionFollowedUp) and data.follow_up.result in _WITHOUT_REPLACEMENT:
        return data.follow_up.describe()
    return None


def _is_of_api_server(data: PodData) -> bool:
    return isinstance(data, EvictionEnded | EvictionCorrected)


def _took_ns(data: PodData) -> int:
    """Return how long what an event is about took, as far as the event says so itself."""
    took_ms: int | None = None
    match data:
        case EvictionEnded() | EvictionCorrected():
            took_ms = data.outcome.took_ms
        case EvictionFollowedUp():
            took_ms = data.follow_up.ready_ms
    return (took_ms or 0) * _NS_IN_MS


def _ns(time: datetime) -> int:
    """Return nanoseconds since 1970, without the rounding of a float."""
    return (time - _EPOCH) // _MICROSECOND * _NS_IN_US
