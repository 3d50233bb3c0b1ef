"""From argv to a running program; commands load what they need only when they are called.

Exit status: 0 done, 1 failed, 2 wrong input, 141 the reader of the output is gone.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise

from reactive_desched._version import __version__
from reactive_desched.cli.commands import (
    CommandParser,
    begins_with_flag,
    unknown_name,
    with_hyphens,
)
from reactive_desched.errors import ConfigError, ReactiveDeschedError
from reactive_desched.primitives.bounded_text import MAX_NAME_CHARS, truncate
from reactive_desched.primitives.hints import quote
from reactive_desched.primitives.shortage import lacking, shortage_remedy
from reactive_desched.text.terminal import wants_colours

_COMMANDS = (
    *("run", "plan", "nodes", "why", "status", "top", "pending", "evaluate", "drain"),
    *("proposals", "approve", "reject"),
    *("pause", "resume"),
    "eviction-loops",
    *("migrate", "migrations"),
    *(
        "init",
        "policy",
        "events",
        "audit",
        "recording",
        "replay",
        "demo",
        "sim",
        "completion",
        "version",
    ),
)
"""Each is a module here, with `_` for `-`, whose `add` describes the command to the parser."""

_OTHER_NAMES = {"futile": "eviction-loops"}
"""Names of commands that no help shows."""

FAILED, INVALID_INPUT, BROKEN_PIPE = 1, 2, 141
"""The last as a shell counts it: ended by SIGPIPE."""

_HELP = "help"
_EPILOG = (
    "exit status: 0 done, 1 failed, 2 a policy, setting or argument is wrong,"
    " 141 the reader of the output is gone"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    args = with_hyphens(sys.argv[1:] if argv is None else argv)
    _require_text(args)
    if bare := begins_with_flag(args):
        _require_line_of_run(args)
        args = ["run", *args]
    elif args[:1] == [_HELP]:
        args = [*args[1:], "--help"]
    if args and args[0] in _OTHER_NAMES:
        args = [_OTHER_NAMES[args[0]], *args[1:]]
    described = parser(args)
    if _names_no_command(described, args):
        args = [*args, "--help"]
    arguments = described.parse_args(args)
    arguments.bare = bare
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        status = command(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # as in `audit query | head`: the reader has closed the pipe
        _discard_stdout()
        return BROKEN_PIPE
    except Exception as error:
        if (expected := _expected_error(error)) is None:
            raise
        return _report_error(expected)
    return status


def _expected_error(error: Exception) -> Exception | None:
    """Return the error that is printed without a traceback; None for a fault of ours."""
    if isinstance(error, ExceptionGroup):
        return next(filter(None, map(_expected_error, error.exceptions)), None)
    is_expected = isinstance(error, ReactiveDeschedError) or _is_about_a_file(error)
    return error if is_expected or lacking(error) else None


def _is_about_a_file(error: Exception) -> bool:
    """Say whether the system refuses a file or folder: a name that is too long, a loop of links."""
    return isinstance(error, OSError) and bool(error.filename) and bool(error.strerror)


def _names_no_command(described: CommandParser, args: Sequence[str]) -> bool:
    """Say whether a line is empty, or names a group of commands (`policy`) and none of them."""
    if not args:
        return True
    group = described.subcommands.get(args[0]) if len(args) == 1 else None
    return group is not None and bool(group.subcommands)


def _require_text(words: Sequence[str]) -> None:
    """End the process at a word that is no text: names and answers of the API are UTF-8."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            CommandParser(prog="reactive-desched").error(f"{quote(word)} is not UTF-8")


def _require_line_of_run(words: Sequence[str]) -> None:
    """End the process unless a line that begins with a flag can be the SIG descheduler's.

    That has no command, so one behind a flag and its value shows what was meant.
    """
    name = words[0].partition("=")[0]
    known = parser(["run"]).subcommands["run"].flags
    is_short = not name.startswith("--") and name[:2] in known  # -v4
    is_before_command = any(
        word in _COMMANDS and ("=" in before or not before.startswith("-"))
        for before, word in pairwise(words)
    )
    if is_before_command or (name not in known and not is_short):
        top = parser()
        top.error(
            top.misplaced_flag(words)
            if is_before_command
            else unknown_name("flag", name, top.flags | known)
        )


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that the interpreter's last flush cannot fail."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_error(error: BaseException) -> int:
    """Say what went wrong on stderr and return the exit status."""
    if remedy := shortage_remedy(error):  # which says nothing of the input
        what = f"{error}; " if str(error) else ""
        sys.stderr.write(f"reactive-desched: {what}{remedy}\n")
        return FAILED
    if isinstance(error, ConfigError):
        sys.stderr.write(f"{_config_error_text(error)}\n")
        return INVALID_INPUT
    text = str(error)
    if isinstance(error, OSError):
        text = f"{truncate(str(error.filename), MAX_NAME_CHARS)}: {error.strerror}"
    sys.stderr.write(f"reactive-desched: {text}\n")
    return FAILED


def _config_error_text(error: ConfigError) -> str:
    """Return what is wrong; for the errors of a policy each with its line, in colours if wanted."""
    from reactive_desched.policy.yaml.diagnostics import PolicyErrors

    if not isinstance(error, PolicyErrors):
        return str(error)
    from reactive_desched.policy.report import error_report

    return error_report(error, colours=wants_colours(sys.stderr))


def parser(argv: Sequence[str] = ()) -> CommandParser:
    """Describe the flags of the command that a line begins with, or of every command."""
    top = CommandParser(prog="reactive-desched")
    top.describe(
        "A descheduler for Kubernetes that reacts to changes instead of polling.",
        epilog=_EPILOG,
        examples=(
            "reactive-desched demo",
            "reactive-desched plan --policy policy.yaml",
            "reactive-desched help policy check",
        ),
    )
    top.add_argument("--version", action="version", version=f"reactive-desched {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in argv[:1] if argv and argv[0] in _COMMANDS else _COMMANDS:
        import_module(f"{__name__}.{name.replace('-', '_')}").add(commands)
    described = commands.add_parser(_HELP, help="print the help of a command, as its --help does")
    described.add_argument(
        "words", metavar="COMMAND", nargs="*", default=[], help="such as: audit show"
    )
    described.describe(
        "Print the help of the program, or of the command that is named.",
        examples=("reactive-desched help", "reactive-desched help audit show"),
    )
    return top
