"""`reject`: pods that a running controller's plugins propose stay, for some time."""

import argparse

from reactive_desched.cli import controller_client
from reactive_desched.cli.approve import add_scope, answer_of, print_answered
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.pause import add_person


def add(commands: Commands) -> None:
    """Describe `reject` to the parser."""
    command = commands.add_parser("reject", help="keep proposed pods where they are")
    command.describe(
        "Reject evictions that plugins propose (mode propose): these pods stay for some time, and "
        "are not proposed again before. A pod that takes the place of one is proposed anew. "
        "An approval ends a rejection, and the reverse. "
        f"{controller_client.WHERE}",
        epilog="exit status: 0 it is rejected, 1 no controller answers, 2 a wrong argument, or "
        "nothing of that name is proposed now",
        examples=(
            "reactive-desched reject 3f9a01bc52d7 --for 7d --because 'month-end batch'",
            "reactive-desched reject --group 77aa01c2e4b0",
        ),
    )
    add_scope(command, "for so long, such as 7d (default: 1d)")
    command.add_argument("--because", metavar="TEXT", dest="reason", help="as --reason")
    add_person(command)
    controller_client.add_server(command)
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    client = controller_client.client_of(arguments)
    answer = client.send_order("reject", answer_of(arguments))
    print_answered(answer, client.server, "rejected")
    return 0
