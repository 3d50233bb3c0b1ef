"""Log lines that wait to be sent elsewhere, besides the stream that they are written to."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

MAX_LINES: Final = 10_000
"""So many lines are kept; then the oldest goes. Standard error has them all."""

_IS_SENDING: Final = ContextVar("is_sending", default=False)


@contextmanager
def lines_are_not_queued() -> Iterator[None]:
    """Take no line that the block logs, or that what it starts logs.

    What sends lines would otherwise send, with each request, the lines about the one before.
    """
    token = _IS_SENDING.set(True)
    try:
        yield
    finally:
        _IS_SENDING.reset(token)


class LineQueue:
    """Holds the fields of log lines, of any thread, in their order; `dropped` were too many."""

    def __init__(self) -> None:
        self.dropped = 0
        self._lines: deque[Mapping[str, Any]] = deque()  # whatever was logged

    def __len__(self) -> int:
        return len(self._lines)

    def put(self, fields: Mapping[str, Any]) -> None:
        """Take a line; at the bound the oldest one goes."""
        if _IS_SENDING.get():
            return
        self._lines.append(dict(fields))
        while len(self._lines) > MAX_LINES:
            self._lines.popleft()
            self.dropped += 1

    def take(self, limit: int) -> list[Mapping[str, Any]]:
        """Remove and return the oldest lines."""
        return [self._lines.popleft() for _ in range(min(limit, len(self._lines)))]
