"""`audit export`: hand records on, as lines that can be verified or as a table."""

import argparse
import sys
from typing import Final

from reactive_desched.cli import audit_flags
from reactive_desched.cli.commands import Commands

_NOT_FOUND: Final = 1
_FORMATS: Final = ("jsonl", "csv")
_DESCRIPTION = """\
Write records in their order, each once. As jsonl they are the journal's own lines: all of them
together can still be verified, for example as DIR/journal-00000000000000000001.jsonl with
`audit verify --journal DIR --key FILE`; a selection of them cannot, since it has gaps. As csv (RFC
4180, UTF-8, with headings) there is a row for each record; a cell that begins with = + - or @ gets
a ' in front, so that no spreadsheet reads it as a formula."""
_EPILOG = """\
exit status: 0 written, 1 nothing was found or something failed, 2 the arguments are wrong"""


def add(commands: Commands) -> None:
    """Describe `audit export` to the parser of `audit`."""
    command = commands.add_parser("export", help="write records as JSON lines or CSV")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched audit export --since 7d -o csv --out week.csv",
            "reactive-desched audit export -n shop --outcome evicted",
        ),
    )
    audit_flags.add_filters(command)
    command.add_argument("-o", "--output", choices=_FORMATS, default="jsonl")
    command.add_argument("--format", dest="output", choices=_FORMATS, help=argparse.SUPPRESS)
    audit_flags.add_out(command)
    audit_flags.add_journal(command)
    command.set_defaults(command=_export)


def _export(arguments: argparse.Namespace) -> int:
    from reactive_desched.audit.export import (
        RecordCounter,
        as_csv,
        as_jsonl,
        matching_records,
    )

    query = audit_flags.record_query(arguments)
    form = as_csv if arguments.output == "csv" else as_jsonl
    counted = RecordCounter()
    with audit_flags.open_catalogue(arguments) as catalogue:
        parts = form(counted.count_through(matching_records(catalogue, query)))
        audit_flags.write_parts(parts, arguments.out)
    if not counted.count:
        sys.stderr.write(audit_flags.NO_RECORD_MATCHES)
    return 0 if counted.count else _NOT_FOUND
