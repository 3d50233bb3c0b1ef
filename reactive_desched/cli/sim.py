"""`sim`: a simulated cluster."""

import argparse
from typing import Final

from reactive_desched.cli import flag_values
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.simulator import INSTALL, requires_simulator

SCENARIOS: Final = {
    "fresh": "pods start as you look (default)",
    "busy": "three days old, and all is well",
    "messy": "failed, crash-looping, old and pending pods, duplicates, skew, taints",
    "skewed": "a zone joined an hour ago and is empty",
    "overcommitted": "one node in four is hot, and pods wait for room",
    "storm": "all is well for half a minute, then zone after zone is tainted, two minutes each",
    "pressure": "every two minutes a pod uses all memory of its node, and the kubelet ends it",
    "preemption": "every four minutes pods of high priority take the room of others",
    "batch": "a Job begins each minute, and one in three fails",
    "gpu": "every other node has eight GPUs, and a pod that needs a whole node's waits",
    "autoscaler": "nodes join while pods wait for room, and leave when they are empty",
}
"""What `--scenario` takes; `sim.scenarios` makes them."""

SCORINGS: Final = {
    "LeastAllocated": "the scheduler spreads pods (default)",
    "MostAllocated": "it packs them onto few nodes",
}
"""What `--scoring` takes: the scoring strategy of NodeResourcesFit."""


def add(commands: Commands) -> None:
    """Describe `sim` to the parser."""
    command = commands.add_parser("sim", help="serve a simulated cluster for kubectl and others")
    command.add_argument(
        "--scenario",
        choices=list(SCENARIOS),
        default="fresh",
        metavar="NAME",
        help="; ".join(f"{name}: {text}" for name, text in SCENARIOS.items()),
    )
    command.add_argument(
        "--nodes", type=flag_values.parse_node_count, default=50, metavar="N", help="default 50"
    )
    command.add_argument(
        "--pods",
        type=flag_values.parse_pod_count,
        default=1000,
        metavar="N",
        help="about so many (default 1000)",
    )
    command.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="the same seed gives the same cluster, but for its uids (default 1)",
    )
    command.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="default: any free port on loopback",
    )
    command.add_argument(
        "--scoring",
        choices=list(SCORINGS),
        default="LeastAllocated",
        metavar="STRATEGY",
        help="; ".join(f"{name}: {text}" for name, text in SCORINGS.items()),
    )
    command.add_argument(
        "--terminated-pod-gc-threshold",
        type=flag_values.parse_pod_count,
        default=12_500,
        metavar="N",
        help="so many pods that ended are left, as kube-controller-manager's flag (default 12500)",
    )
    command.add_argument(
        "--write-kubeconfig",
        metavar="FILE",
        default="sim.kubeconfig",
        help="where to write a kubeconfig for the server (default sim.kubeconfig, here); its"
        " context has the name of the file, or sim-FOLDER",
    )
    command.add_argument(
        "--until-stdin-ends",
        action="store_true",
        help="end when standard input does, too: as a pipe, it ends with the program that holds it",
    )
    command.describe(
        "Serve a simulated cluster that kubectl and other clients can work on, until interrupted.",
        epilog="Clients may connect at once; they wait until the cluster is made. It is in a "
        f"package of its own, which the image does not hold: {INSTALL}",
        examples=(
            "reactive-desched sim --scenario messy",
            "reactive-desched sim --nodes 100 --pods 3000 --write-kubeconfig large.kubeconfig",
        ),
    )
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    from reactive_desched.primitives.listen_address import parse_listen_address

    with requires_simulator():
        from reactive_desched.sim.command import SimulationOptions, simulate

    host, port = parse_listen_address(arguments.listen)
    return simulate(
        SimulationOptions(
            nodes=arguments.nodes,
            pods=arguments.pods,
            seed=arguments.seed,
            scenario=arguments.scenario,
            scoring=arguments.scoring,
            most_ended_pods=arguments.terminated_pod_gc_threshold,
            host=host,
            port=port,
            kubeconfig_file=arguments.write_kubeconfig,
            until_stdin_ends=arguments.until_stdin_ends,
        )
    )
