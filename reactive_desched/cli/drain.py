"""`drain`: cordons nodes, has a running controller empty them, and says what is left on each."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from reactive_desched.cli import controller_client, flag_values, policy_flags
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.following import follow
from reactive_desched.cli.pause import add_person, person
from reactive_desched.errors import ConfigError
from reactive_desched.text.counts import agree, format_count

NOT_DRAINED: Final = 3
"""The exit status where not every node is drained."""

_DEFAULT_TIMEOUT_S: Final = 3600.0
_NO_PLUGIN: Final = (
    "no profile of the controller has the plugin DrainNodes: add it to plugins.deschedule.enabled "
    "of one, which finds the pods of nodes that are to be drained and does nothing else"
)

_ENDED: Final = ("drained", "blocked", "no_plugin")
_NOT_BEGUN: Final = ("not_asked", "not_cordoned")
_LEFT: Final = {
    "waits": ("waits", "wait"),
    "evicting": ("is being evicted", "are being evicted"),
    "leaves": ("leaves", "leave"),
    "stays": ("stays until a person changes something", "stay until a person changes something"),
    "dry_run": ("would be evicted", "would be evicted"),
    "left_out": ("is left out by the policy", "are left out by the policy"),
}
"""Each state of a pod that is left, for one and for several."""

_COLUMNS: Final = ("NODE", "POD", "STATE", "UNTIL", "MESSAGE")


def add(commands: Commands) -> None:
    """Describe `drain` to the parser."""
    command = commands.add_parser("drain", help="empty nodes at the pace of the limits")
    command.describe(
        "Cordon nodes, by the kubeconfig, and have a running controller move their pods to other "
        "nodes as gates, disruption budgets and limits allow. With --wait it ends when no pod is "
        "left but those of DaemonSets and static ones, or when what is left stays until a person "
        "changes something, and says what holds each pod. The request is the node's annotation "
        "reactive-desched/drain: it outlives this command, and --stop takes it back. No node is "
        f"deleted. {controller_client.WHERE}",
        epilog="exit status: 0 it is taken, and with --wait or --show every node is drained; 1 no "
        "controller or API server answers, or it refuses; 2 a wrong argument, or no profile has "
        f"the plugin DrainNodes; {NOT_DRAINED} with --wait or --show not every node is drained",
        examples=(
            "reactive-desched drain node-17 --wait --timeout 30m",
            "reactive-desched drain node-17 node-18 --reason 'kernel 6.12'",
            "reactive-desched drain node-17 --plan --policy policy.yaml",
            "reactive-desched drain --show",
            "reactive-desched drain --stop node-17",
        ),
    )
    command.add_argument("nodes", nargs="*", default=(), metavar="NODE", help="its name")
    what = command.add_mutually_exclusive_group()
    what.add_argument(
        "--show",
        action="store_true",
        help="change nothing: say how far these nodes are, or all that are to be drained",
    )
    what.add_argument(
        "--stop", action="store_true", help="take it back: uncordon them; what has left has left"
    )
    what.add_argument(
        "--plan",
        action="store_true",
        help="change nothing, and ask no controller: say which pods a policy would move, and when",
    )
    what.add_argument("--wait", action="store_true", help="until each is drained, or blocked")
    policy_flags.add(command, required=False)
    command.add_argument(
        "--timeout",
        metavar="DURATION",
        type=flag_values.parse_positive_duration,
        default=_DEFAULT_TIMEOUT_S,
        help="with --wait: at most so long, such as 30m (default: 1h)",
    )
    add_person(command)
    command.add_argument("--kubeconfig", metavar="FILE", help="default: as kubectl finds it")
    command.add_argument("--context", metavar="NAME", help="of the kubeconfig (default: its own)")
    controller_client.add_server(command)
    controller_client.add_output(command)
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    names = [name.removeprefix("node/") for name in arguments.nodes]
    if not names and not arguments.show:
        raise ConfigError("name the nodes: reactive-desched drain NODE...")
    if arguments.plan:
        return _plan(names, arguments)
    if arguments.policy or arguments.settings:
        raise ConfigError("--policy and --settings are for --plan: the controller has its own")
    if arguments.stop:
        return _stop(names, arguments)
    client = controller_client.client_of(arguments)
    query = {"nodes": ",".join(names)} if names else {}
    found = client.ask("drains", query)
    status, is_table = found.value, arguments.output == "table"
    if is_table:
        sys.stdout.write(f"{found.heading(client.server)}\n")
    if not arguments.show:
        if not status["profiles"]:
            raise ConfigError(f"{_NO_PLUGIN}; no node was changed")
        _request(names, arguments, found)
        status = follow(
            lambda: client.read_page("drains", query),
            _Wait().is_over if arguments.wait else lambda _: True,
            arguments.timeout,
            _progress if is_table and arguments.wait else None,
            _eta,
        )
    if is_table:
        sys.stdout.writelines(f"{line}\n" for line in _lines(status, arguments))
    else:
        controller_client.write_answer("json", status, ())
    asks_for_end = arguments.wait or arguments.show
    are_drained = all(each["state"] == "drained" for each in status["nodes"])
    return NOT_DRAINED if asks_for_end and not are_drained else 0


def _plan(names: Sequence[str], arguments: argparse.Namespace) -> int:
    """Preview the drain of nodes, as `plan --drain` does."""
    from reactive_desched.model.node_drains import DRAIN_NODES
    from reactive_desched.plan.command import run
    from reactive_desched.plan.inputs import PlanOptions
    from reactive_desched.primitives.hung_calls import hung_calls_ended

    if arguments.policy is None:
        raise ConfigError("--plan needs --policy FILE: the policy that the controller runs")
    options = PlanOptions(
        policy=arguments.policy,
        settings=arguments.settings,
        lenient=arguments.lenient_policy,
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        drain=tuple(names),
        only={"plugins": (DRAIN_NODES,)},
        output=arguments.output,
    )
    with hung_calls_ended():
        return run(options)


def _request(
    names: Sequence[str], arguments: argparse.Namespace, of: controller_client.Answer
) -> None:
    """Ask for the drain of nodes, in the controller's cluster."""
    import anyio

    who = person(arguments)
    wish = f"{who['by']}: {who['reason']}" if who["reason"] else who["by"]
    anyio.run(_patch, names, arguments, wish, of.cluster)


def _stop(names: Sequence[str], arguments: argparse.Namespace) -> int:
    import anyio

    anyio.run(_patch, names, arguments, None, "")
    return 0


async def _patch(
    names: Sequence[str], arguments: argparse.Namespace, wish: str | None, cluster: str
) -> None:
    """Write to each node, without a wish to take it back.

    Raises ConfigError where the kubeconfig leads to another cluster than this, empty for any.
    """
    from reactive_desched.app.cluster import identify_cluster
    from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions
    from reactive_desched.kube.client.nodes import request_drain, withdraw_drain
    from reactive_desched.kube.client.session import open_session
    from reactive_desched.model.objects import Node

    is_table = arguments.output == "table"
    async with open_session(KubeConfigOptions(arguments.kubeconfig, arguments.context)) as session:
        if cluster:
            uid = (await identify_cluster(session, "", session.description)).uid
            if uid and uid not in cluster:
                raise ConfigError(
                    f"the kubeconfig leads to {session.description}, another cluster than the "
                    f"controller's, which is {cluster}; name the context with --context, or the "
                    "controller with --server; no node was changed"
                )
        for name in names:
            if wish is None:
                await withdraw_drain(session, Node(name))
                done = "schedulable, and not to be drained"
            else:
                await request_drain(session, Node(name), wish)
                done = "cordoned, to be drained"
            if is_table:
                sys.stdout.write(f"node/{name} {done}\n")


class _Wait:
    """The wait for the end of drains; one that a person takes back has ended, too.

    The controller may need a moment to see that a drain was asked for.
    """

    def __init__(self) -> None:
        self._begun: set[str] = set()

    def is_over(self, status: Mapping[str, Any]) -> bool:
        """Say whether each node is drained, or does not go on before a person does something."""
        nodes = status["nodes"]
        self._begun |= {each["node"] for each in nodes if each["state"] not in _NOT_BEGUN}
        return all(
            each["node"] in self._begun if each["state"] in _NOT_BEGUN else each["state"] in _ENDED
            for each in nodes
        )


def _eta(status: Mapping[str, Any]) -> str:
    """Say when the last pod in the queue of a rate limit is expected to leave."""
    reasons = [reason for each in status["nodes"] for reason in each.get("reasons", ())]
    turns = [datetime.fromisoformat(each["lastTurn"]) for each in reasons if "lastTurn" in each]
    if not turns:
        return ""
    about = "not before" if any(each.get("isLeast") for each in reasons) else "about"
    return f"; the last leaves {about} {max(turns):%H:%M:%S}"


def _progress(status: Mapping[str, Any]) -> str:
    """Say in a line how many nodes are drained, and what becomes of the pods that are left."""
    nodes = status["nodes"]
    drained = sum(each["state"] == "drained" for each in nodes)
    counts: dict[str, int] = {}
    for each in nodes:
        for state, count in each.get("states", {}).items():
            counts[state] = counts.get(state, 0) + count
    parts = [
        f"{counts[state]:,} {agree(counts[state], *words)}"
        for state, words in _LEFT.items()
        if state in counts
    ]
    left = f", {format_count(sum(counts.values()), 'pod')} left: {', '.join(parts)}"
    of = f"{drained} of {format_count(len(nodes), 'node')} drained"
    return of + (left if parts else "")


def _lines(status: Mapping[str, Any], arguments: argparse.Namespace) -> Iterator[str]:
    """Yield how far each node is, and what holds the pods that are left."""
    from reactive_desched.text.layout import align, layout_for

    if not status["nodes"]:
        yield "no node is to be drained"
        return
    if not status["profiles"]:
        yield _NO_PLUGIN
    if hold := status.get("hold"):
        yield f"no pod is evicted now: {hold}"
    for each in status["nodes"]:
        wish = f" ({each['wish']})" if each.get("wish") else ""
        at = f" since {each['drained']}" if each.get("drained") else ""
        yield f"node {each['node']}: {each['state'].replace('_', ' ')}{at}{wish}; {each['message']}"
    rows = [_COLUMNS, *_rows(status)]
    if len(rows) > 1:
        yield from align(rows, width=layout_for(sys.stdout).width, indent="")
    if arguments.wait or arguments.show:
        yield _progress(status)
    else:
        yield (
            "the controller goes on with it; `reactive-desched drain --show` says how far it is, "
            "and --wait waits for the end"
        )


def _rows(status: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for each in status["nodes"]:
        for pod in each.get("pods", ()):
            name = f"{pod['namespace']}/{pod['pod']}"
            until = _until(pod)
            state = pod["state"].replace("_", " ")
            yield each["node"], name, state, until, pod.get("message", "")
        listed, left = len(each.get("pods", ())), sum(each.get("states", {}).values())
        if listed < left:
            yield each["node"], f"and {left - listed:,} more", "", "", ""


def _until(pod: Mapping[str, Any]) -> str:
    if not (until := pod.get("until")):
        return "-"
    at = f"{datetime.fromisoformat(until):%H:%M:%S}"
    return f"from {at}" if pod.get("isLeast") else at
