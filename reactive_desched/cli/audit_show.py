"""`audit show`: the whole story of one decision, from what changed to what came of it."""

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Final

from reactive_desched.cli import audit_flags
from reactive_desched.cli.commands import Commands, print_warning

if TYPE_CHECKING:
    from reactive_desched.audit.catalogue import IndexCatalogue

_NOT_FOUND: Final = 1
_DESCRIPTION = """\
Show the story of one decision: what changed, what a plugin found and on which numbers, what the
gates said and when they changed their mind, what was asked of the API server and what came of it,
which policy was in force, and which signed checkpoint covers all of it."""
_EPILOG = """\
ID is a case (correlationid) as `audit query` lists it, an event's id, or the start of one; a pod
as NAMESPACE/NAME, NAME or uid; or its owner as KIND/NAME or NAME. The start of such a name, or a
pattern with * and ?, stands for all that fit. Of several cases the latest is shown. A number is
that of a record. The id or the record of a policy shows the text of its files and those of the
settings as they were loaded then, a revision those that were loaded last with it.

with -o json, the events of the case as an array, as they stand in the journal

exit status: 0 shown, 1 nothing has this id or the journal cannot be read, 2 the arguments are
wrong, or several records fit"""


def add(commands: Commands) -> None:
    """Describe `audit show` to the parser of `audit`."""
    command = commands.add_parser("show", help="show the whole story of one decision")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched audit show shop/web-7d4b9c6f5-x2x8p",
            "reactive-desched audit show Deployment/web -o json",
        ),
    )
    command.add_argument("id", metavar="ID", help="a case, an event, a pod, or an owner")
    audit_flags.add_journal(command)
    command.add_argument("-o", "--output", choices=["text", "json"], default="text")
    command.set_defaults(command=_show)


def _show(arguments: argparse.Namespace) -> int:
    from reactive_desched.audit.catalogue import as_json
    from reactive_desched.audit.id_resolver import is_record_number, resolve_decision
    from reactive_desched.audit.story import build_story
    from reactive_desched.audit.story_text import story_lines
    from reactive_desched.text.layout import layout_for

    with audit_flags.open_catalogue(arguments) as catalogue:
        found = resolve_decision(catalogue, arguments.id)
        if found is None and is_record_number(arguments.id):
            sys.stderr.write(_no_record(catalogue, arguments.id))
            return _NOT_FOUND
        if found is None:
            sys.stderr.write(
                f"no record in the journal is about a case, event, pod or owner {arguments.id!r}; "
                "`audit query` lists what there is, and "
                f"`plan --all --pod {shlex.quote(arguments.id)}` says why a pod would stay\n"
            )
            return _NOT_FOUND
        if found.is_one_of_several:
            print_warning(
                f"this is the latest case that matches {arguments.id!r}: "
                f"`audit query {shlex.quote(arguments.id)}` lists the others"
            )
        if found.other_loads:
            print_warning(
                f"revision {arguments.id} was loaded with other settings, too, by record"
                f" {', '.join(map(str, found.other_loads))}; this is the latest load:"
                " `policy history` lists them"
            )
        if arguments.output == "json":
            sys.stdout.write(as_json(catalogue.fetch(found.locations)))
        elif (story := build_story(catalogue, found)).case_events:
            sys.stdout.writelines(
                f"{line}\n" for line in story_lines(story, layout_for(sys.stdout))
            )
    return 0


def _no_record(catalogue: "IndexCatalogue", number: str) -> str:
    first = catalogue.first_seq
    has = f"has records {first} to {catalogue.last_seq}" if first else "has none"
    return (
        f"there is no record {number} in the journal, which {has}; for the start of a name write"
        f" {shlex.quote(f'{number}*')}\n"
    )
