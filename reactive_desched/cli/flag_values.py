"""Parses the values of flags; every error says what to write."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Never

from reactive_desched.primitives.hints import quote

if TYPE_CHECKING:
    from reactive_desched.model.labels import Selector

TIME_HELP = "RFC 3339, a day (UTC), or how long ago, as 10m, 2h ago or 7d"
"""How each flag that takes a moment is written, for its help."""

_YES = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_NO = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_FORMATS = {"text": "console", "json": "json"}
_DEBUG_VERBOSITY = 4
"""From this verbosity on the SIG descheduler says of each pod why it may not be evicted."""

_MAX_PORT = 65535
_MAX_RECORDS = 10**9
_MAX_DIGITS = 18
_MAX_PASSES = 1_000_000
_MAX_NODES = 100_000
_MAX_PODS = 10_000_000
_MAX_RATE, _MAX_BURST = 10_000, 1_000_000


def parse_bool(text: str) -> bool:
    """Read a truth value as Go's flags do."""
    if text in _YES:
        return True
    if text in _NO:
        return False
    raise argparse.ArgumentTypeError(f"{quote(text)} is neither true nor false")


def parse_interval(text: str) -> float:
    """Read a duration in seconds, as Go writes it."""
    from reactive_desched.primitives.durations import DurationError, parse_duration

    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(f"{quote(text)} {error}; {error.hint}") from error
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"{quote(text)} is negative; write 0 for one sweep")
    return seconds


def parse_positive_duration(text: str) -> float:
    """Read a duration of more than nothing in seconds, as Go writes it."""
    from reactive_desched.primitives.durations import DurationError, parse_duration

    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(f"{quote(text)} {error}; {error.hint}") from error
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{quote(text)} is not longer than 0s")
    return seconds


def parse_duration_up_to(text: str, most_s: float) -> float:
    """Read a duration of more than nothing and at most `most_s`, in seconds."""
    seconds = parse_positive_duration(text)
    if seconds > most_s:
        days = f"{most_s / 86_400:g}d"
        raise argparse.ArgumentTypeError(f"{quote(text)} is longer than {days}, the longest")
    return seconds


def parse_selector_flag(text: str) -> "Selector | None":
    """Read a label selector in text form; an empty one says nothing."""
    from reactive_desched.errors import SelectorError
    from reactive_desched.model.labels import parse_selector

    try:
        return parse_selector(text) if text.strip() else None
    except SelectorError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parse_rate(text: str) -> float | None:
    """Read requests a second; 0 says nothing."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= _MAX_RATE:
        raise argparse.ArgumentTypeError(f"{quote(text)} is not a number from 0 to {_MAX_RATE}")
    return number or None


def parse_sample_rate(text: str) -> float:
    """Read the share of traces that is sent; what is beyond 0 and 1 counts as these."""
    try:
        rate = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{quote(text)} is not a number") from None
    return min(max(rate, 0.0), 1.0)


def parse_burst(text: str) -> int | None:
    """Read how many requests may go at once; 0 says nothing."""
    return parse_whole_number(text, 0, _MAX_BURST) or None


def parse_port(text: str) -> int:
    """Read a port; 0 is one."""
    return parse_whole_number(text, 0, _MAX_PORT)


def parse_record_count(text: str) -> int:
    """Read how many records are wanted."""
    return parse_whole_number(text, 0, _MAX_RECORDS)


def parse_passes(text: str) -> int:
    """Read how often to sweep the same objects."""
    return parse_whole_number(text, 1, _MAX_PASSES)


def parse_node_count(text: str) -> int:
    """Read how many nodes the simulator makes."""
    return parse_whole_number(text, 0, _MAX_NODES)


def parse_pod_count(text: str) -> int:
    """Read how many pods the simulator makes."""
    return parse_whole_number(text, 0, _MAX_PODS)


def parse_logging_format(text: str) -> str:
    """Read a format of the SIG descheduler as one of ours."""
    if text not in _FORMATS:
        raise argparse.ArgumentTypeError(f"{quote(text)} is neither text nor json")
    return _FORMATS[text]


def parse_verbosity(text: str) -> str:
    """Read a number of verbosity as one of our levels."""
    return "debug" if parse_whole_number(text, 0, 2**31) >= _DEBUG_VERBOSITY else "info"


def rejecting_parser(message: str) -> Callable[[str], Never]:
    """Make a reader that takes nothing at all."""

    def reject(_: str) -> Never:
        raise argparse.ArgumentTypeError(message)

    return reject


def parse_whole_number(text: str, minimum: int, maximum: int) -> int:
    """Read a whole number between two bounds, both included."""
    is_whole = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    if not is_whole or not minimum <= int(text) <= maximum:
        raise argparse.ArgumentTypeError(
            f"{quote(text)} is not a whole number from {minimum} to {maximum}"
        )
    return int(text)
