"""`resume`: ends a pause of a running controller, and releases its storm brake."""

import argparse

from reactive_desched.cli import controller_client
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.pause import add_person, person, print_answer


def add(commands: Commands) -> None:
    """Describe `resume` to the parser."""
    command = commands.add_parser("resume", help="end a pause, and release the storm brake")
    command.describe(
        "End a pause of a running controller and release its storm brake. A pause by the pause "
        f"file and the other brakes stay; the answer names them. {controller_client.WHERE}",
        epilog="exit status: 0 it is done, 1 no controller answers, 2 a wrong argument",
        examples=(
            "reactive-desched resume",
            "reactive-desched resume --reason 'the upgrade is done'",
        ),
    )
    add_person(command)
    controller_client.add_server(command)
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    client = controller_client.client_of(arguments)
    print_answer(client.send_order("resume", person(arguments)), client.server)
    return 0
