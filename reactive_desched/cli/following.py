"""Follows what a controller does on a page of it, and prints each change on a line."""

import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

POLL_S: Final = 1.0

Status = Mapping[str, Any]
"""An answer of the page; `time` is as of when."""


def follow(
    read: Callable[[], Status],
    has_ended: Callable[[Status], bool],
    timeout_s: float,
    progress: Callable[[Status], str] | None,
    more: Callable[[Status], str] = lambda _: "",
) -> Status:
    """Read until something has ended, or the time is over; return the last answer.

    A line of `progress` is printed where it differs from the last one, with `more` behind it; none
    is without `progress`.
    """
    until, said = time.monotonic() + timeout_s, ""
    while True:
        time.sleep(min(POLL_S, max(0.0, until - time.monotonic())))
        status = read()
        if progress is not None and (line := progress(status)) != said:
            at = datetime.fromisoformat(status["time"])
            sys.stdout.write(f"{at:%H:%M:%S} {line}{more(status)}\n")
            sys.stdout.flush()
            said = line
        if has_ended(status) or time.monotonic() >= until:
            return status
