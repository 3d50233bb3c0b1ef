"""The flags of the audit commands: where the journal is, and which records are meant."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reactive_desched.audit.catalogue import Catalogue
    from reactive_desched.audit.lookup import Wanted

_FILTERS: Final = {
    "pod": ("NAME", "of this pod, as NAMESPACE/NAME, NAME or uid"),
    "owner": ("NAME", "of pods that belong to this, as KIND/NAME, NAME or uid"),
    "namespace": ("NAME", "of pods in this namespace"),
    "node": ("NAME", "of pods on this node"),
    "plugin": ("NAME", "found by this plugin"),
    "type": ("TYPE", "of this type, such as eviction.succeeded, or all of eviction"),
    "outcome": ("RESULT", "that ended so, such as evicted"),
}


def add_journal(command: argparse.ArgumentParser) -> None:
    """Describe where the journal is."""
    command.add_argument(
        "--journal", metavar="DIR", help="the journal's folder (default: where `run` keeps it)"
    )
    command.add_argument(
        "--rebuild-index", action="store_true", help="make the index anew before looking"
    )


def add_filters(command: argparse.ArgumentParser) -> None:
    """Describe which records are meant: each flag may be repeated, or hold words with commas."""
    chosen = command.add_argument_group(
        "which records", "flags narrow each other down; one given again, or with commas, widens"
    )
    for name, (metavar, text) in _FILTERS.items():
        chosen.add_argument(f"--{name}", metavar=metavar, action="append", default=[], help=text)
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

    from reactive_desched.audit import asked
    from reactive_desched.journal.summary import Filter

    given = {f"{name}s": asked.words(f"--{name}", getattr(arguments, name)) for name in _FILTERS}
    return asked.wanted(Filter(**given), arguments.since, arguments.until, datetime.now(UTC))


@contextmanager
def searching(arguments: argparse.Namespace) -> "Iterator[Catalogue]":
    """Open what is searched; at the end say on stderr what could not be read.

    Whoever reads our output may have enough of it before the end: `audit query | head`.
    """
    try:
        with _searching(arguments) as catalogue:
            yield catalogue
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _searching(arguments: argparse.Namespace) -> "Iterator[Catalogue]":
    from reactive_desched.audit import opening

    directory = journal(arguments)
    cache = opening.cache_directory(os.environ)
    rebuild = arguments.rebuild_index
    with opening.searching(directory, cache, rebuild=rebuild, say=complain) as catalogue:
        yield catalogue
        for line in _complaints(catalogue):
            complain(line)


def complain(line: str) -> None:
    """Tell something on standard error, at once."""
    sys.stderr.write(f"reactive-desched: {line}\n")
    sys.stderr.flush()


def journal(arguments: argparse.Namespace) -> Path:
    """Return the journal's folder."""
    from reactive_desched.journal.place import default_directory

    return Path(arguments.journal) if arguments.journal else default_directory(os.environ)


def _complaints(catalogue: "Catalogue") -> Iterator[str]:
    if damaged := catalogue.damaged:
        lines = "1 damaged line is" if damaged == 1 else f"{damaged} damaged lines are"
        yield f"{lines} left out; `audit verify` names the first"
    if missing := catalogue.missing:
        records = "1 record is" if missing == 1 else f"{missing} records are"
        yield f"{records} no longer in place: removed, or damaged since"
