"""`completion`: the script by which a shell completes commands, flags and their values."""

import argparse
import sys
from collections.abc import Mapping
from typing import Final

from reactive_desched.cli.commands import CommandParser, Commands

_SHELLS: Final = ("bash", "zsh", "fish", "powershell", "tcsh")
_DESCRIPTION: Final = """\
Print a script that makes a shell complete commands, flags, the words that a flag takes, such as
plugins, types of events and reasons, and names of files. tcsh offers the flags of all commands at
once, and the formats of all for -o: its completion rules see one word before the cursor, not the
command."""


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
    _prepare(top, shtab.FILE, shtab.DIRECTORY, _names())
    sys.stdout.write(shtab.complete(top, shell=arguments.shell) + "\n")
    return 0


def _names() -> Mapping[tuple[str, str | None], list[str]]:
    """Return the names that an argument may have, by its destination and metavar."""
    from reactive_desched.api.event import DATA_TYPES
    from reactive_desched.api.reason_codes import GATES, REASON_CODES
    from reactive_desched.model.disruptions import CAUSES
    from reactive_desched.model.event_types import short_type
    from reactive_desched.model.outcomes import RESULTS
    from reactive_desched.plugins.registry import plugin_registry

    plugins, reasons = sorted(plugin_registry()), sorted({*REASON_CODES, *CAUSES})
    return {
        ("plugin", "NAME"): plugins,
        ("gate", "NAME"): sorted(GATES),
        ("reason", "NAME"): reasons,
        ("reason", "CODE"): reasons,
        ("type", "TYPE"): sorted(map(short_type, DATA_TYPES)),
        ("outcome", "RESULT"): sorted(RESULTS),
        ("name", "PLUGIN[.ARG]"): [*plugins, *reasons],
    }


def _prepare(
    parser: CommandParser,
    file: object,
    directory: object,
    names: Mapping[tuple[str, str | None], list[str]],
) -> None:
    """Complete names, also of files where a flag takes a file, and describe each command."""
    parser.describe((parser.description or "").partition(". ")[0].partition(".\n")[0])
    for argument in parser.arguments():
        metavar = argument.metavar if isinstance(argument.metavar, str) else None
        argument.choices = names.get((argument.dest, metavar), argument.choices)
        if argument.metavar in ("FILE", "DIR"):
            argument.complete = file if argument.metavar == "FILE" else directory  # type: ignore[attr-defined]  # how shtab is asked
    for command in parser.subcommands.values():
        _prepare(command, file, directory, names)
