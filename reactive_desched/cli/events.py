"""`events`: what the controller records, as it happens."""

import argparse
from datetime import UTC, datetime
from typing import Final

from reactive_desched.cli import controller_client, flag_values, journal_flags, record_filters
from reactive_desched.cli.commands import Commands, print_warning
from reactive_desched.errors import ConfigError

DEFAULT_LIMIT: Final = 10
_DESCRIPTION = """\
Show records: findings, decisions, eviction requests and outcomes. The records come from
a journal's folder, also while the controller writes it, or from a controller's stream of events."""
_EPILOG = f"""\
Without --from, --since and --limit the last {DEFAULT_LIMIT} are shown. With -o json each line is
the record as it stands in the journal. On a terminal a table is folded to its width; elsewhere each
record has one line. What is missing, because it was removed meanwhile, is reported on standard
error. So is a place of --from that is not there, or is in another journal: then everything there is
follows.

exit status: 0 everything was shown, 1 the journal or the server cannot be read, 2 the arguments are
wrong, 130 interrupted, 141 the output was closed"""


def add(commands: Commands) -> None:
    """Describe `events` to the parser."""
    command = commands.add_parser("events", help="show what is recorded, as it happens")
    command.describe(
        "Look at what the controller records.",
        examples=(
            "reactive-desched events tail -f",
            "reactive-desched events tail --since 1h --outcome evicted",
        ),
    )
    doing = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_tail(doing)


def add_tail(commands: Commands) -> None:
    """Describe `tail` to a parser; `audit` has it too."""
    command = commands.add_parser("tail", help="show the newest records, and those to come")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            f"{command.prog} -f",
            f"{command.prog} --since 1h -n shop --outcome evicted -o json",
        ),
    )
    ends = command.add_mutually_exclusive_group()
    ends.add_argument("-f", "--follow", action="store_true", help="continue with new records")
    ends.add_argument(
        "--until", metavar="TIME", help="end with what happened before then, written as --since"
    )
    _add_start(command)
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--server", metavar="URL", help="a controller, such as http://127.0.0.1:10258"
    )
    journal_flags.add_journal(command, where)
    controller_client.add_trust(command)
    record_filters.add(command)
    command.add_argument("-o", "--output", choices=["table", "json"], default="table")
    command.set_defaults(command=_tail)


def _add_start(command: argparse.ArgumentParser) -> None:
    start = command.add_mutually_exclusive_group()
    start.add_argument(
        "--from",
        dest="start",
        metavar="POSITION",
        help="begin behind a record, given by its sequence or its id in the stream; or at oldest,"
        " now, or a time as --since has it",
    )
    start.add_argument(
        "--since",
        metavar="TIME",
        help=f"begin with what happened then or later: {flag_values.TIME_HELP}",
    )
    start.add_argument(
        "--limit",
        metavar="N",
        type=flag_values.parse_record_count,
        help="begin with the newest so many of those wanted",
    )
    start.add_argument(
        "--last",
        dest="limit",
        metavar="N",
        type=flag_values.parse_record_count,
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )


def _moment(arguments: argparse.Namespace, flag: str) -> datetime:
    """Return the moment that a flag was given; raises ConfigError."""
    from reactive_desched.primitives.timestamps import parse_flag_moment

    return parse_flag_moment(f"--{flag}", getattr(arguments, flag), datetime.now(UTC))


def _tail(arguments: argparse.Namespace) -> int:
    from reactive_desched.cli.events_server import TailOptions
    from reactive_desched.cli.events_tail import run

    for namespace in filter(str.isdigit, arguments.namespace):  # as `tail -n 20` has it
        print_warning(f"-n {namespace} is a namespace; --limit {namespace} is a number of records")
    last = DEFAULT_LIMIT if arguments.limit is None else arguments.limit
    if arguments.server and arguments.cluster:
        raise ConfigError("--cluster names a journal, and --server a controller: leave one out")
    # Wrong words are named before it is asked which cluster's journal is meant.
    filters = record_filters.filter_values(arguments)
    record_filter = record_filters.build_filter(filters)
    start = _moment(arguments, "since").isoformat() if arguments.since else arguments.start
    until = _moment(arguments, "until") if arguments.until else None
    return run(
        TailOptions(
            controller=controller_client.client_of(arguments) if arguments.server else None,
            journal=None if arguments.server else journal_flags.journal_directory(arguments),
            start=start,
            until=until,
            last=last,
            follow=arguments.follow,
            filters=filters,
            output=arguments.output,
        ),
        record_filter,
    )
