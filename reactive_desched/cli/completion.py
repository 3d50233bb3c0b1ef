"""`completion`: the script by which a shell completes commands, flags and their values."""

import argparse
import sys
from typing import Final

from reactive_desched.cli.commands import CommandParser, Commands

_SHELLS: Final = ("bash", "zsh", "fish", "powershell", "tcsh")
_DESCRIPTION: Final = """\
Print a script that makes a shell complete commands, flags, the words that a flag takes, and names
of files. tcsh offers the flags of all commands at once, and the formats of all for -o: its
completion rules see one word before the cursor, not the command."""


def add(commands: Commands) -> None:
    """Describe `completion` to the parser."""
    command = commands.add_parser("completion", help="print a completion script for a shell")
    command.describe(
        _DESCRIPTION,
        examples=(
            "source <(reactive-desched completion bash)",
            "reactive-desched completion fish > ~/.config/fish/completions/reactive-desched.fish",
        ),
    )
    command.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS))
    command.set_defaults(command=_print)


def _print(arguments: argparse.Namespace) -> int:
    import shtab

    from reactive_desched.cli import parser

    top = parser()
    _prepare(top, shtab.FILE, shtab.DIRECTORY)
    sys.stdout.write(shtab.complete(top, shell=arguments.shell) + "\n")
    return 0


def _prepare(parser: CommandParser, file: object, directory: object) -> None:
    """Complete file names where a flag takes a file, and describe each command."""
    parser.describe((parser.description or "").partition(". ")[0].partition(".\n")[0])
    for argument in parser.arguments():
        if argument.metavar in ("FILE", "DIR"):
            argument.complete = file if argument.metavar == "FILE" else directory  # type: ignore[attr-defined]  # how shtab is asked
    for command in parser.subcommands.values():
        _prepare(command, file, directory)
