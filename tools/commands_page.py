"""The page on commands: what each does, and its exit status, as its help has them."""

from collections.abc import Iterator

from reactive_desched.cli import parser
from reactive_desched.cli.commands import CommandParser

_MARK = "exit status: "


def commands_page() -> str:
    """Return the page; a command without an exit status of its own has the program's."""
    top = parser()
    rows = [
        f"| `{name}` | {_first_sentence(each)} | {_status(each)} |" for name, each in _commands(top)
    ]
    return "\n".join(
        [
            "# Commands and their exit status",
            "",
            "`reactive-desched COMMAND --help` has the flags of each, with defaults and examples.",
            "Installed, the program is also a plugin of kubectl: `kubectl desched COMMAND`.",
            "",
            f"Of every command: {(top.epilog or '').removeprefix(_MARK)}.",
            "",
            "| command | does | exit status |",
            "|---|---|---|",
            *rows,
            "",
            "Next: [a first policy](../tutorial.md), [codes of policies](policy-rules.md).",
            "",
        ]
    )


def _commands(command: CommandParser) -> Iterator[tuple[str, CommandParser]]:
    """Yield each command that does something, with its words."""
    for each in command.subcommands.values():
        if each.subcommands:
            yield from _commands(each)
        else:
            yield each.prog.partition(" ")[2], each


def _first_sentence(command: CommandParser) -> str:
    text = " ".join((command.description or "").split())
    return _cell(text.partition(". ")[0].removesuffix("."))


def _status(command: CommandParser) -> str:
    text = " ".join((command.epilog or "").split())
    return _cell(text.partition(_MARK)[2].removesuffix("."))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
