"""The moment at which a preview judges, as a flag gives it."""

import re
from datetime import UTC, datetime
from typing import Final

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.hints import quote

_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def parse_timestamp(text: str) -> datetime:
    """Read an RFC 3339 time; raises ConfigError for anything else."""
    try:
        if _RFC3339.fullmatch(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # said below: there is no such day or hour
    raise ConfigError(
        f"--now: {quote(text)} is no RFC 3339 time; write for example 2026-05-01T12:00:00Z"
    )
