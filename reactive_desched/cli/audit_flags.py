"""The flags of the audit commands: where the journal is, and which records are meant."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reactive_desched.cli import record_filters
from reactive_desched.cli.messages import complain

if TYPE_CHECKING:
    from reactive_desched.audit.catalogue import Catalogue
    from reactive_desched.audit.lookup import Wanted


def add_journal(command: argparse.ArgumentParser) -> None:
    """Describe where the journal is."""
    command.add_argument(
        "--journal", metavar="DIR", help="the journal's folder (default: where `run` keeps it)"
    )
    command.add_argument(
        "--rebuild-index", action="store_true", help="make the index anew before looking"
    )


def add_filters(command: argparse.ArgumentParser) -> None:
    """Describe which records are meant, and of which time."""
    chosen = record_filters.add(command)
    chosen.add_argument(
        "--since",
        metavar="TIME",
        default="",
        help="that happened then or later: RFC 3339, a day (UTC), or how long ago, such as 10m",
    )
    chosen.add_argument("--until", metavar="TIME", default="", help="that happened before")


def wanted(arguments: argparse.Namespace) -> "Wanted":
    """Return which records are meant; raises ConfigError."""
    from datetime import UTC, datetime

    from reactive_desched.audit import query_args

    chosen = record_filters.wanted_by(record_filters.chosen(arguments))
    return query_args.wanted(chosen, arguments.since, arguments.until, datetime.now(UTC))


@contextmanager
def searching(arguments: argparse.Namespace) -> "Iterator[Catalogue]":
    """Open what is searched; at the end say on stderr what could not be read."""
    from reactive_desched.audit import opening

    directory = journal(arguments)
    cache = opening.cache_directory(os.environ)
    rebuild = arguments.rebuild_index
    with opening.searching(directory, cache, rebuild=rebuild, say=complain) as catalogue:
        yield catalogue
        sys.stdout.flush()  # what could not be read is told behind what could
        for line in _complaints(catalogue):
            complain(line)


def journal(arguments: argparse.Namespace) -> Path:
    """Return the journal's folder."""
    from reactive_desched.journal.paths import default_directory

    return Path(arguments.journal) if arguments.journal else default_directory(os.environ)


def _complaints(catalogue: "Catalogue") -> Iterator[str]:
    if damaged := catalogue.damaged:
        lines = "1 damaged line is" if damaged == 1 else f"{damaged} damaged lines are"
        yield f"{lines} left out; `audit verify` names the first"
    if missing := catalogue.missing:
        records = "1 record is" if missing == 1 else f"{missing} records are"
        yield f"{records} no longer in place: removed, or damaged since"
