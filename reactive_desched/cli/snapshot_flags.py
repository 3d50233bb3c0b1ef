"""The flags that say which cluster to look at, for every command that takes a snapshot of one."""

import argparse

from reactive_desched.cli import flag_values
from reactive_desched.errors import ConfigError


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


def add_preview(command: argparse.ArgumentParser) -> None:
    """Describe whose decisions to preview, and in which form to write them."""
    command.add_argument(
        "--as",
        dest="mode",
        choices=["run", "once", "upstream"],
        help="whose decisions: run, the controller (the default); once, `run --once`; upstream, a"
        " dry run of the SIG descheduler (the default with --passes)",
    )
    command.add_argument(
        "--now", metavar="TIME", help="judge as of this RFC 3339 time (default: the present)"
    )
    command.add_argument(
        "--passes",
        metavar="N",
        type=flag_values.parse_passes,
        help="with --as upstream: sweep the same objects N times and report the last sweep",
    )
    command.add_argument(
        "-o", "--output", choices=["table", "wide", "json", "yaml"], default="table"
    )


def mode_of(arguments: argparse.Namespace) -> str:
    """Return whose decisions to preview: passes are something that only upstream has."""
    if arguments.passes is None:
        return str(arguments.mode or "run")
    if arguments.mode not in (None, "upstream"):
        raise ConfigError(
            f"--passes: --as {arguments.mode} looks once; take it away, or write --as upstream"
        )
    return "upstream"
