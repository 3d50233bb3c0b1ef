"""Shows records as they come, from a folder or a server, until there are no more or we must end."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from reactive_desched.cli.commands import print_warning
from reactive_desched.cli.events_server import Printer, TailOptions, is_before
from reactive_desched.cli.events_table import EventTable
from reactive_desched.errors import ConfigError, RecordsExpired
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.follower import JournalFollower, newest_records, seq_before
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.segments import READ_ERRORS, list_segments, read_records
from reactive_desched.journal.start_position import (
    AfterSequence,
    SinceTime,
    Start,
    parse_start,
    validate_position,
)
from reactive_desched.journal.summary import EventFilter, parse_summary
from reactive_desched.text.layout import layout_for

POLL_S: Final = 0.2
"""A folder is looked at so often; a look that finds nothing costs some microseconds a file."""

BATCH_SIZE: Final = 200
"""So many records are laid out together at most."""


class JsonLines:
    """Writes the lines as they are."""

    def show(self, records: Iterable[JournalRecord]) -> None:
        """Write them and have them seen."""
        sys.stdout.buffer.writelines(entry.raw + b"\n" for entry in records)
        sys.stdout.buffer.flush()


def run(options: TailOptions, record_filter: EventFilter) -> int:
    """Show what was asked for and return the exit status; the filter is that of the options."""
    printer = (
        JsonLines()
        if options.output == "json"
        else EventTable(sys.stdout, layout_for(sys.stdout).width)
    )
    start = None if options.start is None else parse_start(options.start, datetime.now(UTC))
    if options.controller is not None:
        from reactive_desched.cli.events_server import tail_server

        tail_server(options, record_filter, printer)
    else:
        assert options.journal is not None, "a controller or a journal is named"
        folder = _existing_journal(options.journal, may_be_missing=options.follow)
        tail_folder(folder, start, options, record_filter, printer)
    return 0


def tail_folder(
    directory: Path,
    start: Start | None,
    options: TailOptions,
    record_filter: EventFilter,
    printer: Printer,
) -> None:
    """Show the records of a folder; with `follow` until interrupted."""

    def wants(entry: JournalRecord) -> bool:
        if not is_before(entry, options.until):
            return False
        record_summary = parse_summary(entry.raw)
        return record_filter.is_empty or (
            record_summary is not None and record_filter.matches(record_summary)
        )

    if start is None:
        latest = newest_records(directory, options.last, wants)
        printer.show(latest.records)
        after_seq = latest.last_seq
    else:
        after_seq = _start_seq(directory, start)
    with closing(JournalFollower(directory, after_seq, _warn_missing)) as follower:
        while start is not None or options.follow:
            for some in _batches(filter(wants, follower.read_new())):
                printer.show(some)
            if not options.follow:
                return
            time.sleep(POLL_S)


def _existing_journal(directory: Path, *, may_be_missing: bool) -> Path:
    """Return the folder of a journal, or one that is to become it; raises ConfigError."""
    try:
        closed_segments = list_segments(directory)
    except (FileNotFoundError, NotADirectoryError):
        raise _no_journal(directory) from None
    except OSError as error:
        raise ConfigError(f"{directory}: cannot read it: {error.strerror}") from error
    if not closed_segments:
        if not may_be_missing:
            raise _no_journal(directory)
        print_warning(f"{directory}: there is no journal here yet; waiting for it")
    return directory


def _no_journal(directory: Path) -> ConfigError:
    what = "there is no journal here" if directory.is_dir() else "there is no such folder"
    return ConfigError(
        f"{directory}: {what}; name the journal's folder with --journal DIR,"
        " or a running controller with --server"
    )


def _start_seq(directory: Path, start: Start) -> int:
    """Return the sequence behind which to begin."""
    match start:
        case AfterSequence():
            return _checked_seq(directory, start)
        case SinceTime(moment=moment):
            return seq_before(directory, moment)
        case "oldest":
            return _oldest_seq(directory) - 1
        case _:
            return _newest_seq(directory)


def _checked_seq(directory: Path, start: AfterSequence) -> int:
    """Return the sequence number of a position; warn of a missing one and begin at the oldest."""
    oldest = _oldest_seq(directory)
    try:
        epoch = _journal_epoch(directory) if start.epoch else ""
        return validate_position(start, epoch, oldest, _newest_seq(directory))
    except RecordsExpired as gone:
        print_warning(f"{gone}; going on with record {oldest}")
        return oldest - 1


def _oldest_seq(directory: Path) -> int:
    files = list_segments(directory)
    return files[0].first_seq if files else 1


def _newest_seq(directory: Path) -> int:
    return newest_records(directory, 0, lambda _: False).last_seq


def _journal_epoch(directory: Path) -> str:
    """Return the name of the journal, as the first record says that can be read."""
    for one in list_segments(directory):
        with suppress(*READ_ERRORS):
            for entry in read_records(one):
                if (envelope := decode_event("", entry.raw)) is not None:
                    return envelope.source.rpartition("/")[2]
    return ""


def _warn_missing(first: int, last: int) -> None:
    which = f"record {first} is" if first == last else f"records {first} to {last} are"
    print_warning(f"{which} missing here: removed, or damaged; `audit verify` says which")


def _batches(records: Iterable[JournalRecord]) -> Iterator[list[JournalRecord]]:
    some: list[JournalRecord] = []
    for entry in records:
        some.append(entry)
        if len(some) == BATCH_SIZE:
            yield some
            some = []
    if some:
        yield some
