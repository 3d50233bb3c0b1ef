"""`plan`: a preview of one sweep."""

import argparse

from reactive_desched.cli import policy_flags
from reactive_desched.cli.commands import Commands


def add(commands: Commands) -> None:
    """Describe `plan` to the parser."""
    command = commands.add_parser("plan", help="say what would be evicted, and why not")
    command.description = (
        "List what one sweep would evict, in which order, and why other pods would stay. It only "
        "reads: the objects come from files, or are listed once from a cluster."
    )
    command.epilog = (
        "exit status: 0 whatever was decided, 1 the objects cannot be read completely, 2 an error "
        "in the policy, the settings or the flags"
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
        help="without -f, the kubeconfig of the cluster;"
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
        help="sweep the same objects N times and report the last sweep (default 1)",
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
        help="list every pod, also those without a decision",
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
