"""The moment at which a preview judges: read from a flag, written into the answer."""

import re
from datetime import UTC, datetime
from typing import Final

from reactive_desched.errors import ConfigError
from reactive_desched.policy.diagnostics import quoted

__all__ = ["parse_moment", "written_moment"]

_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def parse_moment(text: str) -> datetime:
    """Read an RFC 3339 time; raises ConfigError for anything else."""
    try:
        if _RFC3339.fullmatch(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # said below: there is no such day or hour
    raise ConfigError(
        f"--now: {quoted(text)} is no RFC 3339 time; write for example 2026-05-01T12:00:00Z"
    )


def written_moment(moment: datetime) -> str:
    """Write a moment the way the API does."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
