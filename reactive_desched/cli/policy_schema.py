"""`policy schema`: the JSON Schema of policies and settings, for editors."""

import argparse
import sys
from importlib.resources import files
from typing import Final

from reactive_desched.cli.commands import Commands

FORMATS: Final = ("any", "v1alpha2", "v1alpha1", "settings")
_DESCRIPTION = """\
Print a JSON Schema (draft 07). An editor that has it completes names, explains fields and marks
mistakes while a policy is written; what it cannot know, `policy check` says."""


def add(commands: Commands) -> None:
    """Describe `policy schema` to the parser of `policy`."""
    command = commands.add_parser("schema", help="print the JSON Schema, for editors")
    command.describe(
        _DESCRIPTION,
        examples=(
            "reactive-desched policy schema > policy.schema.json",
            "reactive-desched policy schema settings",
        ),
    )
    command.add_argument(
        "format",
        nargs="?",
        choices=FORMATS,
        default="any",
        help="what to describe (default any: each document by its apiVersion)",
    )
    command.set_defaults(command=_print)


def text(name: str) -> str:
    """Return the text of a schema that comes with the package."""
    file = files("reactive_desched.policy") / "schemas" / f"{name}.json"
    return file.read_text(encoding="utf-8")


def _print(arguments: argparse.Namespace) -> int:
    sys.stdout.write(text(arguments.format))
    return 0
