"""`recording export`: a period of a recording as one file."""

import argparse
from datetime import UTC, datetime

from reactive_desched.cli import flag_values, recording_files
from reactive_desched.cli.commands import Commands, print_warning
from reactive_desched.errors import ConfigError

_DESCRIPTION = """\
Write a period of a recording to one file, which plan, nodes and why take with --at and --recording.
It begins with the whole cluster as it was at the beginning of the period. With --anonymize the
names of namespaces, workloads, nodes, images and labels are replaced by pseudonyms, such that every
selector, owner, topology and taint matches the same objects; messages that people or programs wrote
are left out. A pod has no tar: write to - and let the shell make the file."""
_EPILOG = """\
exit status: 0 written, 1 it cannot be read or written, 2 the arguments are wrong"""


def add(commands: Commands) -> None:
    """Describe `recording export` to the parser of `recording`."""
    command = commands.add_parser("export", help="write a period to one file")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched recording export --since 2h --anonymize tuesday.rdrec",
            "reactive-desched recording export --since 1d ./journal - > day.rdrec",
        ),
    )
    recording_files.add_recording(command, is_named=True)
    recording_files.add_output(command, "FILE")
    command.add_argument(
        "--since",
        metavar="TIME",
        help=f"from then on: {flag_values.TIME_HELP} (default: all that is recorded)",
    )
    command.add_argument("--until", metavar="TIME", help="up to then, written as --since")
    command.add_argument("--anonymize", action="store_true", help="replace all names")
    command.set_defaults(command=_export)


def _export(arguments: argparse.Namespace) -> int:
    from reactive_desched.primitives.timestamps import parse_flag_moment
    from reactive_desched.recording.coverage import summarize_recording
    from reactive_desched.recording.items import Items
    from reactive_desched.recording.reader import items_between

    now = datetime.now(UTC)
    since_s, until_s = (
        None if text is None else parse_flag_moment(flag, text, now).timestamp()
        for flag, text in (("--since", arguments.since), ("--until", arguments.until))
    )
    if since_s is not None and until_s is not None and until_s <= since_s:
        raise ConfigError(f"--until {arguments.until} is not after --since {arguments.since}")
    path, damages = recording_files.recording_of(arguments), recording_files.Damages()

    def read() -> Items:
        return items_between(path, since_s, until_s, damages.add)

    items = recording_files.without_names(read) if arguments.anonymize else read()
    try:
        recording_files.write(items, arguments.out)
    finally:
        damages.warn()
    if shortfall := summarize_recording(path).shortfall(since_s, until_s):
        print_warning(shortfall)
    return 0
