"""`pause`: a running controller evicts nothing until it is resumed."""

import argparse
import sys
from typing import Any

from reactive_desched.cli import controller_client, flag_values
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.messages import print_warning

_HINT = "The controller answers on its own machine or pod only: use kubectl exec or port-forward."


def add(commands: Commands) -> None:
    """Describe `pause` to the parser."""
    command = commands.add_parser("pause", help="have a running controller evict nothing")
    command.description = (
        "Have a running controller evict nothing until `resume`, or for some time. It goes on "
        f"watching, and a restart goes on with the pause. {_HINT}"
    )
    command.epilog = "exit status: 0 it is paused, 1 no controller answers, 2 a wrong argument"
    command.allow_abbrev = False
    add_person(command)
    command.add_argument(
        "--for",
        dest="for_s",
        metavar="DURATION",
        type=flag_values.parse_positive_duration,
        help="resume by itself after this, such as 2h30m (default: never)",
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


def print_answer(answer: Any) -> None:
    """Print what the controller answers: what holds evictions now."""
    pause, brakes = answer["pause"], answer["brakes"]
    if pause:
        sys.stdout.write(f"nothing is evaluated now: {pause}\n")
    for name, message in brakes.items():
        if message not in pause:
            sys.stdout.write(f"the {name} brake holds evictions: {message}\n")
    if not pause and not brakes:
        sys.stdout.write("no brake holds evictions\n")
    if answer["notKept"]:
        print_warning(f"a restart will not remember this: {answer['notKept']}")


def _call(arguments: argparse.Namespace) -> int:
    body = person(arguments)
    if arguments.for_s is not None:
        body["forSeconds"] = arguments.for_s
    print_answer(controller_client.send_order(arguments.server, "pause", body))
    return 0


def _user_at_host() -> str:
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
