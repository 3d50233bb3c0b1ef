"""`evaluate`: a running controller looks at what is named at once, and says what became of it."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from reactive_desched.cli import controller_client, flag_values
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.following import follow
from reactive_desched.cli.kubectl_names import owner_key, question_of
from reactive_desched.cli.pause import add_person, person
from reactive_desched.errors import ConfigError
from reactive_desched.text.counts import agree, format_count

NOT_ENDED: Final = 3
"""The exit status where not everything has ended in time."""

_DEFAULT_TIMEOUT_S: Final = 3600.0
_UNFINISHED: Final = ("evicting", "leaves", "waits")

_WORDS: Final = {
    "evicting": ("is being evicted", "are being evicted"),
    "leaves": ("leaves, its replacement is awaited", "leave, their replacements are awaited"),
    "waits": ("waits", "wait"),
    "stays": ("stays until a person changes something", "stay until a person changes something"),
    "ended": ("left its node", "left their nodes"),
    "dry_run": ("would be evicted", "would be evicted"),
    "not_found": ("is in its right place by now", "are in their right places by now"),
}
"""Each state of a pod that was found, for one and for several."""


def add(commands: Commands) -> None:
    """Describe `evaluate` to the parser."""
    command = commands.add_parser("evaluate", help="have a running controller look at pods now")
    command.describe(
        "Have a running controller evaluate a pod, the pods of a node, a workload or a namespace, "
        "or everything, at once: without waiting for a change or for quiet. What it finds passes "
        "the same gates and limits as ever. With --wait it ends when all that was found has ended: "
        "the pods left and their replacements are Ready, or they are in their right place, or they "
        f"stay for good. {controller_client.WHERE}",
        epilog="exit status: 0 it is taken, and with --wait all has ended, also where gates keep "
        "pods for good, which are listed; 1 no controller answers, 2 a wrong argument, "
        f"{NOT_ENDED} with --wait not all has ended within --timeout",
        examples=(
            "reactive-desched evaluate node/node-17 --wait",
            "reactive-desched evaluate deploy/web -n shop --wait --timeout 10m",
            "reactive-desched evaluate -n shop --plugin RemovePodsViolatingNodeTaints",
            "reactive-desched evaluate --all --reason 'after the upgrade'",
        ),
    )
    _add_scope(command)
    command.add_argument("--wait", action="store_true", help="until all that is found has ended")
    command.add_argument(
        "--timeout",
        metavar="DURATION",
        type=flag_values.parse_positive_duration,
        default=_DEFAULT_TIMEOUT_S,
        help="with --wait: at most so long, such as 10m (default: 1h)",
    )
    add_person(command)
    controller_client.add_server(command)
    controller_client.add_output(command)
    command.set_defaults(command=_call)


def _add_scope(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "words",
        nargs="*",
        default=(),
        metavar="[NAMESPACE/]POD, KIND/NAME",
        help="a pod, or its uid; or as kubectl names it: pod/NAME, node/NAME, and with -n "
        "deploy/NAME, sts NAME, job.batch/NAME and the like",
    )
    command.add_argument("--node", metavar="NAME", help="the pods of this node")
    command.add_argument(
        "--owner", metavar="'KIND NAMESPACE/NAME'", help="the pods of this workload, or its uid"
    )
    command.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        help="the pods of this namespace; or the namespace of POD or of a workload",
    )
    command.add_argument("--plugin", metavar="NAME", help="by this plugin alone")
    command.add_argument("--profile", metavar="NAME", help="by the plugins of this profile alone")
    command.add_argument("--all", action="store_true", help="everything")


def scope_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what a command line names, as the order has it; raises ConfigError for nothing."""
    scope: dict[str, Any] = {}
    if arguments.words:
        scope |= question_of(arguments.words, arguments.namespace)
    elif arguments.namespace is not None:
        scope["namespace"] = arguments.namespace
    for name in ("node", "owner", "plugin", "profile"):
        if (value := getattr(arguments, name)) is not None:
            if name in scope:
                raise ConfigError(f"--{name} and {' '.join(arguments.words)} name two of a kind")
            scope[name] = owner_key([value]) if name == "owner" else value
    if arguments.all:
        scope["all"] = True
    if not scope:
        raise ConfigError(
            "name what to evaluate: a pod, node/NAME, KIND/NAME with -n, -n NAMESPACE, "
            "--plugin NAME, or --all"
        )
    return scope


def _call(arguments: argparse.Namespace) -> int:
    scope = scope_of(arguments)
    client = controller_client.client_of(arguments)
    answer = client.send_order("evaluate", {**scope, **person(arguments)})
    is_table = arguments.output == "table"
    if is_table:
        sys.stdout.write(f"{answer.heading(client.server)}\n{_taken(answer.value)}\n")
    status = answer.value
    if arguments.wait and not status.get("hasEnded"):
        query = {"number": str(status["number"])}
        status = follow(
            lambda: client.read_page("evaluations", query),
            lambda found: bool(found.get("hasEnded")),
            arguments.timeout,
            _progress if is_table else None,
        )
    if is_table:
        sys.stdout.writelines(f"{line}\n" for line in _summary(status, waited=arguments.wait))
    else:
        controller_client.write_answer("json", status, ())
    return NOT_ENDED if arguments.wait and not status.get("hasEnded") else 0


def _taken(status: Mapping[str, Any]) -> str:
    selected = status.get("selected")
    of = "" if selected is None else f": {format_count(selected, 'pod')}"
    return f"evaluation {status['number']} of {status['scope']}{of}"


def _progress(status: Mapping[str, Any]) -> str:
    """Say in a line what became of the pods that were found."""
    states = status["states"]
    found = sum(states.values()) + status.get("unfollowed", 0)
    if not found:
        return "no pod is found" if status.get("evaluated") else "nothing is found yet"
    parts = (
        f"{states[name]:,} {agree(states[name], *words)}"
        for name, words in _WORDS.items()
        if states.get(name)
    )
    return f"{format_count(found, 'pod')} found: {', '.join(parts)}"


def _summary(status: Mapping[str, Any], *, waited: bool) -> Iterator[str]:
    """Yield what holds the pods that have not left, and what became of all that were found."""
    if hold := status.get("hold"):
        yield f"no pod is evicted now: {hold}"
    if status["reasons"]:
        from reactive_desched.cli.pending import GROUP_COLUMNS, group_row
        from reactive_desched.text.layout import align, layout_for

        now = datetime.fromisoformat(status["time"])
        rows = [GROUP_COLUMNS, *(group_row(each, now) for each in status["reasons"])]
        yield from align(rows, width=layout_for(sys.stdout).width, indent="")
    if unfollowed := status.get("unfollowed"):
        yield f"{format_count(unfollowed, 'more pod')} found, which are not followed"
    if not waited:
        yield (
            "the controller goes on with it; `reactive-desched pending` has what waits, and "
            "--wait waits for the end"
        )
    elif not status.get("hasEnded"):
        left = sum(status["states"].get(name, 0) for name in _UNFINISHED)
        what = format_count(left, "pod", "has", "have") if left else "the evaluation has"
        yield f"{what} not ended in time; the controller goes on with it"
    else:
        yield _progress(status)
