"""`top`: what `status` shows, refreshed in place until Ctrl-C."""

import argparse
import shutil
import sys
import time
from typing import TYPE_CHECKING

from reactive_desched.cli import controller_client, flag_values
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.status import StatusScreen
from reactive_desched.errors import ConfigError, ControllerUnavailable
from reactive_desched.text.counts import and_more

if TYPE_CHECKING:
    from rich.text import Text


def add(commands: Commands) -> None:
    """Describe `top` to the parser."""
    command = commands.add_parser("top", help="watch what a running controller does")
    command.describe(
        "Show what `status` shows, refreshed in place until Ctrl-C; the terminal is left as it "
        f"was. It goes on when the controller restarts. {controller_client.WHERE}",
        epilog=controller_client.STATUS,
        examples=("reactive-desched top", "reactive-desched top --interval 5s"),
    )
    command.add_argument(
        "--interval",
        metavar="DURATION",
        type=flag_values.parse_positive_duration,
        default=2.0,
        help="time between two looks (default: 2s)",
    )
    controller_client.add_server(command)
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    if not sys.stdout.isatty():
        raise ConfigError("top needs a terminal; use `status` where the output is not one")
    from rich.console import Console
    from rich.live import Live

    console, controller = Console(), controller_client.client_of(arguments)
    shown = _screen(controller)  # an address that is wrong ends the command here
    with Live(shown, console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(arguments.interval)
                live.update(_screen_or_error(controller), refresh=True)
        except KeyboardInterrupt:
            return 0


def _screen_or_error(controller: controller_client.ControllerClient) -> "Text":
    from rich.text import Text

    try:
        return _screen(controller)
    except ControllerUnavailable as error:
        return Text(f"{error}\nlooking again", style="red")


def _screen(controller: controller_client.ControllerClient) -> "Text":
    """Return the status as it fits into the terminal: lines below its end are left out."""
    from rich.text import Text

    from reactive_desched.text.layout import layout_for

    answer = controller.read_page("status")
    height = shutil.get_terminal_size().lines
    lines = list(StatusScreen(answer, layout_for(sys.stdout), controller.server).lines())
    if len(lines) > height:
        lines = [
            *lines[: height - 1],
            f"{and_more(len(lines) - height + 1, 'line')}: see `status`",
        ]
    return Text.from_ansi("\n".join(lines))
