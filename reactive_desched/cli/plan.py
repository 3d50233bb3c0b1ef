"""`plan`: a preview of what would be evicted."""

import argparse
from typing import Final

from reactive_desched.cli import policy_flags, record_filters, recorded_controller, snapshot_flags
from reactive_desched.cli.commands import Commands

_FROM_KUBECTL: Final = (
    "kubectl get nodes,pods,pdb -A -o json | reactive-desched plan --policy policy.yaml -f -"
)


def add(commands: Commands) -> None:
    """Describe `plan` to the parser."""
    command = commands.add_parser("plan", help="say what would be evicted, and why not")
    command.describe(
        "List what the controller would evict from now on, when, and why other pods would stay; "
        "with --as, what `run --once` or the SIG descheduler would. It only reads: the objects "
        "come from files, or are listed once from a cluster; with --at, from a recording of it.",
        epilog="exit status: 0 whatever was decided, 1 the objects cannot be read completely or a "
        "plugin failed, 2 an error in the policy, the settings or the flags, or --pod names "
        "no pod",
        examples=(
            "reactive-desched plan --policy policy.yaml",
            _FROM_KUBECTL,
            "reactive-desched plan --policy policy.yaml --all --pod shop/web-7d4b9c6f5-x2x8p",
            "reactive-desched plan --at 2h",
        ),
    )
    policy_flags.add(command, required=False)
    command.add_argument("--profile", metavar="NAME", help="run this profile of the policy only")
    snapshot_flags.add(command)
    command.add_argument(
        "--all",
        action="store_true",
        help="list every pod, also those without a decision",
    )
    command.add_argument(
        "--nodes",
        action="store_true",
        help="show how nodes stand beside the thresholds of the policy, as `nodes` does",
    )
    command.add_argument(
        "--drain",
        metavar="NODE",
        action="append",
        default=[],
        help="as if this node were to be drained (reactive-desched drain); may be repeated",
    )
    snapshot_flags.add_preview(command)
    record_filters.add_pods(command)
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    from reactive_desched.plan.command import run
    from reactive_desched.plan.report import PlanReport
    from reactive_desched.primitives.hung_calls import hung_calls_ended

    options = snapshot_flags.preview_options_of(
        arguments,
        only=record_filters.pod_words(arguments),
        show_unaffected=arguments.all,
        show_nodes=arguments.nodes,
        drain=tuple(arguments.drain),
    )
    with hung_calls_ended():
        return run(options, recorded_controller.build_of(arguments, "plan", PlanReport))
