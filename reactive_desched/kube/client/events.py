"""Writes Kubernetes Events about the objects that the controller acts on.

Best effort: nothing waits for an Event; one that cannot be written is counted and dropped.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import quote

import anyio
import msgspec
from msgspec import Struct

from reactive_desched.errors import RateLimited, RequestRejected, Unreachable
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.rate_limiter import RateLimit, RateLimiter, RequestPriority
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.kube.client.session import MERGE_PATCH, Transport
from reactive_desched.model.kube_events import CONTROLLER, KubeEvent, Regarding
from reactive_desched.primitives.bounded_text import printable
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.telemetry.metrics import Metric, counter

EVENTS = counter("events", "Kubernetes Events by result.", "result")

MAX_UNSENT, MAX_SERIES = 1000, 4096
SERIES_IDLE_S, SERIES_UPDATE_EVERY_S, FLUSH_EVERY_S = 360.0, 1800.0, 60.0
MAX_ATTEMPTS, RETRY_AFTER_S = 3, 10.0
RATE_LIMIT = RateLimit(qps=5.0, burst=50, critical_reserve=0)

_MAX_FIELD_CHARS, _MAX_NOTE_BYTES, _MAX_NAME_CHARS = 128, 1024, 253
_STAMP_DIGITS = 17  # a dot and nanoseconds in hexadecimal


class EventRecorder:
    """Writes Events one after the other, with the lowest request priority.

    Holds 1,000 unsent Events; one more is dropped and counted. Sends 5 a second after a burst of
    50. An Event is tried three times, or once if the server rejects it. Of a repeated Event the
    first is created, the second makes it a series, and later ones are counted and written after six
    minutes without one or every half hour. It remembers 4,096 series; at that bound it drops the
    least recent one. One about an object of a namespace that is deleted is dropped and counted.
    """

    def __init__(
        self,
        session: Transport,
        instance: str,
        log: Callable[..., None],
        *,
        clock: Clock | None = None,
    ) -> None:
        self.sent = self.dropped = self.failed = 0
        self._session = session
        self._instance = instance[:_MAX_FIELD_CHARS]
        self._log = log
        self._clock = clock or SystemClock()
        self._rate_limiter = RateLimiter(RATE_LIMIT, self._clock)
        self._series: OrderedDict[KubeEvent, _Series] = (
            OrderedDict()
        )  # in the order of the last time
        self._unsent: OrderedDict[KubeEvent, _Series] = OrderedDict()
        self._pending = Wakeup()
        self._idle = Wakeup()
        self._stamp = 0

    def record(self, event: KubeEvent) -> None:
        """Queue an Event; never waits and never raises."""
        wall = self._clock.wall()
        series = self._series.pop(event, None) or _Series(self._next_stamp(), wall)
        series.count, series.last_seen_wall, series.last_seen_at = (
            series.count + 1,
            wall,
            self._clock.now(),
        )
        if len(self._series) >= MAX_SERIES:
            self._series.popitem(last=False)
        self._series[event] = series
        if series.written_count < 2:  # noqa: PLR2004 -- the second makes it a series, more can wait
            self._enqueue(event, series)

    def collect(self) -> Iterator[Metric]:
        """Yield how many Events were sent, dropped at the bound, and refused."""
        counts = {"sent": self.sent, "dropped": self.dropped, "failed": self.failed}
        yield EVENTS.by_label(counts)

    async def run(self) -> None:
        """Write queued Events, until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._flush_forever)
            while True:
                while not self._unsent:
                    await self._pending.wait()
                while self._unsent:
                    await self._rate_limiter.wait(RequestPriority.BACKGROUND)
                    event = next(iter(self._unsent))
                    await self._write(event, self._unsent[event])
                self._idle.notify()

    async def drained(self) -> None:
        """Return when the queue is empty; `run` must be running."""
        while self._unsent:
            await self._idle.wait()

    def _next_stamp(self) -> int:
        """Return the time in nanoseconds, or a little later: every stamp is unique."""
        self._stamp = max(self._stamp + 1, int(self._clock.wall() * 1e9))
        return self._stamp

    def _enqueue(self, event: KubeEvent, series: "_Series") -> None:
        if event not in self._unsent and len(self._unsent) >= MAX_UNSENT:
            self.dropped += 1
            self._series.pop(event, None)
            return
        self._unsent[event] = series
        self._pending.notify()

    async def _flush_forever(self) -> None:
        while True:
            await self._clock.sleep(FLUSH_EVERY_S)
            self._flush_series(self._clock.now())

    def _flush_series(self, now: float) -> None:
        """Queue the series whose count has changed, and drop those that are over."""
        for event, series in list(self._series.items()):
            is_over = now - series.last_seen_at >= SERIES_IDLE_S
            if is_over and series.written_count == series.count:
                del self._series[event]
            elif series.written_count < series.count and (
                is_over or now - series.written_at >= SERIES_UPDATE_EVERY_S
            ):
                self._enqueue(event, series)

    async def _write(self, event: KubeEvent, series: "_Series") -> None:
        """Write one Event; one that became a series meanwhile stays in the queue."""
        try:
            count = await self._send_with_retries(event, series)
        except (RequestRejected, RateLimited, Unreachable) as error:
            self.failed += 1
            self._series.pop(event, None)
            about = f"{event.regarding.namespace}/{event.regarding.name}"
            self._log(
                "an Event was not written",
                object=about,
                reason=event.reason,
                message=str(error),
            )
        else:
            if count is None:
                self.dropped += 1
                self._series.pop(event, None)
            else:
                self.sent += 1
                series.written_count, series.written_at = count, self._clock.now()
                if count == 1 < series.count:
                    return
        if self._unsent.get(event) is series:
            del self._unsent[event]

    async def _send_with_retries(self, event: KubeEvent, series: "_Series") -> int | None:
        """Send until the server accepts it and return the count it has; raises ClusterError.

        None where its namespace is deleted, and takes none.
        """
        for tries_left in reversed(range(MAX_ATTEMPTS)):
            count = series.count
            try:
                answer = await self._send(event, series, count)
                if _is_namespace_deleted(answer):
                    return None
                _raise_if_refused(answer)
            except (RequestRejected, RateLimited, Unreachable) as error:
                if not (error.retryable and tries_left):
                    raise
                await self._clock.sleep(RETRY_AFTER_S)
            else:
                return count
        raise AssertionError("the last try returns or raises")

    async def _send(self, event: KubeEvent, series: "_Series", count: int) -> ApiResponse:
        namespace = quote(event.regarding.event_namespace, safe="")
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        if series.written_count:
            patch = msgspec.json.encode({"series": series.to_wire(count)})
            one = f"{path}/{quote(_name(event, series), safe='')}"
            answer = await self._session.request("PATCH", one, body=patch, content_type=MERGE_PATCH)
            if answer.status != HTTPStatus.NOT_FOUND:
                return answer
            series.stamp = self._next_stamp()  # its hour was over: begin another
        body = msgspec.json.encode(self._body(event, series, count))
        return await self._session.request("POST", path, body=body)

    def _body(self, event: KubeEvent, series: "_Series", count: int) -> "_Body":
        return _Body(
            api_version="events.k8s.io/v1",
            metadata={"name": _name(event, series), "namespace": event.regarding.event_namespace},
            event_time=_micro_time(series.first_seen_wall),
            reporting_controller=CONTROLLER,
            reporting_instance=self._instance,
            action=event.action[:_MAX_FIELD_CHARS],
            reason=event.reason[:_MAX_FIELD_CHARS],
            regarding=event.regarding,
            note=_truncate(printable(event.note), _MAX_NOTE_BYTES),
            type="Warning" if event.is_warning else "Normal",
            series=series.to_wire(count) if count > 1 else None,
        )


_TRANSIENT_STATUSES = (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS)


def _is_namespace_deleted(response: ApiResponse) -> bool:
    """Say whether an Event has no place any more, as client-go's recorder does; or is gone."""
    if response.ok:
        return False
    error = response.error
    if response.status == HTTPStatus.NOT_FOUND:
        return error.details is not None and error.details.kind == "namespaces"
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)


def _raise_if_refused(response: ApiResponse) -> None:
    """Raise RequestRejected unless the Event exists; AlreadyExists comes from an earlier try."""
    error = response.error
    if response.ok or (response.status == HTTPStatus.CONFLICT and error.reason == "AlreadyExists"):
        return
    passes = (
        response.status in _TRANSIENT_STATUSES
        or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    )
    raise RequestRejected(f"{response.status}: {error.advice}", retryable=passes)


class _Series:
    """The number of times that an Event was seen, and the number that the server has."""

    __slots__ = (
        "count",
        "first_seen_wall",
        "last_seen_at",
        "last_seen_wall",
        "stamp",
        "written_at",
        "written_count",
    )

    def __init__(self, stamp: int, wall: float) -> None:
        self.stamp = stamp
        self.first_seen_wall = self.last_seen_wall = wall
        self.count = self.written_count = 0
        self.last_seen_at = self.written_at = 0.0

    def to_wire(self, count: int) -> "_SeriesBody":
        return _SeriesBody(count, _micro_time(self.last_seen_wall))


class _SeriesBody(Struct, frozen=True, rename="camel"):
    count: int
    last_observed_time: str


class _Body(Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="kind", tag="Event"):
    api_version: str
    metadata: dict[str, str]
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: Regarding
    note: str
    type: str
    series: _SeriesBody | None = None


def _name(event: KubeEvent, series: _Series) -> str:
    """Name an Event as Kubernetes does: after its object, with a unique stamp."""
    about = event.regarding.name[: _MAX_NAME_CHARS - _STAMP_DIGITS].rstrip(".-")
    return f"{about}.{series.stamp:x}"


def _truncate(text: str, max_bytes: int) -> str:
    raw = text.encode()
    if len(raw) <= max_bytes:
        return text
    return raw[: max_bytes - 3].decode(errors="ignore") + "…"


def _micro_time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
