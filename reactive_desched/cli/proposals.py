"""`proposals`: what a running controller would evict once a person approves it."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Any

from reactive_desched.cli import controller_client
from reactive_desched.cli.commands import Commands
from reactive_desched.text.ages import age_of
from reactive_desched.text.counts import format_count


def add(commands: Commands) -> None:
    """Describe `proposals` to the parser."""
    command = commands.add_parser("proposals", help="list the evictions that wait for an approval")
    command.describe(
        "Ask a running controller which evictions wait for a person: those of plugins whose mode "
        "is propose, to which every gate has agreed. Those of one plugin on one node are a group; "
        "-o wide lists each pod. A proposal whose finding does not hold any more ends by itself. "
        f"{controller_client.WHERE}",
        epilog=controller_client.STATUS,
        examples=(
            "reactive-desched proposals",
            "reactive-desched proposals -o wide",
            "reactive-desched proposals -o json",
        ),
    )
    controller_client.add_server(command)
    command.add_argument("-o", "--output", choices=["table", "wide", "json"], default="table")
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    client = controller_client.client_of(arguments)
    answer = client.ask("proposals", {})
    is_wide = arguments.output == "wide"
    lines = chain((answer.heading(client.server),), _table(answer.value, is_wide=is_wide))
    controller_client.write_answer(arguments.output, answer.value, lines)
    return 0


def _table(answer: Mapping[str, Any], *, is_wide: bool) -> Iterator[str]:
    from reactive_desched.text.layout import align, layout_for

    if answer["hold"]:
        yield f"no pod is evicted now, whatever is approved: {answer['hold']}"
    if not answer["total"]:
        yield "nothing is proposed"
    else:
        now, width = datetime.fromisoformat(answer["time"]), layout_for(sys.stdout).width
        yield f"{format_count(answer['total'], 'pod')} proposed:"
        yield ""
        rows = _pods(answer, now) if is_wide else _groups(answer, now)
        yield from align(list(rows), width=width, indent="")
        yield ""
        yield "`reactive-desched approve --group GROUP`, or approve ID of one pod (-o wide)"
        listed = sum(len(group["proposals"]) for group in answer["groups"])
        if (more := answer["total"] - listed) > 0:
            yield f"{format_count(more, 'more pod')} not listed"
    if rejected := answer["rejected"]:
        yield f"{format_count(rejected, 'more pod', 'stays', 'stay')} as a person rejected it"


def _groups(answer: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, ...]]:
    from reactive_desched.model.approvals import short_id  # msgspec

    yield ("GROUP", "PODS", "SINCE", "NODE", "PLUGIN", "PROFILE", "FINDING")
    for group in answer["groups"]:
        yield (
            short_id(group["id"]),
            str(group["total"]),
            age_of(group["since"], now),
            group["node"],
            group["plugin"],
            group["profile"],
            group["finding"],
        )


def _pods(answer: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, ...]]:
    from reactive_desched.model.approvals import short_id  # msgspec

    yield ("ID", "GROUP", "POD", "NODE", "PLUGIN", "SINCE", "FINDING")
    for group in answer["groups"]:
        for each in group["proposals"]:
            yield (
                short_id(each["id"]),
                short_id(group["id"]),
                f"{each['namespace']}/{each['pod']}",
                each["node"],
                group["plugin"],
                age_of(each["since"], now),
                each["finding"],
            )
