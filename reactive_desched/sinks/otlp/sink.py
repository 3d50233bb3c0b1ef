"""Sends traces to a collector of OpenTelemetry, as OTLP's protobuf over HTTP."""

import os
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from anyio.lowlevel import checkpoint
from msgspec import Struct
from yarl import URL

from reactive_desched.api.event import Event
from reactive_desched.api.sink import SinkHost
from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import parse_summary
from reactive_desched.policy.settings.recording import OtlpSettings
from reactive_desched.sinks.webhook.client import WebhookAddress, WebhookClient
from reactive_desched.sinks.webhook.responses import classify_response
from reactive_desched.sinks.webhook.signing import read_secret_file

if TYPE_CHECKING:
    from reactive_desched.sinks.otlp.spans import CaseSpans

MAX_BATCH_RECORDS: Final = 256
"""So many records at most are sent with one request."""
_CONTENT_TYPE: Final = "application/x-protobuf"
_MISSING: Final = (
    "sinks.otlp needs the package opentelemetry-proto: install reactive-desched[otlp], or build the"
    " image with REQUIREMENTS=otlp"
)
_REMEDIES: Final = {
    HTTPStatus.UNAUTHORIZED: "look at headersFile",
    HTTPStatus.FORBIDDEN: "look at headersFile",
    HTTPStatus.NOT_FOUND: "look at the path of url, which is /v1/traces for most collectors",
    HTTPStatus.METHOD_NOT_ALLOWED: "look at the path of url: POST is not for it",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "it takes no protobuf: look at url",
}


class HeadersFile(Struct, frozen=True):
    """A file with headers, a line for each; it is read for each request, so a new one counts."""

    path: str

    def headers(self, id_: str, sent_at: int, body: bytes) -> Mapping[str, str]:
        """Return the headers of the file; blocks. Raises SinkUnavailable, without their values."""
        del id_, sent_at, body
        if not self.path:
            return {}
        raw = read_secret_file("headersFile", self.path)
        lines = raw.decode(errors="replace").splitlines()
        return dict(
            self._header(number, line) for number, line in enumerate(lines, 1) if line.strip()
        )

    def _header(self, number: int, line: str) -> tuple[str, str]:
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not (colon and name and value and line.isascii() and line.strip().isprintable()):
            raise SinkUnavailable(
                f"headersFile {self.path}: line {number} is no header, write NAME: VALUE"
            )
        return name, value


class OtlpSink:
    """Sends the spans of the events of cases; what else the journal has is passed over.

    `wall` is the time of day in seconds. An event that comes again has the same trace and span id.
    """

    settings = OtlpSettings
    from_start = False

    @classmethod
    def open(cls, settings: OtlpSettings, host: SinkHost) -> "OtlpSink":
        """Return a sink that has no connection yet."""
        return cls(settings, wall=host.wall, name=host.name)

    def __init__(
        self,
        settings: OtlpSettings,
        *,
        wall: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
        name: str = "otlp",
    ) -> None:
        self.name = name
        self._settings = settings
        self._wall = wall
        address = WebhookAddress(
            URL(settings.url), _CONTENT_TYPE, settings.ca_file, settings.timeout_s
        )
        self._client = WebhookClient(address, HeadersFile(settings.headers_file), wall, environ)
        self._spans: CaseSpans | None = None

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Send the spans of some records with one request; return how many records are done with.

        Where the collector refuses several, the first is sent alone: it alone is refused for good.
        """
        await checkpoint()
        spans = self._open_spans()
        readable = _readable(entries[:MAX_BATCH_RECORDS])
        try:
            await self._send(spans.request(readable))
        except EventRejected:
            if len(readable) == 1:
                raise
            readable = readable[:1]
            await self._send(spans.request(readable))
        spans.remember(readable)
        return len(readable)

    async def close(self) -> None:
        """Close the connection, and end the thread that reads files."""
        await self._client.close()

    def _open_spans(self) -> "CaseSpans":
        """Import the library when the first record comes, as it is an extra."""
        if self._spans is None:
            try:
                from reactive_desched.sinks.otlp.spans import CaseSpans
            except ModuleNotFoundError as error:
                raise SinkUnavailable(_MISSING) from error
            self._spans = CaseSpans(self._settings.service_name, self._settings.sample_ratio)
        return self._spans

    async def _send(self, request: bytes) -> None:
        if not request:
            return
        reply = await self._client.post("", request)
        error = classify_response(reply, self._client.origin, self._wall(), _REMEDIES)
        if error is not None:
            raise error


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
