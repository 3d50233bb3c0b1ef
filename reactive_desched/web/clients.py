"""The clients of the event stream: bounds their number, counts them, and ends all streams."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from msgspec import Struct

from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.telemetry.metrics import Metric, counter, gauge

CLIENTS: Final = gauge("stream_clients", "Clients of the event stream.")
TURNED_AWAY: Final = counter(
    "stream_clients_turned_away",
    "Clients rejected because the stream had its maximum of clients.",
)
CUT: Final = counter(
    "stream_clients_cut", "Clients disconnected because they read nothing for too long."
)
SENT: Final = counter("stream_events_sent", "Events sent to clients.")
RESETS: Final = counter("stream_resets", "Requests for records that are not in the journal.")

RETRY_AFTER_S: Final = 5
"""The Retry-After of a client that is turned away."""


class StreamCounters(Struct):
    """The counts of the event stream; `clients` is how many there are now."""

    clients: int = 0
    turned_away: int = 0
    cut: int = 0
    sent: int = 0
    resets: int = 0


class StreamClients:
    """The clients there are now: `limit` at once, further ones are turned away and counted.

    `connections` holds theirs, so that no rule for other connections ends them.
    """

    def __init__(self, limit: int) -> None:
        self.counters = StreamCounters()
        self.connections: set[object] = set()
        self.limit = limit
        self._scopes: set[anyio.CancelScope] = set()
        self._is_closed = False
        self._left = Wakeup()

    def collect(self) -> Iterator[Metric]:
        """Yield what was counted of the stream."""
        yield CLIENTS.value(self.counters.clients)
        yield TURNED_AWAY.value(self.counters.turned_away)
        yield CUT.value(self.counters.cut)
        yield SENT.value(self.counters.sent)
        yield RESETS.value(self.counters.resets)

    @property
    def has_capacity(self) -> bool:
        """Return whether one more client is accepted; count it as turned away if not."""
        has_capacity = not self._is_closed and len(self._scopes) < self.limit
        self.counters.turned_away += not has_capacity
        return has_capacity

    @contextmanager
    def slot(self, connection: object) -> Iterator[anyio.CancelScope]:
        """Give a client its place while the block runs; it is cancelled when all must end."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            self.connections.add(connection)
            self.counters.clients += 1
            try:
                yield scope
            finally:
                self._scopes.discard(scope)
                self.connections.discard(connection)
                self.counters.clients -= 1
                self._left.notify()

    def count_sent(self, records: int) -> None:
        """Count events that were sent to a client."""
        self.counters.sent += records

    def count_reset(self) -> None:
        """Count a request for records that are not in the journal."""
        self.counters.resets += 1

    def count_cut(self) -> None:
        """Count a client that was disconnected because it read nothing."""
        self.counters.cut += 1

    def refuse_new(self) -> None:
        """Refuse each client that connects from now on."""
        self._is_closed = True

    async def wait_until_empty(self) -> None:
        """Return when there is no client."""
        while self._scopes:
            await self._left.wait()

    def close(self) -> None:
        """End all streams now, and accept no further client."""
        self.refuse_new()
        for scope in self._scopes:
            scope.cancel()
