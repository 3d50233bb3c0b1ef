"""`init`: write a first policy."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from reactive_desched.cli import flag_values
from reactive_desched.cli.commands import Commands
from reactive_desched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactive_desched.policy.settings.pace import Pace
    from reactive_desched.policy.starter import Aim, StarterOptions

_Answer = TypeVar("_Answer")

STDOUT: Final = "-"
_AIMS: Final = ("spread", "pack", "drain-tainted", "clean-up-failed", "drain-on-request")
_DEFAULT_FILE: Final = "policy.yaml"
_PACES: Final = ("careful", "normal", "fast")
_DEFAULT_PACE: Final = "normal"
_MAX_PER_MINUTE: Final = 1000
_DESCRIPTION: Final = """\
Write a policy and settings with comments, for one aim or several. Without --aim, on a terminal, it
asks. Nothing is asked of a cluster."""


def add(commands: Commands) -> None:
    """Describe `init` to the parser."""
    command = commands.add_parser("init", help="write a first policy for what you want")
    command.describe(
        _DESCRIPTION,
        epilog="exit status: 0 the file is written, 2 a wrong argument, or the file exists",
        examples=(
            "reactive-desched init",
            "reactive-desched init --aim spread --aim drain-tainted --out policy.yaml",
        ),
    )
    command.add_argument(
        "--aim",
        action="append",
        choices=_AIMS,
        metavar="AIM",
        help="spread: even out nodes and replicas; pack: empty nodes that are hardly used; "
        "drain-tainted: move pods off nodes that they no longer fit; clean-up-failed: evict "
        "failed pods and restart crashing ones elsewhere; drain-on-request: empty the nodes that "
        "`drain` names; may be repeated",
    )
    command.add_argument(
        "--usage",
        choices=["requests", "metrics-server"],
        default="requests",
        help="with --aim spread: go by what pods request (default), or by what they use",
    )
    command.add_argument(
        "--pace",
        choices=_PACES,
        default=_DEFAULT_PACE,
        help=f"how fast pods move (default: {_DEFAULT_PACE}); `policy check` prints the numbers",
    )
    command.add_argument(
        "--evictions-per-minute",
        metavar="N",
        type=_count,
        help="of the whole cluster, whatever the pace says",
    )
    command.add_argument(
        "--out",
        metavar="FILE",
        default=_DEFAULT_FILE,
        help=f"the file to write, - for standard output (default: {_DEFAULT_FILE})",
    )
    command.add_argument("--force", action="store_true", help="write over a file that exists")
    command.set_defaults(command=_call)


def _count(text: str) -> int:
    return flag_values.parse_whole_number(text, 1, _MAX_PER_MINUTE)


def _call(arguments: argparse.Namespace) -> int:
    from reactive_desched.policy.starter import Aim, StarterOptions, starter_policy

    path = Path(arguments.out)
    if arguments.out != STDOUT and path.exists() and not arguments.force:
        raise ConfigError(f"{path} exists; write --force to replace it, or --out FILE")
    if arguments.aim is None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise ConfigError(f"name an aim: --aim {', '.join(_AIMS[:-1])} or {_AIMS[-1]}")
        options = _ask()
    else:
        aims = [Aim(each) for each in arguments.aim]
        measured = arguments.usage == "metrics-server"
        options = StarterOptions(aims, measured, arguments.pace, arguments.evictions_per_minute)
    text = starter_policy(options)
    if arguments.out == STDOUT:
        sys.stdout.write(text)
        return 0
    _write(path, text)
    sys.stderr.write(
        f"{path} is written. Next:\n"
        f"  reactive-desched policy check {path}\n"
        f"  reactive-desched plan --policy {path}\n"
        f"  reactive-desched run --policy {path} --dry-run\n"
    )
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _ask() -> "StarterOptions":
    """Ask on the terminal, once more for an answer that is none."""
    from reactive_desched.policy.starter import AIMS, Aim, StarterOptions

    sys.stderr.write("What should the descheduler do?\n")
    for number, (aim, text) in enumerate(AIMS.items(), 1):
        sys.stderr.write(f"  {number}  {aim:<16} {text}\n")
    aims = _ask_until("Numbers, separated by commas: ", "", _parse_aims)
    measured = False
    if Aim.SPREAD in aims:
        measured = _ask_until(
            "Go by what pods use, which needs metrics-server, instead of what they request? [y/N] ",
            "n",
            _parse_yes,
        )
    pace = _ask_until(
        f"How fast, {', '.join(_PACES)}? [{_DEFAULT_PACE}] ", _DEFAULT_PACE, _parse_pace
    )
    return StarterOptions(aims, measured, pace)


def _ask_until(question: str, default: str, parse: "Callable[[str], _Answer]") -> _Answer:
    """Ask until the answer can be read; raises ConfigError at the end of the input."""
    while True:
        sys.stderr.write(question)
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise ConfigError("the input ended before the last answer")
        try:
            return parse(line.strip() or default)
        except (argparse.ArgumentTypeError, ConfigError) as error:
            sys.stderr.write(f"{error}\n")


def _parse_aims(text: str) -> "list[Aim]":
    """Read numbers of aims; raises ConfigError for other texts, and for aims that contradict."""
    from reactive_desched.policy.starter import AIMS, check_aims

    numbered = {str(number): aim for number, aim in enumerate(AIMS, 1)}
    words = [word.strip() for word in text.split(",") if word.strip()]
    if wrong := [word for word in words if word not in numbered]:
        raise ConfigError(f"{wrong[0]} is not a number from 1 to {len(numbered)}")
    aims = [numbered[word] for word in words]
    check_aims(aims)
    return aims


def _parse_yes(text: str) -> bool:
    word = text.lower()
    if word not in ("y", "yes", "n", "no"):
        raise ConfigError("write y or n")
    return word in ("y", "yes")


def _parse_pace(text: str) -> "Pace":
    from reactive_desched.policy.settings.pace import PACES

    for pace in PACES:
        if pace == text.lower():
            return pace
    raise ConfigError(f"write {', '.join(PACES)}")
