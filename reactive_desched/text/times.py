"""Times in UTC as people and the API write them; reading them is `primitives.timestamps`."""

from datetime import UTC, datetime


def utc_time(epoch_s: float) -> datetime:
    """Return the moment so many seconds after 1970, to the millisecond."""
    return datetime.fromtimestamp(round(epoch_s, 3), UTC)


def format_timestamp(moment: datetime) -> str:
    """Write a moment as RFC 3339 in UTC, with what fraction of a second it has."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def format_moment(epoch_s: float) -> str:
    """Write a moment, in seconds since 1970, as RFC 3339 in UTC, to the millisecond."""
    return format_timestamp(utc_time(epoch_s))


def format_time_of_day(epoch_s: float) -> str:
    """Write the time of day in UTC of a moment, in seconds since 1970, to the nearest second."""
    return datetime.fromtimestamp(round(epoch_s), UTC).strftime("%H:%M:%S")


def format_time_seen_at(epoch_s: float, seen_s: float) -> str:
    """Write a moment to the second, "at" a time of day in UTC; with its date on another day."""
    moment, seen = (datetime.fromtimestamp(round(each), UTC) for each in (epoch_s, seen_s))
    date = "" if moment.date() == seen.date() else f"{moment:%Y-%m-%d} "
    return f"{date}{moment:%H:%M:%S} UTC"


def format_second(epoch_s: float) -> str:
    """Write a moment, in seconds since 1970, as RFC 3339 in UTC; a fraction is cut off."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_time(time: datetime) -> str:
    """Write a time in UTC with milliseconds, as lists for people have it."""
    return time.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def minute(moment: str) -> str:
    """Return an RFC 3339 time to the minute; a text that is none stays as it is."""
    return f"{moment[:10]} {moment[11:16]}" if moment[10:11] == "T" else moment
