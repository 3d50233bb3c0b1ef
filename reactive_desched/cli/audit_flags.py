"""The flags of the audit commands: where the journal is, and which records are meant."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reactive_desched.cli import flag_values, journal_flags, record_filters
from reactive_desched.cli.commands import print_warning
from reactive_desched.text.counts import format_count

if TYPE_CHECKING:
    from datetime import datetime

    from reactive_desched.audit.catalogue import IndexCatalogue
    from reactive_desched.audit.lookup import RecordQuery


NO_RECORD_MATCHES: Final = "no record matches; `audit status` shows which time the journal covers\n"


def add_journal(command: argparse.ArgumentParser) -> None:
    """Describe where the journal is."""
    journal_flags.add_journal(command)
    command.add_argument("--rebuild-index", action="store_true", help="rebuild the index first")


def add_limit(command: argparse.ArgumentParser, default: int) -> None:
    """Describe how many of the newest records are listed."""
    command.add_argument(
        "--limit",
        metavar="N",
        type=flag_values.parse_record_count,
        default=default,
        help=f"the newest so many (default {default}; 0: all)",
    )


def add_filters(command: argparse.ArgumentParser) -> None:
    """Describe which records are meant, and of which time."""
    add_period(record_filters.add(command))


def add_period(chosen: "argparse._ArgumentGroup", *, since: str = "") -> None:
    """Describe of which time the records are; the text says what holds without --since."""
    by_default = f" (default: {since})" if since else ""
    chosen.add_argument(
        "--since",
        metavar="TIME",
        default="",
        help=f"that happened then or later: {flag_values.TIME_HELP}{by_default}",
    )
    chosen.add_argument(
        "--until", metavar="TIME", default="", help="that happened before then, written as --since"
    )


def add_out(command: argparse.ArgumentParser) -> None:
    """Describe the file that is written."""
    command.add_argument(
        "--out",
        metavar="FILE",
        help="write to this file, which is replaced as a whole (default: standard output)",
    )


def write_parts(parts: Iterable[bytes], out: str | None) -> None:
    """Write to the file that --out names, else to standard output; raises JournalError."""
    from reactive_desched.audit.export import write_file

    if out:
        write_file(parts, Path(out))
    else:
        sys.stdout.buffer.writelines(parts)


def record_query(arguments: argparse.Namespace) -> "RecordQuery":
    """Return which records are meant; raises ConfigError."""
    from datetime import UTC, datetime

    from reactive_desched.audit import lookup

    chosen = record_filters.build_filter(record_filters.filter_values(arguments))
    return lookup.parse_query(chosen, arguments.since, arguments.until, datetime.now(UTC))


def period_query(arguments: argparse.Namespace, now: "datetime") -> "RecordQuery":
    """Return which pods are meant and of which time, which has both bounds; raises ConfigError."""
    from reactive_desched.audit import lookup
    from reactive_desched.journal.summary import EventFilter

    words = record_filters.pod_words(arguments)
    record_filters.check_plugins(words.get("plugins", ()))
    return lookup.parse_period(EventFilter(**words), arguments.since, arguments.until, now)


@contextmanager
def open_catalogue(
    arguments: argparse.Namespace, directory: Path | None = None
) -> "Iterator[IndexCatalogue]":
    """Open what is searched, in `directory` where the caller has chosen it.

    At the end say on stderr what could not be read.
    """
    from reactive_desched.audit import opening

    directory = directory or journal_flags.journal_directory(arguments)
    cache = opening.cache_directory(os.environ)
    rebuild = arguments.rebuild_index
    with opening.open_catalogue(
        directory, cache, rebuild=rebuild, notify=print_warning
    ) as catalogue:
        yield catalogue
        sys.stdout.flush()  # errors come behind the records
        for line in _damage_warnings(catalogue):
            print_warning(line)


def _damage_warnings(catalogue: "IndexCatalogue") -> Iterator[str]:
    if damaged := catalogue.damaged:
        lines = format_count(damaged, "damaged line", "is", "are")
        yield f"{lines} left out; `audit verify` names the first"
    if missing := catalogue.missing:
        records = format_count(missing, "record", "is", "are")
        yield f"{records} no longer in place: removed, or damaged since"
