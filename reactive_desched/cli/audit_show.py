"""`audit show`: the whole story of one decision, from what changed to what came of it."""

import argparse
import sys
from typing import Final

from reactive_desched.cli import audit_flags
from reactive_desched.cli.commands import Commands

_NOT_FOUND: Final = 1
_DESCRIPTION = """\
Show the story of one decision: what changed, what a plugin found and on which numbers, what the
gates said and when they changed their mind, what was asked of the API server and what came of it,
which policy was in force, and which signed checkpoint covers all of it."""
_EPILOG = """\
ID is a case (correlationid) as `audit query` shows it, an event's id, or a pod as NAMESPACE/NAME,
NAME or uid, whose latest case is shown; of an id the first few characters do if only one fits

with -o json, the events of the case as an array, as they stand in the journal

exit status: 0 shown, 1 nothing has this id or the journal cannot be read, 2 the arguments are
wrong, or several records fit"""


def add(commands: Commands) -> None:
    """Describe `audit show` to the parser of `audit`."""
    command = commands.add_parser("show", help="show the whole story of one decision")
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.description = _DESCRIPTION
    command.epilog = _EPILOG
    command.add_argument("id", metavar="ID", help="a case, an event, or a pod")
    audit_flags.add_journal(command)
    command.add_argument("-o", "--output", choices=["text", "json"], default="text")
    command.set_defaults(command=_show)


def _show(arguments: argparse.Namespace) -> int:
    from reactive_desched.audit.id_resolver import resolve_decision
    from reactive_desched.audit.layout import layout_for
    from reactive_desched.audit.query import as_json
    from reactive_desched.audit.story import build_story
    from reactive_desched.audit.story_text import story_lines

    with audit_flags.open_catalogue(arguments) as catalogue:
        found = resolve_decision(catalogue, arguments.id)
        if found is None:
            sys.stderr.write(f"nothing in the journal is called {arguments.id!r}\n")
            return _NOT_FOUND
        if arguments.output == "json":
            sys.stdout.write(as_json(catalogue.fetch(found.locations)))
        elif (story := build_story(catalogue, found)).case_events:
            sys.stdout.writelines(
                f"{line}\n" for line in story_lines(story, layout_for(sys.stdout))
            )
    return 0
