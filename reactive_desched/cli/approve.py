"""`approve`: a running controller may evict pods that its plugins propose."""

import argparse
import sys
from datetime import datetime
from typing import Any

from reactive_desched.cli import controller_client, flag_values
from reactive_desched.cli.commands import Commands, print_warning
from reactive_desched.cli.pause import add_person, person
from reactive_desched.errors import ConfigError
from reactive_desched.text.counts import agree, format_count


def add(commands: Commands) -> None:
    """Describe `approve` to the parser."""
    command = commands.add_parser("approve", help="let proposed pods be evicted")
    command.describe(
        "Approve evictions that plugins propose (mode propose): single ones, those of a group or "
        "of a profile, or all that stand now. Nothing is forced: each pod is evaluated again, and "
        "passes every gate and limit as ever. What is found later needs an approval of its own. "
        f"{controller_client.WHERE}",
        epilog="exit status: 0 it is approved, 1 no controller answers, 2 a wrong argument, or "
        "nothing of that name is proposed now",
        examples=(
            "reactive-desched approve 3f9a01bc52d7",
            "reactive-desched approve --group 77aa01c2e4b0 --for 2h --reason 'change 4711'",
            "reactive-desched approve --all",
        ),
    )
    until = "for so long, such as 2h (default: 1h): then a pod that has not left needs another"
    add_scope(command, until)
    add_person(command)
    controller_client.add_server(command)
    command.set_defaults(command=_call)


def add_scope(command: argparse.ArgumentParser, until: str) -> None:
    """Add to a command what names proposals, and how long the answer holds, as `until` says."""
    command.add_argument(
        "ids",
        nargs="*",
        default=(),
        metavar="ID",
        help="a proposal, as `proposals` lists it, or the first 8 characters of that or more",
    )
    command.add_argument("--group", metavar="GROUP", help="the proposals of this group")
    command.add_argument("--profile", metavar="NAME", help="the proposals of this profile")
    command.add_argument("--all", action="store_true", help="every proposal that stands now")
    command.add_argument(
        "--for",
        dest="for_s",
        metavar="DURATION",
        type=_length,
        help=until,
    )


def _length(text: str) -> float:
    from reactive_desched.model.approvals import MAX_APPROVED_S

    return flag_values.parse_duration_up_to(text, MAX_APPROVED_S)


def answer_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the body of an order; raises ConfigError where nothing is named."""
    body = person(arguments)
    if arguments.ids:
        body["proposals"] = list(arguments.ids)
    for name in ("group", "profile"):
        if (value := getattr(arguments, name)) is not None:
            body[name] = value
    if arguments.all:
        body["all"] = True
    if not body.keys() & {"proposals", "group", "profile", "all"}:
        raise ConfigError(
            "name proposals, --group, --profile or --all: `reactive-desched proposals` lists them"
        )
    if arguments.for_s is not None:
        body["forSeconds"] = arguments.for_s
    return body


def _call(arguments: argparse.Namespace) -> int:
    client = controller_client.client_of(arguments)
    answer = client.send_order("approve", answer_of(arguments))
    print_answered(answer, client.server, "approved")
    return 0


def print_answered(answer: controller_client.Answer, server: str, verb: str) -> None:
    """Print what was answered, and until when that holds."""
    value = answer.value
    count, until = len(value["proposals"]), datetime.fromisoformat(value["until"])
    sys.stdout.write(f"{answer.heading(server)}\n")
    proposals = format_count(count, "proposal", "is", "are")
    sys.stdout.write(f"{proposals} {verb} until {until:%Y-%m-%d %H:%M:%S} UTC\n")
    if before := value["before"]:
        sys.stdout.write(f"{before:,} of them {agree(before, 'was', 'were')} {verb} before\n")
    if value["hold"]:
        sys.stdout.write(f"no pod is evicted now: {value['hold']}\n")
    if value["notKept"]:
        print_warning(f"a restart will not remember this: {value['notKept']}")
