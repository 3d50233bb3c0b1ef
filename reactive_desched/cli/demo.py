"""`demo`: the controller on a simulated day."""

import argparse

from reactive_desched.cli.commands import Commands
from reactive_desched.cli.simulator import INSTALL, requires_simulator


def add(commands: Commands) -> None:
    """Describe `demo` to the parser."""
    command = commands.add_parser("demo", help="the same controller on a simulated, scripted day")
    command.describe(
        "Start a simulated cluster on loopback, run the controller against it over HTTP, and play "
        "a scripted day in under a minute. Exit status 0 only if what should move did move.",
        epilog=f"It is in a package of its own, which the image does not hold: {INSTALL}",
        examples=(
            "reactive-desched demo",
            "reactive-desched demo --serve --listen 127.0.0.1:10258",
        ),
    )
    command.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="health and metrics of the controller",
    )
    command.add_argument(
        "--keep",
        metavar="DIR",
        help="keep the journal in this folder, which must be new or empty, for the audit commands",
    )
    command.add_argument(
        "--serve",
        action="store_true",
        help="serve the live page, too, and play the day again and again until Ctrl-C",
    )
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    with requires_simulator():
        from reactive_desched.demo import DemoOptions, play

    return play(DemoOptions(arguments.listen, arguments.keep, arguments.serve))
