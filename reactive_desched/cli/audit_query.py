"""`audit query`: find records by pod, owner, node, plugin, outcome, reason or time."""

import argparse
import sys
from typing import TYPE_CHECKING, Final

from reactive_desched.cli import audit_flags
from reactive_desched.cli.commands import Commands

if TYPE_CHECKING:
    from reactive_desched.audit.catalogue import SearchResult

_NOT_FOUND: Final = 1
_LIMIT: Final = 100
_DESCRIPTION = """\
List records, the newest last. An index beside the journal (index.sqlite) makes this quick; it is
brought up to date first, and where the folder cannot be written to, kept in the user's cache. On a
terminal the list is folded to its width; elsewhere each record has one line."""
_EPILOG = """\
with -o json, the records as an array; each is the published event as it stands in the journal

exit status: 0 something was found, 1 nothing was found or the journal cannot be read, 2 the
arguments are wrong"""


def add(commands: Commands) -> None:
    """Describe `audit query` to the parser of `audit`."""
    command = commands.add_parser("query", help="find records by pod, owner, node, plugin, …")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched audit query 'web-*' --since 2h",
            "reactive-desched audit query --owner Deployment/web --outcome failed -o json",
        ),
    )
    command.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="a pod or its owner, the start of such a name, or a pattern with * and ?",
    )
    audit_flags.add_filters(command)
    audit_flags.add_limit(command, _LIMIT)
    audit_flags.add_journal(command)
    command.add_argument("-o", "--output", choices=["table", "json"], default="table")
    command.set_defaults(command=_query)


def _query(arguments: argparse.Namespace) -> int:
    from reactive_desched.audit.catalogue import as_json, search
    from reactive_desched.audit.id_resolver import about_name

    query = audit_flags.record_query(arguments)
    with audit_flags.open_catalogue(arguments) as catalogue:
        if arguments.name is not None:
            query = about_name(catalogue, query, arguments.name)
        records = search(catalogue, query, arguments.limit)
        if arguments.output == "json":
            sys.stdout.write(as_json(records.records))
        else:
            _print(records)
    return 0 if records.records else _NOT_FOUND


def _print(records: "SearchResult") -> None:
    from reactive_desched.cli.events_table import EventTable
    from reactive_desched.text.layout import layout_for

    if not records.records:
        sys.stderr.write(audit_flags.NO_RECORD_MATCHES)
        return
    EventTable(sys.stdout, layout_for(sys.stdout).width, with_cases=True).show(records.records)
    if records.has_more:
        sys.stderr.write("older records match, too: --limit N lists more, --limit 0 all\n")
