"""`nodes`: how each node compares with the thresholds of the policy."""

import argparse

from reactive_desched.cli import policy_flags, recorded_controller, snapshot_flags
from reactive_desched.cli.commands import Commands


def add(commands: Commands) -> None:
    """Describe `nodes` to the parser."""
    command = commands.add_parser("nodes", help="say which nodes are underutilized, and why")
    command.describe(
        "For each plugin of the policy that compares the use of nodes with thresholds, list what "
        "each node has, what its pods request and what was measured, its class, and what one sweep "
        "would move. It only reads: the objects come from files, or are listed once from a "
        "cluster; with --at, from a recording of it.",
        epilog="exit status: 0 whatever was found, 1 the objects cannot be read completely or a "
        "plugin failed, 2 an error in the policy, the settings or the flags",
        examples=(
            "reactive-desched nodes --policy policy.yaml",
            "reactive-desched nodes --policy policy.yaml --profile balance -o wide",
            "reactive-desched nodes --at 2026-05-01T03:12:00Z",
        ),
    )
    policy_flags.add(command, required=False)
    command.add_argument("--profile", metavar="NAME", help="show this profile of the policy only")
    snapshot_flags.add(command)
    snapshot_flags.add_preview(command)
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    from reactive_desched.plan.command import run_nodes
    from reactive_desched.plan.node_report import NodesReport
    from reactive_desched.primitives.hung_calls import hung_calls_ended

    options = snapshot_flags.preview_options_of(arguments, show_nodes=True)
    with hung_calls_ended():
        return run_nodes(
            options, recorded_controller.build_of(arguments, "node-tables", NodesReport)
        )
