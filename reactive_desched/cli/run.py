"""`run`: the controller."""

import argparse

from reactive_desched.cli.commands import Commands


def add(commands: Commands) -> None:
    """Describe `run` to the parser."""
    command = commands.add_parser("run", help="watch a cluster and evict what should move")
    command.description = "Watch a cluster, react to its changes, evict at a safe pace."
    command.add_argument(
        "--policy",
        metavar="FILE",
        required=True,
        help="a DeschedulerPolicy (descheduler/v1alpha2); may also hold a ReactiveSettings",
    )
    command.add_argument("--settings", metavar="FILE", help="a ReactiveSettings file")
    command.add_argument("--dry-run", action="store_true", help="do everything but evict")
    command.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="default: $KUBECONFIG, ~/.kube/config, or the pod's own account",
    )
    command.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")
    command.add_argument(
        "--journal-dir", metavar="DIR", help="where intents and outcomes are written down"
    )
    command.add_argument(
        "--listen", metavar="HOST:PORT", help="health and metrics (default 127.0.0.1:10258)"
    )
    command.add_argument("--log-format", choices=["console", "json"])
    command.add_argument("--log-level", choices=["debug", "info", "warning", "error"])
    command.set_defaults(command=_call)


def _call(arguments: argparse.Namespace) -> int:
    from reactive_desched.app import Options, run

    return run(
        Options(
            policy=arguments.policy,
            settings=arguments.settings,
            dry_run=arguments.dry_run,
            kubeconfig=arguments.kubeconfig,
            context=arguments.context,
            journal_dir=arguments.journal_dir,
            listen=arguments.listen,
            log_format=arguments.log_format,
            log_level=arguments.log_level,
        )
    )
