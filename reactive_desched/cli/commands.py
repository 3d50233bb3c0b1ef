"""The argument parser of every command: its errors and its help."""

import argparse
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn, Protocol

from reactive_desched.primitives.hints import nearest_name, not_one_of, quote
from reactive_desched.text.terminal import columns


def print_warning(text: str) -> None:
    """Print a warning on standard error, at once."""
    sys.stderr.write(f"reactive-desched: {text}\n")
    sys.stderr.flush()


_NEGATIVE: Final = re.compile(r"-\.?\d")
"""What is a negative number, or a duration such as -5m, and so a wrong value and no flag."""

_OWN_FLAGS: Final = ("-h", "--help", "--version")
_MARGIN: Final = 2
"""Columns that argparse leaves free."""

_MISSING: Final = "the following arguments are required: "


class _Formatter(argparse.HelpFormatter):
    """Breaks lines at the width of the terminal; one is made for each argument that is added."""

    def __init__(self, *args: Any, **options: Any) -> None:  # argparse's
        super().__init__(*args, **{"width": columns() - _MARGIN, **options})


class _ParagraphFormatter(_Formatter):
    """Breaks the lines of a text at the width of the terminal, each paragraph by itself."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # argparse's
        paragraphs = text.split("\n\n")
        return "\n\n".join(
            super(_ParagraphFormatter, self)._fill_text(each, width, indent) for each in paragraphs
        )


class CommandParser(argparse.ArgumentParser):
    """The parser of the program or of one command.

    Flags are never abbreviated. What is wrong ends the process with the usage of the command it was
    written for, and with the name that is most like a wrong one. `examples` are command lines that
    the help ends with.
    """

    examples: tuple[str, ...] = ()

    def __init__(self, **kwargs: Any) -> None:  # argparse's
        super().__init__(**{"allow_abbrev": False, "formatter_class": _Formatter, **kwargs})
        self._given: Sequence[str] = ()
        self._negative_number_matcher = _NEGATIVE

    def describe(
        self,
        description: str,
        *,
        usage: str | None = None,
        epilog: str | None = None,
        examples: tuple[str, ...] = (),
    ) -> None:
        """Set what the help says; a description and an epilog may have several paragraphs."""
        self.description = description
        self.usage = usage
        self.epilog = epilog
        self.examples = examples
        self.formatter_class = _ParagraphFormatter

    @property
    def flags(self) -> frozenset[str]:
        """Every flag this parser takes, as typed; also those that no help shows."""
        return frozenset(self._option_string_actions)

    @property
    def subcommands(self) -> "dict[str, CommandParser]":
        """The parsers of its commands, by name."""
        return {
            name: parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001 -- argparse has no public name for it
            for name, parser in action.choices.items()
        }

    def arguments(self) -> Iterator[argparse.Action]:
        """Yield what the help of this command shows, flags and positional arguments."""
        return (action for action in self._actions if action.help != argparse.SUPPRESS)

    def format_help(self) -> str:
        """Return the help, with the examples at its end."""
        lines = "".join(f"  $ {example}\n" for example in self.examples)
        return super().format_help() + (f"\nexamples:\n{lines}" if lines else "")

    def parse_known_args(  # type: ignore[override]  # typeshed has overloads by the namespace's type
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the words of this command; a word that is none of its arguments is an error here.

        argparse leaves such words to the program's parser, which shows the program's usage.
        """
        self._given = () if args is None else args
        if self._given and self.subcommands and self._is_misplaced(self._given[0]):
            self.error(self.misplaced_flag(self._given))
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown_word(unknown[0]))
        return found, []

    def error(self, message: str) -> NoReturn:
        """Print the usage and what is wrong, and exit with 2; a misspelt flag comes first."""
        if message.startswith(_MISSING) and (typo := self._unknown_flag()) is not None:
            message = self._unknown_word(typo)
        super().error(message)

    def misplaced_flag(self, words: Sequence[str]) -> str:
        """Say where the flag belongs that a line begins with, before any command."""
        flag = words[0].partition("=")[0]
        takers = [name for name, each in self.subcommands.items() if flag in each.flags]
        named = next((each for each in words[1:] if each in self.subcommands), None)
        if named in takers:
            rest = list(words)
            rest.remove(named)
            return f"{flag} stands after the command: {self._line(named, rest)}"
        if len(takers) == 1:
            return f"{flag} is a flag of {takers[0]}: {self._line(takers[0], words)}"
        if takers:
            line = self._line(takers[0], words)
            return f"{flag} is a flag of {', '.join(takers)}: {line}, for example"
        return unknown_name("flag", flag, self.flags)

    def _line(self, command: str, words: Iterable[str]) -> str:
        return f"write {shlex.join((*self.prog.split(), command, *words))}"

    def _is_misplaced(self, word: str) -> bool:
        flag = word.partition("=")[0]
        return word.startswith("-") and flag not in self.flags

    def _unknown_flag(self) -> str | None:
        """Return the first long flag given that neither this parser nor a command of it takes."""
        known = self.flags.union(*(each.flags for each in self.subcommands.values()))
        words = (word.partition("=")[0] for word in self._given if word.startswith("--"))
        return next((word for word in words if word != "--" and word not in known), None)

    def _unknown_word(self, word: str) -> str:
        if not word.startswith("-"):
            return f"unexpected argument {quote(word)}"
        shown = {name for each in self.arguments() for name in each.option_strings}
        return unknown_name("flag", word.partition("=")[0], shown)

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # argparse's
        """Refuse a word that is not in a closed set with the one most like it, and the set."""
        if action.choices is None or value in action.choices:
            return
        names = [str(each) for each in action.choices]
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 -- argparse has no public name for it
            self.error(unknown_name("command", str(value), names, listed=names))
        raise argparse.ArgumentError(action, not_one_of(str(value), names))

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:  # argparse's
        """Convert a word; a whole number that is none is refused as everywhere else."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if action.type is not int:
                raise
            message = f"{quote(arg_string)} is not a whole number"
            raise argparse.ArgumentError(action, message) from error


def unknown_name(
    what: str, name: str, candidates: Iterable[str], listed: Sequence[str] = ()
) -> str:
    """Say that there is no flag or command of this name, and which one may be meant."""
    near = nearest_name(name, candidates)
    hint = f"; did you mean {near}?" if near else ""
    there_are = f"; there are {', '.join(listed)}" if listed and not near else ""
    return f"there is no {what} {name}{hint}{there_are}"


def with_hyphens(argv: Sequence[str]) -> list[str]:
    """Write hyphens for underscores in the names of flags."""
    return [_with_hyphens(arg) for arg in argv]


def begins_with_flag(argv: Sequence[str]) -> bool:
    """Return whether a line begins with a flag, as the SIG descheduler's does, and no command."""
    return bool(argv) and argv[0].startswith("-") and argv[0] not in _OWN_FLAGS


def _with_hyphens(arg: str) -> str:
    if not arg.startswith("--"):
        return arg
    name, equals, value = arg.partition("=")
    return name.replace("_", "-") + equals + value


class Commands(Protocol):
    """A parser to which commands are added, as `ArgumentParser.add_subparsers` returns it."""

    def add_parser(self, name: str, *, help: str) -> CommandParser:  # noqa: A002 -- argparse's name
        """Return the parser of a new command."""
        ...
