"""Posts events to a URL: each as a structured CloudEvent, in order, signed where a key is set."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from anyio.lowlevel import checkpoint
from yarl import URL

from reactive_desched.api.sink import SinkHost
from reactive_desched.errors import EventRejected, SinkError
from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import WebhookSettings
from reactive_desched.sinks.type_filter import TypeFilter
from reactive_desched.sinks.webhook.client import WebhookAddress, WebhookClient
from reactive_desched.sinks.webhook.responses import classify_response
from reactive_desched.sinks.webhook.signing import WebhookSigner

MAX_BATCH_RECORDS: Final = 100
"""So many records are looked at in one go, and nothing is sent after the first second of it."""
MAX_BATCH_S: Final = 1.0
_CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"


class WebhookSink:
    """Posts each event that is wanted and waits for its answer before the next one.

    `wall` is the time of day and `clock` monotonic, both in seconds.
    """

    settings = WebhookSettings
    from_start = False

    @classmethod
    def open(cls, settings: WebhookSettings, host: SinkHost) -> "WebhookSink":
        """Return a sink that has no connection yet."""
        return cls(settings, wall=host.wall, clock=host.clock, name=host.name)

    def __init__(
        self,
        settings: WebhookSettings,
        *,
        wall: Callable[[], float],
        clock: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
        name: str = "webhook",
    ) -> None:
        self.name = name
        self._type_filter = TypeFilter(settings.types)
        address = WebhookAddress(
            URL(settings.url), _CONTENT_TYPE, settings.ca_file, settings.timeout_s
        )
        signer = WebhookSigner(settings.secret_file, settings.token_file)
        self._client = WebhookClient(address, signer, wall, environ)
        self._wall = wall
        self._clock = clock
        self._pending_error: tuple[int, SinkError] | None = None

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Post events until one fails, and return how many were delivered or skipped.

        What went wrong behind those is raised when the rest is handed over again.
        """
        await checkpoint()
        self._raise_pending_error(entries[0].seq)
        portion, ends_at = entries[:MAX_BATCH_RECORDS], self._clock() + MAX_BATCH_S
        for done, entry in enumerate(portion):
            try:
                await self._deliver_one(entry)
            except SinkError as error:
                if not done:
                    raise
                self._pending_error = entry.seq, error
                return done
            if self._clock() >= ends_at:
                return done + 1
        return len(portion)

    async def close(self) -> None:
        """Close the connection, and end the thread that reads files."""
        await self._client.close()

    def _raise_pending_error(self, seq: int) -> None:
        owed, self._pending_error = self._pending_error, None
        if owed is not None and owed[0] == seq:
            raise owed[1]

    async def _deliver_one(self, entry: JournalRecord) -> None:
        event = self._type_filter.match(entry)
        if event is None:
            return
        if not (event.id.isascii() and event.id.isprintable()):
            raise EventRejected("its id cannot stand in a header")
        reply = await self._client.post(event.id, entry.raw)
        if (error := classify_response(reply, self._client.origin, self._wall())) is not None:
            raise error
