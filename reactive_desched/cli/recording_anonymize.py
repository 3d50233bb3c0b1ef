"""`recording anonymize`: a recording with pseudonyms for all names."""

import argparse
from pathlib import Path

from reactive_desched.cli import recording_files
from reactive_desched.cli.commands import Commands

_DESCRIPTION = """\
Write a recording again with pseudonyms for the names of namespaces, workloads, nodes, images and
labels, such that every selector, owner, topology and taint matches the same objects. Messages that
people or programs wrote are left out. Two runs give different pseudonyms, and no name can be
computed from one; sizes, numbers of replicas, times and the order of names stay."""
_EPILOG = """\
exit status: 0 written, 1 it cannot be read or written, 2 the arguments are wrong"""


def add(commands: Commands) -> None:
    """Describe `recording anonymize` to the parser of `recording`."""
    command = commands.add_parser("anonymize", help="replace all names by pseudonyms")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched recording anonymize tuesday.rdrec for-the-report.rdrec",
            "reactive-desched recording anonymize ./journal for-the-report.rdrec",
        ),
    )
    command.add_argument("file", metavar="FILE", help="an exported file, or a recording's folder")
    recording_files.add_output(command, "OUT")
    command.set_defaults(command=_anonymize)


def _anonymize(arguments: argparse.Namespace) -> int:
    from reactive_desched.plan.recorded_moment import find_recording
    from reactive_desched.recording.items import Items
    from reactive_desched.recording.reader import read_items
    from reactive_desched.recording.segments import recording_paths

    paths = recording_paths(find_recording(Path(arguments.file)))
    damages = recording_files.Damages()

    def read() -> Items:
        return read_items(paths, damages.add)

    try:
        recording_files.write(recording_files.without_names(read), arguments.out)
    finally:
        damages.warn()
    return 0
