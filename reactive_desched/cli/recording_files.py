"""Finds the recording that a command is about, and writes the file that it makes."""

import argparse
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reactive_desched.cli import journal_flags
from reactive_desched.cli.commands import print_warning
from reactive_desched.errors import ConfigError

if TYPE_CHECKING:
    from reactive_desched.recording.items import Damage, Item, Items

STDOUT: Final = "-"
_MOST_NAMED: Final = 5


def add_recording(command: argparse.ArgumentParser, *, is_named: bool = False) -> None:
    """Describe what says which recording is meant: `named`, which is first, or flags."""
    where = command.add_mutually_exclusive_group()
    if is_named:
        where.add_argument("named", metavar="RECORDING", nargs="?", help="the same as --recording")
    where.add_argument(
        "--recording",
        metavar="PATH",
        help="a recording's folder, an exported file, or the folder of a journal"
        " (default: that of --journal, or of the kubeconfig's cluster)",
    )
    journal_flags.add_journal(command, where)


def recording_of(arguments: argparse.Namespace) -> Path:
    """Return the recording that is meant; raises ConfigError or NotRecorded, with the remedy."""
    from reactive_desched.plan.recorded_moment import find_recording

    named = getattr(arguments, "named", None) or arguments.recording  # not every command has both
    return find_recording(Path(named) if named else journal_flags.journal_directory(arguments))


def add_output(command: argparse.ArgumentParser, metavar: str) -> None:
    """Describe the file that is written."""
    command.add_argument(
        "out",
        metavar=metavar,
        help="the file to write, which must not be there; - is standard output",
    )


class Damages:
    """Gathers the places that a recording cannot be read at; a second reading finds them again."""

    def __init__(self) -> None:
        self._found: dict[Damage, None] = {}

    def add(self, damage: "Damage") -> None:
        """Keep a place."""
        self._found[damage] = None

    def warn(self) -> None:
        """Print each place on standard error, and what of the recording is left out for it."""
        for damage in list(self._found)[:_MOST_NAMED]:
            print_warning(f"left out up to the next segment: {damage}")
        if (more := len(self._found) - _MOST_NAMED) > 0:
            print_warning(f"and {more} more places; `recording status -o json` names them all")


def without_names(read: "Callable[[], Items]") -> "Iterable[Item]":
    """Return the items of a recording with pseudonyms; it is read twice."""
    from random import SystemRandom

    from reactive_desched.recording.anonymize import anonymized

    return anonymized(read, SystemRandom())


def write(items: "Iterable[Item]", out: str) -> None:
    """Write items to the file that was named, and say on standard error what it has.

    Raises RecordingError, and ConfigError where standard output is a terminal.
    """
    from reactive_desched.errors import RecordingError
    from reactive_desched.recording.recording_file import write_file, write_recording
    from reactive_desched.text.counts import format_count
    from reactive_desched.text.times import format_second

    if out != STDOUT:
        written = write_file(items, Path(out))
    elif sys.stdout.isatty():
        raise ConfigError("a recording is not for a terminal: name a file, or write to a pipe")
    else:
        try:
            written = write_recording(items, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise RecordingError(f"standard output cannot be written: {error.strerror}") from error
    named = "written" if out == STDOUT else f"{out} is written"
    times = f"{format_second(written.first_s)} to {format_second(written.last_s)}"
    count = format_count(written.items, "item")
    with suppress(OSError):
        sys.stderr.write(f"{named}: {count}, {times}\n")
