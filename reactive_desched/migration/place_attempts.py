"""Attempts to make a placeholder or a Reservation that failed, and when the next one follows."""

from typing import Final

from msgspec import Struct

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
"""The wait after the first failed attempt; it doubles with each, as koordinator's, up to this."""

MAX_MESSAGE: Final = 1000
"""So many characters of an error are kept: a webhook may answer anything."""


class FailedAttempt(Struct, frozen=True, gc=False):
    """The last attempt to keep a job's place, which failed: why, and when the next one follows.

    `next_at_s` is in seconds since the epoch, and `wait_s` how long the wait is until then.
    """

    message: str
    wait_s: float
    next_at_s: float


class PlaceAttempts:
    """Counts the failed attempts of each job; after a restart the first wait is short again.

    A job is forgotten when its place is made, and with the job: there are as many as there are
    jobs that keep a place.
    """

    def __init__(self) -> None:
        self._failed: Final[dict[str, FailedAttempt]] = {}

    def get(self, job: str) -> FailedAttempt | None:
        """Return the last attempt; None where none failed."""
        return self._failed.get(job)

    def note_failure(self, job: str, message: str, now_s: float) -> None:
        """Record that an attempt failed."""
        before = self._failed.get(job)
        wait_s = FIRST_WAIT_S if before is None else min(2 * before.wait_s, LONGEST_WAIT_S)
        self._failed[job] = FailedAttempt(message[:MAX_MESSAGE], wait_s, now_s + wait_s)

    def forget(self, job: str) -> None:
        """Record that a job's place is made, or that the job needs none any more."""
        self._failed.pop(job, None)
