"""Sends traces to a collector of OpenTelemetry."""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread
from anyio.lowlevel import checkpoint

from reactive_desched.api.event import Event
from reactive_desched.api.sink import Log, SinkHost
from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import parse_summary
from reactive_desched.policy.settings.otlp import OtlpSettings
from reactive_desched.sinks.otlp.collector import (
    MISSING_PACKAGE,
    PARTLY_TAKEN,
    TAKEN,
    open_collector,
)

if TYPE_CHECKING:
    from reactive_desched.sinks.otlp.spans import CaseSpans

_SPANS: Final = "reactive_desched.sinks.otlp.spans"
MAX_BATCH_RECORDS: Final = 256
"""So many records at most are sent with one request."""


class OtlpSink:
    """Sends the spans of the events of cases; what else the journal has is passed over.

    `wall` is the time of day in seconds. An event that comes again has the same trace and span id.
    """

    settings = OtlpSettings
    from_start = False

    @classmethod
    def open(cls, settings: OtlpSettings, host: SinkHost) -> "OtlpSink":
        """Return a sink that has no connection yet."""
        return cls(settings, wall=host.wall, name=host.name, log=host.log)

    def __init__(
        self,
        settings: OtlpSettings,
        *,
        wall: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
        name: str = "otlp",
        log: Log | None = None,
    ) -> None:
        self.name = name
        self.dropped = 0
        self._log = log
        self._warned_of = TAKEN
        self._settings = settings
        self._collector = open_collector(settings, wall, environ)
        self._spans: CaseSpans | None = None

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Send the spans of some records with one request; return how many records are done with.

        Where the collector refuses several, the first is sent alone: it alone is refused for good.
        """
        await checkpoint()
        spans = await self._open_spans()
        readable = _readable(entries[:MAX_BATCH_RECORDS])
        try:
            await self._send(await spans.request(readable))
        except EventRejected:
            if len(readable) == 1:
                raise
            readable = readable[:1]
            await self._send(await spans.request(readable))
        spans.remember(readable)
        return len(readable)

    async def close(self) -> None:
        """Close the connection, and end the thread that reads files."""
        await self._collector.close()

    async def _open_spans(self) -> "CaseSpans":
        """Import the library when the first record comes, as it is an extra; in another thread."""
        if self._spans is None:
            try:
                await to_thread.run_sync(import_module, _SPANS)
            except ModuleNotFoundError as error:
                raise SinkUnavailable(f"sinks.otlp{MISSING_PACKAGE}") from error
            from reactive_desched.sinks.otlp.spans import CaseSpans

            self._spans = CaseSpans(self._settings)
        return self._spans

    async def _send(self, request: bytes) -> None:
        if not request:
            return
        answer = await self._collector.send(request)
        self.dropped += answer.dropped
        if answer and answer != self._warned_of and self._log is not None:
            self._warned_of = answer  # the same again is counted alone
            dropped = {"sink": self.name, "dropped": answer.dropped, "answer": answer.message}
            self._log.warning(PARTLY_TAKEN, **dropped)


def _readable(entries: Sequence[JournalRecord]) -> list[Event[Any]]:
    """Return the events of the records before the first that cannot be read.

    Raises EventRejected where that is the first of all.
    """
    found: list[Event[Any]] = []
    for entry in entries:
        summary = parse_summary(entry.raw)
        event = None if summary is None else decode_event(summary.type, entry.raw)
        if event is None:
            break
        found.append(event)
    if not found:
        raise EventRejected("the record cannot be read")
    return found
