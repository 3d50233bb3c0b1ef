"""What we did, said where kubectl shows it: Events beside the objects they are about.

Best effort: nothing waits for an Event, and one that cannot be written is counted and forgotten.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import quote

import anyio
import msgspec
from msgspec import Struct

from reactive_desched.errors import Refused, Saturated, Unreachable
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.rate_limiter import Lane, Rate, Throttle
from reactive_desched.kube.client.responses import Answer
from reactive_desched.kube.client.session import Transport
from reactive_desched.model.kube_events import CONTROLLER, Event, Regarding

UNSENT, REMEMBERED = 1000, 4096
FORGOTTEN_AFTER_S, TOLD_AGAIN_AFTER_S, TIDY_EVERY_S = 360.0, 1800.0, 60.0
TRIES, RETRY_AFTER_S = 3, 10.0
PACE = Rate(per_s=5.0, burst=50, reserve=0)

_LONGEST_WORD, _LONGEST_NOTE, _LONGEST_NAME = 128, 1024, 253
_STAMP_DIGITS = 17  # a dot and nanoseconds in hexadecimal
_MERGE = "application/merge-patch+json"


class EventRecorder:
    """Writes Events one after the other, when there is time.

    Holds 1,000 that are not sent yet: one more is dropped and counted. Sends 5 a second after a
    burst of 50, in the lane that goes last. What cannot be sent is tried three times, and what
    the server refuses once. Of what repeats, the first is created, the second makes it a series,
    and later ones are counted and written after six quiet minutes or every half hour. 4,096 are
    remembered for that; at the bound the one not seen for longest is forgotten.
    """

    def __init__(
        self,
        session: Transport,
        instance: str,
        tell: Callable[..., None],
        *,
        clock: Clock | None = None,
    ) -> None:
        self.sent = self.dropped = self.failed = 0
        self._session = session
        self._instance = instance[:_LONGEST_WORD]
        self._tell = tell
        self._clock = clock or SystemClock()
        self._throttle = Throttle(PACE, self._clock)
        self._seen: dict[Event, _Series] = {}  # in the order of the last time
        self._unsent: dict[Event, _Series] = {}
        self._news = anyio.Event()
        self._idle = anyio.Event()
        self._stamp = 0

    def record(self, event: Event) -> None:
        """Take an Event that is to be written; never waits and never raises."""
        wall = self._clock.wall()
        series = self._seen.pop(event, None) or _Series(self._next_stamp(), wall)
        series.count, series.at, series.seen_at = series.count + 1, wall, self._clock.now()
        if len(self._seen) >= REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._seen[event] = series
        if series.told < 2:  # noqa: PLR2004 -- the second makes it a series, more can wait
            self._take(event, series)

    def numbers(self) -> dict[str, float]:
        """Return how many Events had which end."""
        return {"sent": self.sent, "dropped": self.dropped, "failed": self.failed}

    async def run(self) -> None:
        """Write what is recorded, until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._tidy_for_ever)
            while True:
                await self._news.wait()
                self._news = anyio.Event()
                while self._unsent:
                    await self._throttle.wait(Lane.BULK)
                    event = next(iter(self._unsent))
                    await self._write(event, self._unsent[event])
                self._idle.set()

    async def ended(self) -> None:
        """Return when nothing is left to write; `run` must be running."""
        while self._unsent:
            self._idle = anyio.Event()
            await self._idle.wait()

    def _next_stamp(self) -> int:
        """Return the time in nanoseconds, or a little later: no two Events share a name."""
        self._stamp = max(self._stamp + 1, int(self._clock.wall() * 1e9))
        return self._stamp

    def _take(self, event: Event, series: "_Series") -> None:
        if event not in self._unsent and len(self._unsent) >= UNSENT:
            self.dropped += 1
            self._seen.pop(event, None)
            return
        self._unsent[event] = series
        self._news.set()

    async def _tidy_for_ever(self) -> None:
        while True:
            await self._clock.sleep(TIDY_EVERY_S)
            self._tidy(self._clock.now())

    def _tidy(self, now: float) -> None:
        """Have counts that changed written, and forget what is over."""
        for event, series in list(self._seen.items()):
            is_over = now - series.seen_at >= FORGOTTEN_AFTER_S
            if is_over and series.told == series.count:
                del self._seen[event]
            elif series.told < series.count and (
                is_over or now - series.told_at >= TOLD_AGAIN_AFTER_S
            ):
                self._take(event, series)

    async def _write(self, event: Event, series: "_Series") -> None:
        """Write one; one that became a series meanwhile stays in the line."""
        try:
            count = await self._sent(event, series)
        except (Refused, Saturated, Unreachable) as error:
            self.failed += 1
            self._seen.pop(event, None)
            about = f"{event.regarding.namespace}/{event.regarding.name}"
            self._tell("no Event written", about=about, reason=event.reason, because=str(error))
        else:
            self.sent += 1
            series.told, series.told_at = count, self._clock.now()
            if count == 1 < series.count:
                return
        if self._unsent.get(event) is series:
            del self._unsent[event]

    async def _sent(self, event: Event, series: "_Series") -> int:
        """Try until the server has it and return the count it knows; raises ClusterError."""
        for tries_left in reversed(range(TRIES)):
            count = series.count
            try:
                _check(await self._send(event, series, count))
            except (Refused, Saturated, Unreachable) as error:
                if not (error.retryable and tries_left):
                    raise
                await self._clock.sleep(RETRY_AFTER_S)
            else:
                return count
        raise AssertionError("the last try returns or raises")

    async def _send(self, event: Event, series: "_Series", count: int) -> Answer:
        namespace = quote(event.regarding.namespace, safe="")
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        if series.told:
            patch = msgspec.json.encode({"series": series.shown(count)})
            one = f"{path}/{quote(_name(event, series), safe='')}"
            answer = await self._session.request("PATCH", one, body=patch, content_type=_MERGE)
            if answer.status != HTTPStatus.NOT_FOUND:
                return answer
            series.stamp = self._next_stamp()  # its hour was over: begin another
        body = msgspec.json.encode(self._body(event, series, count))
        return await self._session.request("POST", path, body=body)

    def _body(self, event: Event, series: "_Series", count: int) -> "_Body":
        return _Body(
            api_version="events.k8s.io/v1",
            metadata={"name": _name(event, series), "namespace": event.regarding.namespace},
            event_time=_micro_time(series.began),
            reporting_controller=CONTROLLER,
            reporting_instance=self._instance,
            action=event.action[:_LONGEST_WORD],
            reason=event.reason[:_LONGEST_WORD],
            regarding=event.regarding,
            note=_cut(event.note, _LONGEST_NOTE),
            type="Warning" if event.is_warning else "Normal",
            series=series.shown(count) if count > 1 else None,
        )


_PASSING = (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS)


def _check(answer: Answer) -> None:
    """Raise Refused unless the Event is there; one that is already came by an earlier try."""
    error = answer.error
    if answer.ok or (answer.status == HTTPStatus.CONFLICT and error.reason == "AlreadyExists"):
        return
    passes = answer.status in _PASSING or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    raise Refused(f"{answer.status}: {error.message}", retryable=passes)


class _Series:
    """How often an Event was seen, and what the server knows of that; times as their clocks."""

    __slots__ = ("at", "began", "count", "seen_at", "stamp", "told", "told_at")

    def __init__(self, stamp: int, wall: float) -> None:
        self.stamp = stamp
        self.began = self.at = wall
        self.count = self.told = 0
        self.seen_at = self.told_at = 0.0

    def shown(self, count: int) -> "_SeriesBody":
        return _SeriesBody(count, _micro_time(self.at))


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


def _name(event: Event, series: _Series) -> str:
    """Name an Event as everybody does: after its object, with a stamp that is used once."""
    about = event.regarding.name[: _LONGEST_NAME - _STAMP_DIGITS].rstrip(".-")
    return f"{about}.{series.stamp:x}"


def _cut(text: str, most_bytes: int) -> str:
    raw = text.encode()
    if len(raw) <= most_bytes:
        return text
    return raw[: most_bytes - 3].decode(errors="ignore") + "…"


def _micro_time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
