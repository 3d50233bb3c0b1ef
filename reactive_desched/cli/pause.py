"""`pause`: a running controller evicts nothing until it is resumed."""

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from reactive_desched.cli import controller_client, flag_values
from reactive_desched.cli.commands import Commands, print_warning
from reactive_desched.errors import ConfigError


def add(commands: Commands) -> None:
    """Describe `pause` to the parser."""
    command = commands.add_parser("pause", help="have a running controller evict nothing")
    command.describe(
        "Have a running controller evict nothing until `resume`, or for some time. It goes on "
        f"watching, and a restart goes on with the pause. {controller_client.WHERE}",
        epilog="exit status: 0 it is paused, 1 no controller answers, 2 a wrong argument",
        examples=(
            "reactive-desched pause --for 2h30m --reason 'cluster upgrade'",
            "reactive-desched pause --until 2026-05-01T06:00:00Z",
        ),
    )
    add_person(command)
    how_long = command.add_mutually_exclusive_group()
    how_long.add_argument(
        "--for",
        dest="for_s",
        metavar="DURATION",
        type=_length,
        help="resume by itself after this, such as 2h30m (default: never)",
    )
    how_long.add_argument(
        "--until", metavar="TIME", help="resume by itself then: RFC 3339, or a day (UTC)"
    )
    controller_client.add_server(command)
    command.set_defaults(command=_call)


def add_person(command: argparse.ArgumentParser) -> None:
    """Add who does this, and why, to a command; both are recorded."""
    command.add_argument("--reason", metavar="TEXT", default="", help="why, for the record")
    command.add_argument(
        "--by", metavar="NAME", help="who does this, for the record (default: USER@HOST)"
    )


def person(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return who sends an order and why, as its body has it."""
    return {"by": arguments.by or _user_at_host(), "reason": arguments.reason}


def print_answer(said: controller_client.Answer, server: str) -> None:
    """Print what the controller answers: what holds evictions now, and in which cluster."""
    sys.stdout.write(f"{said.heading(server)}\n")
    answer = said.value
    for name, message in answer.get("released", {}).items():
        sys.stdout.write(f"released: the {name} brake: {message}\n")
    state = answer["state"]
    sys.stdout.write(f"{state['name']}: {state['summary']}\n")
    for name, message in answer["brakes"].items():
        if message not in f"{answer['pause']} {state['summary']}":
            sys.stdout.write(f"the {name} brake holds evictions: {message}\n")
    if answer["notKept"]:
        print_warning(f"a restart will not remember this: {answer['notKept']}")


def _length(text: str) -> float:
    from reactive_desched.model.brakes import MAX_PAUSE_S

    return flag_values.parse_duration_up_to(text, MAX_PAUSE_S)


def _call(arguments: argparse.Namespace) -> int:
    body = person(arguments)
    if (seconds := _seconds(arguments, datetime.now(UTC))) is not None:
        body["forSeconds"] = seconds
    client = controller_client.client_of(arguments)
    print_answer(client.send_order("pause", body), client.server)
    return 0


def _seconds(arguments: argparse.Namespace, now: datetime) -> float | None:
    """Return how long to pause; None for ever. Raises ConfigError for a time that has passed."""
    if arguments.until is None:
        seconds: float | None = arguments.for_s
        return seconds
    from reactive_desched.primitives.timestamps import parse_flag_moment

    left_s = (parse_flag_moment("--until", arguments.until, now) - now).total_seconds()
    if left_s <= 0:
        raise ConfigError(
            f"--until {arguments.until} is not in the future: write a later time, or --for with how"
            " long it is to last"
        )
    return left_s


def _user_at_host() -> str:
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
