"""Shows records as they come, from a folder or a server, until there are no more or we must end."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from reactive_desched.audit.layout import look
from reactive_desched.cli.events_table import Table
from reactive_desched.cli.messages import complain
from reactive_desched.cli.record_filters import Chosen, wanted_by
from reactive_desched.errors import ConfigError, RecordsGone
from reactive_desched.journal.events import event
from reactive_desched.journal.follower import Follower, newest, seq_before
from reactive_desched.journal.paths import default_directory
from reactive_desched.journal.records import Entry
from reactive_desched.journal.segments import UNREADABLE, entries, segments
from reactive_desched.journal.start_position import After, Since, Start, checked, parse_start
from reactive_desched.journal.summary import Filter, summary

POLL_S: Final = 0.2
"""A folder is looked at so often; a look that finds nothing costs some microseconds a file."""

AT_ONCE: Final = 200
"""So many records are laid out together at most."""


class TailOptions(Struct, frozen=True, kw_only=True):
    """What the command line said; `last` counts when there is no start."""

    server: str | None = None
    journal: str | None = None
    start: str | None = None
    last: int = 10
    follow: bool = False
    chosen: Chosen = {}
    output: str = "table"


class Printer(Protocol):
    """Shows records."""

    def show(self, records: Iterable[Entry]) -> None:
        """Write them and have them seen."""
        ...


class JsonLines:
    """Writes the lines as they are."""

    def show(self, records: Iterable[Entry]) -> None:
        """Write them and have them seen."""
        sys.stdout.buffer.writelines(entry.raw + b"\n" for entry in records)
        sys.stdout.buffer.flush()


def run(options: TailOptions) -> int:
    """Show what was asked for and return the exit status."""
    wanted = wanted_by(options.chosen)
    printer = JsonLines() if options.output == "json" else Table(sys.stdout, look(sys.stdout).width)
    start = None if options.start is None else parse_start(options.start, datetime.now(UTC))
    if options.server is not None:
        from reactive_desched.cli.events_server import tail_server

        tail_server(options, wanted, printer)
    else:
        folder = _folder(options.journal, is_to_come=options.follow)
        tail_folder(folder, start, options, wanted, printer)
    return 0


def tail_folder(
    directory: Path,
    start: Start | None,
    options: TailOptions,
    wanted: Filter,
    printer: Printer,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the records of a folder; with `follow` until interrupted."""

    def wants(entry: Entry) -> bool:
        found = summary(entry.raw)
        return wanted.is_empty or (found is not None and wanted.wants(found))

    if start is None:
        found = newest(directory, options.last, wants)
        printer.show(found.entries)
        place = found.last
    else:
        place = _place(directory, start)
    with closing(Follower(directory, place, _missed)) as follower:
        while start is not None or options.follow:
            for some in _batches(filter(wants, follower.new())):
                printer.show(some)
            if not options.follow:
                return
            sleep(POLL_S)


def _folder(named: str | None, *, is_to_come: bool) -> Path:
    """Return the folder of a journal, or one that is to become it; raises ConfigError."""
    directory = Path(named) if named else default_directory(os.environ)
    try:
        found = segments(directory)
    except (FileNotFoundError, NotADirectoryError):
        raise _no_journal(directory) from None
    except OSError as error:
        raise ConfigError(f"{directory}: cannot read it: {error.strerror}") from error
    if not found:
        if not is_to_come:
            raise _no_journal(directory)
        complain(f"{directory}: there is no journal here yet; waiting for it")
    return directory


def _no_journal(directory: Path) -> ConfigError:
    return ConfigError(
        f"{directory}: there is no journal here; name its folder with --journal,"
        " or a running controller with --server"
    )


def _place(directory: Path, start: Start) -> int:
    """Return the sequence behind which to begin."""
    match start:
        case After():
            return _found(directory, start)
        case Since(moment=moment):
            return seq_before(directory, moment)
        case "oldest":
            return _oldest(directory) - 1
        case _:
            return _last(directory)


def _found(directory: Path, place: After) -> int:
    """Return the sequence of a place; one that is not there is told, and all there is comes."""
    oldest = _oldest(directory)
    try:
        epoch = _epoch(directory) if place.epoch else ""
        return checked(place, epoch, oldest, _last(directory))
    except RecordsGone as gone:
        complain(f"{gone}; going on with record {oldest}")
        return oldest - 1


def _oldest(directory: Path) -> int:
    files = segments(directory)
    return files[0].first_seq if files else 1


def _last(directory: Path) -> int:
    return newest(directory, 0, lambda _: False).last


def _epoch(directory: Path) -> str:
    """Return the name of the journal, as the first record says that can be read."""
    for one in segments(directory):
        with suppress(*UNREADABLE):
            for entry in entries(one):
                if (found := event("", entry.raw)) is not None:
                    return found.source.rpartition("/")[2]
    return ""


def _missed(first: int, last: int) -> None:
    which = f"record {first} is" if first == last else f"records {first} to {last} are"
    complain(f"{which} missing here: removed, or damaged; `audit verify` tells")


def _batches(records: Iterable[Entry]) -> Iterator[list[Entry]]:
    some: list[Entry] = []
    for entry in records:
        some.append(entry)
        if len(some) == AT_ONCE:
            yield some
            some = []
    if some:
        yield some
