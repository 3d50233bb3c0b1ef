"""`version`: what this is."""

import argparse
import json
import platform
import sys

from reactive_desched._version import __version__
from reactive_desched.cli.commands import Commands


def add(commands: Commands) -> None:
    """Describe `version` to the parser."""
    command = commands.add_parser("version", help="print the version")
    command.describe(
        "Print the version of this program and of Python: on one line, or with -o json as one"
        ' object with "version", "python" and "platform".',
        examples=("reactive-desched version", "reactive-desched version -o json"),
    )
    command.add_argument("-o", "--output", choices=["text", "json"], default="text")
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    python = platform.python_version()
    if arguments.output == "json":
        found = {"version": __version__, "python": python, "platform": sys.platform}
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write(f"reactive-desched {__version__} (Python {python}, {sys.platform})\n")
    return 0
