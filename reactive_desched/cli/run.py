"""`run`: the controller, or one sweep with `--once`."""

import argparse
from typing import TYPE_CHECKING

from reactive_desched.cli import policy_flags, upstream_flags
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.flag_values import parse_bool

if TYPE_CHECKING:
    from reactive_desched.app.options import Options
    from reactive_desched.app.overrides import FlagOverrides
    from reactive_desched.cli.upstream_form import UpstreamOptions


def add(commands: Commands) -> None:
    """Describe `run` to the parser."""
    command = commands.add_parser("run", help="watch a cluster and evict what should move")
    command.describe(
        "Watch a cluster, react to its changes, evict at a safe pace. With --once: one sweep over"
        " everything with the SIG descheduler's rules and limits of a cycle.",
        usage="reactive-desched run --policy FILE [flags]",
        epilog="exit status: 0 it was stopped, or the sweep is done; 1 the API server gives no "
        "answer or no right, the journal cannot be written, or another process leads now; 2 a "
        "policy, setting, flag or kubeconfig is wrong",
        examples=(
            "reactive-desched run --policy policy.yaml --dry-run",
            "reactive-desched run --policy policy.yaml --once --kubeconfig ~/.kube/config",
        ),
    )
    _add_what(command)
    _add_where(command)
    command.add_argument("--log-format", choices=["console", "json"], help="default console")
    command.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], help="default info"
    )
    upstream_flags.add(command)
    command.set_defaults(command=_call, bare=False)


def _add_what(command: argparse.ArgumentParser) -> None:
    policy_flags.add(command)
    command.add_argument("--once", action="store_true", help="one sweep, then end")
    command.add_argument(
        "--dry-run",
        metavar="BOOL",
        nargs="?",
        const=True,
        default=False,
        type=parse_bool,
        help="do everything but evict",
    )


def _add_where(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--kubeconfig",
        "--client-connection-kubeconfig",
        metavar="FILE",
        help="default: $KUBECONFIG, ~/.kube/config, or the pod's own account",
    )
    command.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")
    command.add_argument(
        "--journal",
        dest="journal_dir",
        metavar="DIR",
        help="the journal's folder (default: $STATE_DIRECTORY/journal,"
        " else a folder for each cluster below ~/.local/state/reactive-desched/clusters)",
    )
    command.add_argument("--journal-dir", dest="journal_dir", metavar="DIR", help=argparse.SUPPRESS)
    command.add_argument(
        "--listen", metavar="HOST:PORT", help="health, metrics, events (default 127.0.0.1:10258)"
    )
    command.add_argument(
        "--health-probe-bind-address",
        metavar="HOST:PORT",
        help="health alone, for probes (default: only at the address of --listen)",
    )


def _call(arguments: argparse.Namespace) -> int:
    from reactive_desched.app.options import Options
    from reactive_desched.cli.upstream_form import read_upstream_options

    also = read_upstream_options(arguments)
    return _run(
        Options(
            policy=arguments.policy,
            settings=arguments.settings,
            dry_run=arguments.dry_run,
            kubeconfig=arguments.kubeconfig or None,
            context=arguments.context,
            journal_dir=arguments.journal_dir,
            listen=also.listen,
            log_format=arguments.log_format,
            log_level=arguments.log_level,
            lenient=arguments.lenient_policy,
            serve_metrics=not arguments.disable_metrics,
            overrides=_overrides(arguments, also),
            warnings=also.notices,
        ),
        once=also.once,
    )


def _run(options: "Options", *, once: bool) -> int:
    if once:
        from reactive_desched.app.run_once import run as sweep

        return sweep(options)
    from reactive_desched.app.run import run

    return run(options)


def _overrides(arguments: argparse.Namespace, upstream: "UpstreamOptions") -> "FlagOverrides":
    from reactive_desched.app.overrides import FlagOverrides

    return FlagOverrides(
        node_selector=arguments.node_selector,
        requests_per_second=arguments.requests_per_second,
        burst=arguments.burst,
        health_probe_bind_address=arguments.health_probe_bind_address,
        default_listen=upstream.default_listen,
        default_journal_dir=upstream.default_journal_dir,
        old_metric_names=upstream.old_metric_names,
        leader_election=upstream.leader_election,
        traces=upstream.traces,
    )
