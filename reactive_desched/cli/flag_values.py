"""What the texts of flags turn into; every refusal says what to write."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Never

if TYPE_CHECKING:
    from reactive_desched.model.labels import Selector

_YES = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_NO = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_FORMATS = {"text": "console", "json": "json"}
_CHATTY = 4
"""From this verbosity on the SIG descheduler says of each pod why it may not be evicted."""

_HIGHEST_PORT = 65535
_MOST_DIGITS = 18
"""A number of more digits is none that SQLite, or a queue, takes."""
_HIGHEST_RATE, _LARGEST_BURST = 10_000, 1_000_000


def yes_no(text: str) -> bool:
    """Read a truth value as Go's flags do."""
    if text in _YES:
        return True
    if text in _NO:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def interval(text: str) -> float:
    """Read a duration in seconds, as Go writes it."""
    from reactive_desched.policy.durations import DurationError, parse_duration

    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}: {error.hint}") from error
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative: write 0 for one sweep")
    return seconds


def selector(text: str) -> "Selector | None":
    """Read a label selector in text form; an empty one says nothing."""
    from reactive_desched.errors import SelectorError
    from reactive_desched.model.labels import parse_selector

    try:
        return parse_selector(text) if text.strip() else None
    except SelectorError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def rate(text: str) -> float | None:
    """Read requests a second; 0 says nothing."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= _HIGHEST_RATE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_HIGHEST_RATE}")
    return number or None


def burst(text: str) -> int | None:
    """Read how many requests may go at once; 0 says nothing."""
    return _whole(text, _LARGEST_BURST) or None


def port(text: str) -> int:
    """Read a port; 0 is one."""
    return _whole(text, _HIGHEST_PORT)


def records(text: str) -> int:
    """Read how many records are wanted."""
    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of records")
    return int(text)


def logging_format(text: str) -> str:
    """Read a format of the SIG descheduler as one of ours."""
    if text not in _FORMATS:
        raise argparse.ArgumentTypeError(f"{text!r} is neither text nor json")
    return _FORMATS[text]


def verbosity(text: str) -> str:
    """Read a number of verbosity as one of our levels."""
    return "debug" if _whole(text, 2**31) >= _CHATTY else "info"


def refusal(why: str) -> Callable[[str], Never]:
    """Make a reader that takes nothing at all."""

    def refuse(_: str) -> Never:
        raise argparse.ArgumentTypeError(why)

    return refuse


def _whole(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {most}")
    return int(text)
