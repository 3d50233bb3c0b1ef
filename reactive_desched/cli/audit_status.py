"""`audit status`: what a journal holds, and the cursors of its sinks."""

import argparse
import sys

from reactive_desched.cli import audit_flags
from reactive_desched.cli.commands import Commands

_DESCRIPTION = """\
Show the status of a journal: its cluster and the policy in force, its files, its first and last
record, the records that no checkpoint covers yet, evictions without an outcome, damaged lines, the
cursor and dead letters of each sink, and the index."""
_EPILOG = """\
with -o json, one object: "journal", "source", "files", "first", "last", "checkpoint", "open",
"openCount", "damagedLines", "sinks", "index", "retention" (null before a controller wrote it),
"epochs" (each start of another epoch, and the records that are missing before it) and "policy"
(the one that came into force last, and its cluster)

exit status: 0 shown, 1 the journal cannot be read, 2 the arguments are wrong"""


def add(commands: Commands) -> None:
    """Describe `audit status` to the parser of `audit`."""
    command = commands.add_parser("status", help="say how the journal and its readers stand")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched audit status",
            "reactive-desched audit status --journal ./journal -o json",
        ),
    )
    audit_flags.add_journal(command)
    command.add_argument("-o", "--output", choices=["text", "json"], default="text")
    command.set_defaults(command=_status)


def _status(arguments: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from reactive_desched.audit.status import as_json, journal_status
    from reactive_desched.audit.status_text import status_lines
    from reactive_desched.text.layout import layout_for

    with audit_flags.open_catalogue(arguments) as catalogue:
        found = journal_status(catalogue, datetime.now(UTC))
        if arguments.output == "json":
            sys.stdout.write(as_json(found).decode())
        else:
            sys.stdout.writelines(
                f"{line}\n" for line in status_lines(found, layout_for(sys.stdout))
            )
    return 0
