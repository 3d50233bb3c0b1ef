"""The flags that say which cluster to look at, for every command that takes a snapshot of one."""

import argparse


def add(command: argparse.ArgumentParser) -> None:
    """Describe them to a command's parser."""
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


def add_sweep(command: argparse.ArgumentParser) -> None:
    """Describe how to sweep what was looked at, and in which form to write the result."""
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
        "-o", "--output", choices=["table", "wide", "json", "yaml"], default="table"
    )


def _passes(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of times to look")
    return int(text)
