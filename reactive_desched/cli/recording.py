"""`recording`: what a controller saw, in a file: how much there is, exported, without names."""

from reactive_desched.cli import recording_anonymize, recording_export, recording_import
from reactive_desched.cli import recording_status as status
from reactive_desched.cli.commands import Commands

_DESCRIPTION = """\
Look at the recording of what a controller saw, and make files of it: to be kept, to be attached to
a report, or for a policy to be tried on where no controller runs. A controller records with
recording.enabled in its settings; plan, nodes and why look at a moment of it with --at."""


def add(commands: Commands) -> None:
    """Describe `recording` to the parser."""
    command = commands.add_parser("recording", help="export, anonymize or import what was seen")
    command.describe(
        _DESCRIPTION,
        examples=(
            "reactive-desched recording status",
            "reactive-desched recording export --since 2h --anonymize tuesday.rdrec",
        ),
    )
    doing = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (status, recording_export, recording_anonymize, recording_import):
        module.add(doing)
