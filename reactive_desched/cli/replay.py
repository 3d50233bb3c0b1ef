"""`replay`: whether this version of the program would have decided the same."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from reactive_desched.cli import flag_values, journal_flags
from reactive_desched.cli.commands import Commands, print_warning
from reactive_desched.errors import ConfigError

if TYPE_CHECKING:
    from reactive_desched.replay.replaying import ReplayOptions

_EPILOG = """\
what is equal is the pod, the plugin, the verdict, the gate and its reason, at a time within
debounce.maxWait of the settings in force

the end of what a process wrote that was killed may be torn: it is cut off, which is said

exit status: 0 all decisions are equal, 1 some differ, a plugin failed, or the recording or the
journal is damaged or cannot be read, 2 the arguments are wrong"""


def add(commands: Commands) -> None:
    """Describe `replay` to the parser."""
    command = commands.add_parser("replay", help="say whether it would decide the same again")
    command.describe(
        "Run the controller of this version over a recording, on a clock of its own and with the "
        "recorded outcomes of evictions, and compare its decisions with those of the journal. "
        "Nothing is evicted, and no server is asked.",
        epilog=_EPILOG,
        examples=(
            "reactive-desched replay",
            "reactive-desched replay --since 24h --journal ./journal",
            "reactive-desched replay --recording ./recording --journal ./journal -o json",
        ),
    )
    command.add_argument(
        "--since", metavar="TIME", help=f"compare from then on: {flag_values.TIME_HELP}"
    )
    command.add_argument("--until", metavar="TIME", help="compare up to then, written as --since")
    command.add_argument(
        "--recording",
        metavar="PATH",
        help="the folder of a recording, or an exported file (default: that in the journal's"
        " folder)",
    )
    journal_flags.add_journal(command)
    command.add_argument("-o", "--output", choices=["table", "json"], default="table")
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    from reactive_desched.plugins.registry import plugin_registry
    from reactive_desched.primitives.hung_calls import hung_calls_ended
    from reactive_desched.replay.replaying import replay_recording
    from reactive_desched.replay.text import as_builtins, report_lines

    options = _options(arguments)
    try:
        with hung_calls_ended():
            report = replay_recording(options, plugin_registry())
    except OSError as error:
        raise ConfigError(f"{options.journal} cannot be read: {error.strerror}") from error
    if arguments.output == "json":
        import json

        sys.stdout.write(json.dumps(as_builtins(report), indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in report_lines(report))
    for fault in report.plugin_faults:
        print_warning(fault)
    is_wrong = report.differences or report.plugin_faults or report.is_damaged
    return 1 if is_wrong or not report.lives else 0


def _options(arguments: argparse.Namespace) -> "ReplayOptions":
    from math import inf

    from reactive_desched.plan.recorded_moment import find_recording, journal_beside
    from reactive_desched.primitives.timestamps import parse_flag_moment
    from reactive_desched.replay.replaying import ReplayOptions

    now = datetime.now(UTC)
    since_s, until_s = (
        by_default if text is None else parse_flag_moment(flag, text, now).timestamp()
        for flag, text, by_default in (
            ("--since", arguments.since, 0.0),
            ("--until", arguments.until, inf),
        )
    )
    if until_s <= since_s:
        raise ConfigError(f"--until {arguments.until} is not later than --since {arguments.since}")
    if arguments.recording is None:
        journal = journal_flags.journal_directory(arguments)
        return ReplayOptions(
            recording=find_recording(journal), journal=journal, since_s=since_s, until_s=until_s
        )
    recording = find_recording(Path(arguments.recording))
    if arguments.journal or arguments.cluster:
        journal = journal_flags.journal_directory(arguments)
    elif (beside := journal_beside(recording)) is not None:
        journal = beside
    else:
        raise ConfigError(
            f"--journal DIR is missing: {recording} is in no journal's folder, and the decisions"
            " to compare with are in one"
        )
    return ReplayOptions(recording=recording, journal=journal, since_s=since_s, until_s=until_s)
