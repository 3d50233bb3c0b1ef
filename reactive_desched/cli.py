"""From argv to a running program; commands load what they need only when they are called.

Exit status: 0 done, 1 failed, 2 something a person wrote is wrong.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from reactive_desched._version import __version__
from reactive_desched.errors import ConfigError, ReactiveDeschedError

FAILED, WRONG_INPUT = 1, 2
_EPILOG = "exit status: 0 done, 1 failed, 2 something a person wrote is wrong"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except ReactiveDeschedError as error:
        return _explain(error)
    except ExceptionGroup as group:
        if (ours := group.subgroup(ReactiveDeschedError)) is None:
            raise
        return _explain(_first(ours))
    except KeyboardInterrupt:
        return FAILED


def _explain(error: BaseException) -> int:
    """Say what went wrong on stderr and return the exit status."""
    if isinstance(error, ConfigError):
        sys.stderr.write(f"{error}\n")
        return WRONG_INPUT
    sys.stderr.write(f"reactive-desched: {error}\n")
    return FAILED


def _first(group: ExceptionGroup[Exception]) -> Exception:
    """Return the first plain error of a group."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


def parser() -> argparse.ArgumentParser:
    """Describe every command and flag."""
    top = argparse.ArgumentParser(
        prog="reactive-desched",
        description="A descheduler for Kubernetes that reacts to changes instead of polling.",
        epilog=_EPILOG,
    )
    top.add_argument("--version", action="version", version=f"reactive-desched {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _run(commands.add_parser("run", help="watch a cluster and evict what should move"))
    _demo(commands.add_parser("demo", help="the same controller on a simulated, scripted day"))
    _sim(commands.add_parser("sim", help="serve a simulated cluster for kubectl and others"))
    return top


def _run(command: argparse.ArgumentParser) -> None:
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
    command.set_defaults(command=_call_run)


def _demo(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Start a simulated cluster on loopback, run the controller against it over HTTP, and play "
        "a scripted day in under a minute. Exit status 0 only if what should move did move."
    )
    command.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="health and metrics of the controller",
    )
    command.set_defaults(command=_call_demo)


def _sim(command: argparse.ArgumentParser) -> None:
    command.description = "Serve a simulated cluster that kubectl and other clients can work on."
    command.add_argument("--nodes", type=int, default=50, metavar="N")
    command.add_argument("--pods", type=int, default=1000, metavar="N")
    command.add_argument("--seed", type=int, default=1, metavar="N", help="what chance decides")
    command.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:0")
    command.add_argument(
        "--write-kubeconfig", metavar="FILE", help="write a kubeconfig for the server here"
    )
    command.set_defaults(command=_call_sim)


def _call_run(arguments: argparse.Namespace) -> int:
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


def _call_demo(arguments: argparse.Namespace) -> int:
    from reactive_desched.demo import play

    return play(arguments.listen)


def _call_sim(arguments: argparse.Namespace) -> int:
    from reactive_desched.model.addresses import parse_listen
    from reactive_desched.sim.command import SimulationOptions, simulate

    host, port = parse_listen(arguments.listen)
    return simulate(
        SimulationOptions(
            nodes=arguments.nodes,
            pods=arguments.pods,
            seed=arguments.seed,
            host=host,
            port=port,
            kubeconfig_file=arguments.write_kubeconfig,
        )
    )
