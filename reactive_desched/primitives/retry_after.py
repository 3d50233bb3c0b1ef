"""Reads how long a server asks a client to wait."""

from datetime import UTC

_MAX_DIGITS = 9
"""Thirty years are long enough."""


def parse_retry_after_s(text: str, now: float) -> float | None:
    """Read a Retry-After header, which holds seconds or a date; None if it holds neither.

    `now` is the time of day. A date that is past is 0.
    """
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:_MAX_DIGITS])
    from email.utils import parsedate_to_datetime  # few answers have a date, and it loads much

    try:
        at = parsedate_to_datetime(text)
        return max(0.0, at.replace(tzinfo=at.tzinfo or UTC).timestamp() - now)
    except (ValueError, OverflowError):  # of no date, and of one that no calendar or zone has
        return None
