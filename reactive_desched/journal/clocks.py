"""The clocks of records, from which ages over a restart are counted, too."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from reactive_desched.api.event import Uptime
from reactive_desched.primitives.boottime import boottime, read_boot_id

ReadUptime = Callable[[], Uptime | None]
"""Returns how long the machine has been running; None where its boots have no names."""


ReadServerTime = Callable[[], datetime | None]
"""Returns the time of day of the API server; None before its first response."""

SERVER_TIME_ERROR_S: Final = 1.0
"""So much later than it seems may a moment be, by the API server's clock: its dates are cut."""


def utc_now() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)


def no_server_time() -> None:
    """Return None, as before the first response."""


def no_uptime() -> None:
    """Return None, as on a machine whose boots have no names."""


def machine_uptime() -> ReadUptime:
    """Return what reads the uptime of this machine."""
    if not (boot_id := read_boot_id()):
        return no_uptime
    return lambda: Uptime(boot_id=boot_id, milliseconds=round(boottime() * 1000))


def seconds_between(then: Uptime | None, now: Uptime | None) -> float | None:
    """Return how many seconds passed; None across machines and boots, or where one is unknown."""
    if then is None or now is None or then.boot_id != now.boot_id:
        return None
    return (now.milliseconds - then.milliseconds) / 1000


class Moment(Struct, frozen=True, gc=False):
    """One moment by every clock: seconds since the epoch, and what else is known."""

    time_s: float
    uptime: Uptime | None = None
    server_time: datetime | None = None

    def age_s(self, now: "Moment") -> float:
        """Return how many seconds ago this was, by the best clock that both have.

        The uptime of one boot cannot be set. Across machines the API server's clock is the same
        one, and no moment counts as older than it is by that: only the time of day is left where
        it is not known.
        """
        if (seconds := seconds_between(self.uptime, now.uptime)) is not None:
            return seconds
        if self.server_time is not None and now.server_time is not None:
            return (now.server_time - self.server_time).total_seconds() - SERVER_TIME_ERROR_S
        return now.time_s - self.time_s
