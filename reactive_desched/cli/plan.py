"""`plan`: a preview of one sweep."""

import argparse

from reactive_desched.cli import policy_flags
from reactive_desched.cli.commands import Commands


def add(commands: Commands) -> None:
    """Describe `plan` to the parser."""
    command = commands.add_parser("plan", help="say what would be evicted, and why not")
    command.description = (
        "Say what one sweep would evict, in which order, and why it would leave other pods alone."
        " Nothing is touched: the objects come from files, or are listed once from a cluster."
    )
    command.epilog = (
        "exit status: 0 whatever was decided, 1 a whole picture is not to be had, 2 something a"
        " person wrote is wrong"
    )
    command.allow_abbrev = False
    _add_what(command)
    _add_from(command)
    _add_how(command)
    command.set_defaults(command=_call)


def _add_what(command: argparse.ArgumentParser) -> None:
    policy_flags.add(command)
    command.add_argument("--profile", metavar="NAME", help="run this profile of the policy only")


def _add_from(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        action="append",
        default=[],
        help="what kubectl get -o json (or yaml, slower) wrote: a file, a folder of such files, or"
        " - for standard input; may be repeated",
    )
    command.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="without -f, the way to the cluster;"
        " default: $KUBECONFIG, ~/.kube/config, or the pod's own account",
    )
    command.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")


def _add_how(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--now", metavar="TIME", help="judge as of this RFC 3339 time (default: the present)"
    )
    command.add_argument(
        "--passes",
        metavar="N",
        type=_passes,
        default=1,
        help="look so many times at the same objects and report the last (default 1)",
    )
    command.add_argument(
        "--node-fit",
        choices=["upstream", "scheduler"],
        default="upstream",
        help="whether a pod fits elsewhere: as the SIG descheduler or the scheduler judges it",
    )
    command.add_argument(
        "--all",
        action="store_true",
        help="account for every pod: also those that nothing was decided about",
    )
    command.add_argument(
        "-o", "--output", choices=["table", "wide", "json", "yaml"], default="table"
    )


def _passes(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of times to look")
    return int(text)


def _call(arguments: argparse.Namespace) -> int:
    from reactive_desched.plan.command import PlanOptions, run

    return run(
        PlanOptions(
            policy=arguments.policy,
            settings=arguments.settings,
            lenient=arguments.lenient_policy,
            files=tuple(arguments.filename),
            kubeconfig=arguments.kubeconfig,
            context=arguments.context,
            now=arguments.now,
            passes=arguments.passes,
            profile=arguments.profile,
            node_fit=arguments.node_fit,
            show_unaffected=arguments.all,
            output=arguments.output,
        )
    )
