"""`why`: why a pod was moved, waits, or stays."""

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from reactive_desched.cli import (
    controller_client,
    policy_flags,
    recorded_controller,
    snapshot_flags,
)
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.kubectl_names import hint_for, owner_key, questions_of
from reactive_desched.errors import ConfigError


def add(commands: Commands) -> None:
    """Describe `why` to the parser."""
    command = commands.add_parser("why", help="say why a pod was moved, waits, or stays")
    command.describe(
        "Say of a pod what every plugin answers, with its numbers, what every filter and limit "
        "says, which nodes fit, when it is looked at again, and what became of earlier evictions "
        "of its workload; or the state of each pod of a node or workload. Without --policy a "
        "running controller answers; with --policy the answer is what a controller would say that "
        "starts now on the cluster of the kubeconfig, or of files. With --at it is what "
        "the controller would have said at that moment; with --policy, one that starts then. "
        f"{controller_client.WHERE}",
        epilog="exit status: 0 an answer came, 1 no controller answers or the objects cannot be "
        "read, 2 a wrong argument, or there is no such pod",
        examples=(
            "reactive-desched why shop/web-7d4b9c6f5-x2x8p",
            "reactive-desched why node/node-17 --policy policy.yaml",
            "reactive-desched why deploy/web -n shop -o json",
            "reactive-desched why shop/web-0 shop/web-1 --policy policy.yaml",
            "reactive-desched why shop/web-7d4b9c6f5-x2x8p --at 2026-05-01T03:12:00Z",
        ),
    )
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "pod",
        nargs="*",
        default=(),
        metavar="[NAMESPACE/]POD, KIND/NAME",
        help="the pods, or their uids; or as kubectl names it: pod/NAME, node/NAME, and with -n "
        "deploy/NAME, sts NAME, job.batch/NAME and the like",
    )
    what.add_argument("--node", metavar="NAME", help="the pods of this node")
    what.add_argument(
        "--owner", metavar="'KIND NAMESPACE/NAME'", help="the pods of this workload, or its uid"
    )
    command.add_argument(
        "-n", "--namespace", metavar="NAME", help="the namespace of POD or of a workload"
    )
    controller_client.add_server(command)
    policy_flags.add(command, required=False)
    snapshot_flags.add(command)
    command.add_argument(
        "--journal",
        metavar="DIR",
        help="with --policy or --at: count the earlier evictions that this journal records",
    )
    command.add_argument(
        "--now", metavar="TIME", help="with --policy: as of this RFC 3339 time (default: now)"
    )
    snapshot_flags.add_at(command)
    command.add_argument("-o", "--output", choices=["table", "json", "yaml"], default="table")
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    try:
        answers = _answers(arguments, _questions(arguments))
    except ConfigError as error:
        if arguments.pod and arguments.namespace is None and (hint := hint_for(arguments.pod)):
            raise ConfigError(f"{error}{hint}") from error
        raise
    values = [answer for answer, _, _ in answers]
    value = values[0] if len(values) == 1 else values
    if arguments.output == "json":
        sys.stdout.write(json.dumps(value, indent=1) + "\n")
    elif arguments.output == "yaml":
        import msgspec

        sys.stdout.write(msgspec.yaml.encode(value).decode())
    else:
        from reactive_desched.text.layout import layout_for
        from reactive_desched.why.text import answer_lines

        layout = layout_for(sys.stdout)
        texts = [(*heading, *answer_lines(answer, now, layout)) for answer, now, heading in answers]
        sys.stdout.write("\n".join("".join(f"{line}\n" for line in lines) for lines in texts))
    return 0


_Answer = tuple[Any, datetime, tuple[str, ...]]
"""An answer, as of when it is, and who gave it."""


def _answers(
    arguments: argparse.Namespace, questions: Sequence[dict[str, str]]
) -> Sequence[_Answer]:
    """Return the answer to each question."""
    if arguments.policy is not None:
        if arguments.server is not None:
            raise ConfigError("--server means nothing with --policy: leave one of them out")
        return _look(arguments, questions)
    if arguments.at is not None:
        return [_recorded(arguments, question) for question in questions]
    snapshot_flags.recording_of(arguments)  # which is an error without --at
    _check_no_snapshot(arguments)
    recorded_controller.check_cluster_flags(arguments)
    client = controller_client.client_of(arguments)
    answers = []
    for question in questions:
        answer = client.ask("why", question)
        moment = datetime.fromisoformat(answer.value["time"])
        answers.append((answer.value, moment, (answer.heading(client.server), "")))
    return answers


def _recorded(arguments: argparse.Namespace, question: dict[str, str]) -> _Answer:
    """Answer as the controller would have at the moment of --at."""
    answered, moment, heading = recorded_controller.ask(arguments, "why", question)
    return answered, moment, (heading, "")


def _questions(arguments: argparse.Namespace) -> Sequence[dict[str, str]]:
    """Return the queries for the controller's page; raises ConfigError."""
    if not arguments.pod:
        if arguments.namespace is not None:
            raise ConfigError("-n is the namespace of POD: leave it out with --node and --owner")
        owner = None if arguments.owner is None else owner_key([arguments.owner])
        named = {"node": arguments.node, "owner": owner}
        return [{name: value for name, value in named.items() if value is not None}]
    return questions_of(arguments.pod, arguments.namespace)


def _check_no_snapshot(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for flags that need a policy."""
    given = {
        "-f": arguments.filename,
        "--settings": arguments.settings,
        "--journal": arguments.journal,
        "--now": arguments.now,
    }
    if flags := [flag for flag, value in given.items() if value]:
        raise ConfigError(
            f"{flags[0]} needs --policy; without a policy a running controller is asked"
        )


def _look(arguments: argparse.Namespace, questions: Sequence[dict[str, str]]) -> Sequence[_Answer]:
    """Answer as a controller that starts now, or at the moment of --at, on this cluster would."""
    import time

    from reactive_desched.plan.inputs import look
    from reactive_desched.plan.progress import progress_on
    from reactive_desched.why.offline import explain

    progress = progress_on(sys.stderr, time.monotonic)
    try:
        looked_at = look(snapshot_flags.options_of(arguments), progress)
    finally:
        progress.finish()
    for warning in looked_at.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    heading = (looked_at.heading, "") if looked_at.heading else ()
    return [
        (explain(looked_at, question), looked_at.moment, () if n else heading)
        for n, question in enumerate(questions)
    ]
