"""`eviction-loops`: lists the workloads that a controller leaves alone as moves did not help."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from reactive_desched.cli import controller_client
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.kubectl_names import owner_key
from reactive_desched.cli.pause import add_person, person
from reactive_desched.text.ages import age_of, time_until
from reactive_desched.text.counts import and_more, format_count
from reactive_desched.text.workloads import name_of_key


def add(commands: Commands) -> None:
    """Describe `eviction-loops list` and `eviction-loops clear` to the parser."""
    command = commands.add_parser(
        "eviction-loops", help="list or retry workloads that moves did not help"
    )
    command.describe(
        "A pod is in a loop when it is evicted again and again: its replacement is placed as "
        "badly, or the node stays overutilized. The plugin then leaves the workload or the node "
        "alone, for longer each time. List these, or have the controller try again. `futile` is "
        "the same command.",
        examples=(
            "reactive-desched eviction-loops list",
            "reactive-desched eviction-loops clear Deployment shop/web",
        ),
    )
    actions = command.add_subparsers(metavar="ACTION", required=True)
    _add_list(actions)
    _add_clear(actions)


def _add_list(actions: Any) -> None:  # argparse has no public name for it
    command = actions.add_parser(
        "list", help="list workloads that are left alone, as moves did not help"
    )
    command.describe(
        "List the workloads and the nodes that a plugin leaves alone, and until when. "
        f"{controller_client.WHERE}",
        epilog=controller_client.STATUS,
        examples=(
            "reactive-desched eviction-loops list",
            "reactive-desched eviction-loops list --server http://127.0.0.1:10258 -o json",
        ),
    )
    controller_client.add_server(command)
    controller_client.add_output(command)
    command.set_defaults(command=_list)


def _add_clear(actions: Any) -> None:  # argparse has no public name for it
    command = actions.add_parser("clear", help="have the controller try again to move their pods")
    command.describe(
        "Have the controller forget what it remembers of one workload's moves, or of all, and "
        f"evaluate its findings again; who did so is recorded. {controller_client.WHERE}",
        epilog=controller_client.STATUS,
        examples=(
            "reactive-desched eviction-loops clear Deployment shop/web",
            "reactive-desched eviction-loops clear --all --reason 'nodes were added'",
        ),
    )
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "owner",
        nargs="*",
        default=(),
        metavar="KIND NAMESPACE/NAME",
        help="the workload as `list` names it, such as Deployment shop/web, as "
        "NAMESPACE/KIND/NAME, or its uid",
    )
    which.add_argument("--all", action="store_true", help="every workload")
    add_person(command)
    controller_client.add_server(command)
    command.set_defaults(command=_clear)


def _list(arguments: argparse.Namespace) -> int:
    client = controller_client.client_of(arguments)
    answer = client.ask("futile")
    lines = chain((answer.heading(client.server),), _table(answer.value, datetime.now(UTC)))
    controller_client.write_answer(arguments.output, answer.value, lines)
    return 0


def _clear(arguments: argparse.Namespace) -> int:
    body = {**person(arguments), "owner": owner_key(arguments.owner) if arguments.owner else ""}
    client = controller_client.client_of(arguments)
    answer = client.send_order("futile-clear", body)
    sys.stdout.write(f"{answer.heading(client.server)}\n")
    count = answer.value["cleared"]
    sys.stdout.write(f"forgot the moves of {format_count(count, 'workload')}\n")
    return 0


def _table(answer: Mapping[str, Any], now: datetime) -> Iterator[str]:
    from reactive_desched.text.layout import align, layout_for

    owners, nodes, width = answer["owners"], answer["nodes"], layout_for(sys.stdout).width
    if not owners and not nodes:
        yield "no workload is left alone because moves did not help"
        return
    if owners:
        heads = ("OWNER", "PLUGIN", "MOVES", "STATE", "SINCE", "UNTIL", "LAST")
        rows = [_row(owner, now) for owner in owners]
        yield from align([heads, *rows], width=width, indent="")
    if nodes:
        yield from ("",) if owners else ()
        node_heads = ("NODE", "PLUGIN", "MOVES", "SINCE", "UNTIL")
        node_rows = [_node_row(node, now) for node in nodes]
        yield from align([node_heads, *node_rows], width=width, indent="")
    unlisted = answer["total"] - len(owners) + answer["totalNodes"] - len(nodes)
    if unlisted > 0:
        yield f"{and_more(unlisted)}: -o json has the oldest 500, too"


def _row(owner: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    moves = owner["moves"]
    return (
        name_of_key(owner["owner"]),
        owner["plugin"],
        str(owner["futileMoves"]),
        "left alone" if owner["parked"] else "resting",
        age_of(owner["since"], now),
        time_until(owner["until"], now),
        _last_move(moves[-1]) if moves else "under way",
    )


def _node_row(node: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    return (
        node["node"],
        node["plugin"],
        str(node["futileMoves"]),
        age_of(node["since"], now),
        time_until(node["until"], now),
    )


def _last_move(move: Mapping[str, Any]) -> str:
    where = f"{move['fromNode']} to {move.get('toNode') or 'no node'}"
    holds = ", the finding holds" if move.get("findingHolds") else ""
    return f"{move['pod']}: {where}: {move['result']}{holds}"
