"""`audit report`: sum up a period, as a page to read, print and attach."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from reactive_desched.cli import audit_flags, flag_values, record_filters
from reactive_desched.cli.commands import Commands

if TYPE_CHECKING:
    from reactive_desched.audit.report.report import PeriodReport

_ROWS: Final = 20
_FORMATS: Final = ("md", "html", "json")
_DESCRIPTION = """\
Sum up what was decided and what came of it: evictions by plugin, namespace, workload and hour, how
long replacements took until Ready, which moves helped, why pods were not evicted, what the limits
deferred, and what is missing in the record. As html it is one file with its charts, without scripts
and without references to other files; as md, Markdown with tables. Times are UTC. The same records
and the same --since and --until give the same report."""
_EPILOG = """\
with -o json, one object: "since", "until", "totals", "overTime" (by "barHours"), "hoursOfDay",
"plugins", "namespaces", "workloads", "ready", "moves", "refusals", "outcomes", "limits", "brakes",
"disruptions", "openRequests", "policies" and "record" (what is missing); a table is "rows" and how
many "others" there are

exit status: 0 written, also of a period without records, 1 the journal cannot be read, 2 the
arguments are wrong"""


def add(commands: Commands) -> None:
    """Describe `audit report` to the parser of `audit`."""
    command = commands.add_parser("report", help="sum up a period as HTML, Markdown or JSON")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched audit report --since 7d -o html --out week.html",
            "reactive-desched audit report -n shop --since 2026-05-01 --until 2026-06-01",
        ),
    )
    audit_flags.add_period(record_filters.add_pods(command), since="7d before --until")
    command.add_argument(
        "--limit",
        metavar="N",
        type=flag_values.parse_record_count,
        default=_ROWS,
        help=f"at most so many rows in a table, the largest (default {_ROWS}; 0: all)",
    )
    audit_flags.add_journal(command)
    command.add_argument(
        "-o", "--output", choices=_FORMATS, default="md", help="how it is written (default: md)"
    )
    audit_flags.add_out(command)
    command.set_defaults(command=_report)


def _report(arguments: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from reactive_desched.audit.report.builder import make_report

    now = datetime.now(UTC)
    query = audit_flags.period_query(arguments, now)
    with audit_flags.open_catalogue(arguments) as catalogue:
        report = make_report(catalogue, query, arguments.limit, now)
        parts = (part.encode() for part in _parts(report, arguments.output))
        audit_flags.write_parts(parts, arguments.out)
    return 0


def _parts(report: "PeriodReport", form: str) -> "Iterable[str]":
    if form == "json":
        from reactive_desched.audit.report.builder import as_json

        return (as_json(report),)
    from reactive_desched.audit.report.document_writer import write_document

    if form == "html":
        from reactive_desched.audit.report.html_page import as_html

        return as_html(write_document(report))
    from reactive_desched.audit.report.markdown_page import as_markdown

    return as_markdown(write_document(report))
