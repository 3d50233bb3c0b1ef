"""`policy diff`: what each of two policies would have done over a recorded time."""

import argparse
import sys
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reactive_desched.cli import flag_values, recording_files
from reactive_desched.cli.commands import Commands

if TYPE_CHECKING:
    from reactive_desched.policy_diff.command import DiffOptions

_ROWS: Final = 10
_FORMATS: Final = ("text", "json", "md", "html")
_DESCRIPTION: Final = """\
Run the controller with each of two policies over a recording of the cluster, on a clock of its
own, and compare what it evicts: whether an edit of the policy or the settings is safe. It reads
files only; nothing is evicted, and no cluster is asked.

OLD and NEW are policy files, settings files, or files with both; what a file leaves out is what was
in force in the recording. With one file alone, OLD is all that was in force.

With --old-program or --new-program another version of this program decides for that side: what an
upgrade would change, also without a FILE.

What neither policy nor history says is assumed, and the report names the assumptions: pods that
only a policy moves are replaced by the kube-scheduler's rules, and pods that only the recorded
controller moved stay."""
_EPILOG: Final = """\
-o md is short enough for a comment under a pull request, -o html one page without other files, and
-o json has everything

exit status: 0 compared, whatever differs; 1 the recording cannot be read, or has nothing of that
time, or a plugin failed; 2 an error in a policy, the settings or the flags"""


def add(commands: Commands) -> None:
    """Describe `policy diff` to the parser of `policy`."""
    command = commands.add_parser(
        "diff", help="say what an edit would have changed over a recorded time"
    )
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched policy diff new.yaml --since 7d",
            "reactive-desched policy diff old.yaml new.yaml --recording week.rdrec -o md",
            "reactive-desched policy diff --new-program ./venv-2.0/bin/reactive-desched",
        ),
    )
    command.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        default=[],
        help="OLD and NEW, or NEW alone: policy or settings",
    )
    recording_files.add_recording(command)
    command.add_argument("--settings", metavar="FILE", help="settings for both policies")
    command.add_argument("--old-settings", metavar="FILE", help="settings for OLD alone")
    command.add_argument("--new-settings", metavar="FILE", help="settings for NEW alone")
    for side in ("old", "new"):
        command.add_argument(
            f"--{side}-program",
            metavar="PROGRAM",
            help=f"have another version decide for {side.upper()}: a reactive-desched, or a Python"
            " in which one is installed",
        )
    command.add_argument(
        "--since",
        metavar="TIME",
        help=f"begin here: {flag_values.TIME_HELP}, which counts from the recording's end (default:"
        " all)",
    )
    command.add_argument(
        "--until", metavar="TIME", help="end here, written as --since (default: all)"
    )
    _add_forms(command)
    command.set_defaults(command=_diff, usage_error=command.error)


def _add_forms(command: argparse.ArgumentParser) -> None:
    """Describe how policies are read, and what is written where."""
    command.add_argument(
        "--limit",
        metavar="N",
        type=flag_values.parse_record_count,
        default=_ROWS,
        help=f"at most so many rows in a table (default {_ROWS}; 0: all)",
    )
    command.add_argument(
        "--lenient-policy",
        action="store_true",
        help="accept what the SIG descheduler accepts, and warn of keys that it ignores",
    )
    command.add_argument("-o", "--output", choices=_FORMATS, default="text")
    command.add_argument("--out", metavar="FILE", help="write to this file instead")
    command.add_argument(
        "--decisions",
        action="store_true",
        help="write what NEW alone would do, as JSON: another version asks for this",
    )


def _diff(arguments: argparse.Namespace) -> int:
    if len(arguments.files) > 2:  # noqa: PLR2004 -- OLD and NEW
        arguments.usage_error("two files at most: OLD and NEW")
    if arguments.decisions and (
        len(arguments.files) > 1 or arguments.old_program or arguments.new_program
    ):
        arguments.usage_error("--decisions is about one policy, by this version")
    if arguments.out is not None and not Path(arguments.out).parent.is_dir():
        arguments.usage_error(f"--out {arguments.out}: there is no such folder")
    from reactive_desched.cli.policy_convert import write_whole
    from reactive_desched.policy_diff.command import run, write_decisions
    from reactive_desched.primitives.hung_calls import hung_calls_ended

    options = _options(arguments)
    is_edit = arguments.files or arguments.decisions or options.old != options.new
    if not is_edit:
        arguments.usage_error("name a policy or settings, or another version with --new-program")
    into = sys.stdout if arguments.out is None else StringIO()
    with hung_calls_ended():
        if arguments.decisions:
            status = write_decisions(options, into)
        else:
            status = run(options, arguments.output, arguments.limit, into)
    if isinstance(into, StringIO):
        write_whole(arguments.out, into.getvalue().encode())
    return status


def _options(arguments: argparse.Namespace) -> "DiffOptions":
    from reactive_desched.policy_diff.command import DiffOptions, Side

    files = [None, None, *arguments.files]
    return DiffOptions(
        old=Side(files[-2], arguments.old_settings or arguments.settings, arguments.old_program),
        new=Side(files[-1], arguments.new_settings or arguments.settings, arguments.new_program),
        recording=recording_files.recording_of(arguments),
        since=arguments.since,
        until=arguments.until,
        lenient=arguments.lenient_policy,
    )
