"""`version`: what this is."""

import argparse
import platform
import sys

from reactive_desched._version import __version__
from reactive_desched.cli.commands import Commands


def add(commands: Commands) -> None:
    """Describe `version` to the parser."""
    command = commands.add_parser("version", help="print the version")
    command.description = "Print the version of this program and of Python, on one line."
    command.set_defaults(command=_call)


def _call(_: argparse.Namespace) -> int:
    python = f"Python {platform.python_version()}"
    sys.stdout.write(f"reactive-desched {__version__} ({python}, {sys.platform})\n")
    return 0
