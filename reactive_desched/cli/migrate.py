"""`migrate`: makes migration jobs, by which a controller moves pods; pauses or aborts them."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reactive_desched.cli import flag_values
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.pause import add_person, person
from reactive_desched.errors import ConfigError
from reactive_desched.primitives.hints import quote

if TYPE_CHECKING:
    from reactive_desched.model.migration_jobs import PodReference

DEFAULT_TTL_S = 300.0
_CHANGES = {"abort": "abort", "pause": "pause", "resume": "let go on the paused"}


def add(commands: Commands) -> None:
    """Describe `migrate` to the parser."""
    command = commands.add_parser("migrate", help="have a controller move pods by migration jobs")
    command.describe(
        "Make one PodMigrationJob for each pod, in the cluster of the kubeconfig: a controller "
        "whose settings have `migration` evicts the pod as soon as arbitration and every gate let "
        "it go. With --abort, --pause and --resume the words are jobs: those whose pod was not "
        "evicted yet end, wait, or go on. The time to live of a job that is paused goes on.",
        epilog="exit status: 0 done, 1 the API server does not answer or refuses, 2 a wrong "
        "argument, or there is no such pod, and no job is made",
        examples=(
            "reactive-desched migrate -n shop web-0 web-1",
            "reactive-desched migrate shop/web-0 --ttl 1h --reason 'noisy neighbour'",
            "reactive-desched migrate shop/web-0 --mode ReservationFirst",
            "reactive-desched migrate --abort migrate-web-0-x7k2p",
            "reactive-desched migrate --pause migrate-web-0-x7k2p",
        ),
    )
    _add_arguments(command)
    command.set_defaults(command=_call)


def _add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("names", nargs="+", metavar="POD", help="NAME or NAMESPACE/NAME of a pod")
    command.add_argument(
        "-n",
        "--namespace",
        default="default",
        help="of pods without one (default: default)",
    )
    command.add_argument(
        "--ttl",
        dest="ttl_s",
        metavar="DURATION",
        type=flag_values.parse_positive_duration,
        default=DEFAULT_TTL_S,
        help="fail a job that has not ended after this (default: 5m)",
    )
    command.add_argument(
        "--mode",
        choices=["EvictDirectly", "ReservationFirst"],
        default="",
        help="ReservationFirst: keep a place for the replacement first (default: as the settings "
        "of the controller say)",
    )
    change = command.add_mutually_exclusive_group()
    for verb, words in _CHANGES.items():
        change.add_argument(
            f"--{verb}",
            dest="change",
            action="store_const",
            const=verb,
            help=f"{words} jobs of these names instead",
        )
    command.add_argument("--kubeconfig", metavar="FILE", help="default: as kubectl finds it")
    command.add_argument("--context", metavar="NAME", help="of the kubeconfig (default: its own)")
    add_person(command)


def _call(arguments: argparse.Namespace) -> int:
    import anyio

    anyio.run(_change if arguments.change else _migrate, arguments)
    return 0


def _pods(names: Sequence[str], namespace: str) -> "list[PodReference]":
    """Return the pods that words name; raises ConfigError for a word that is no name."""
    from reactive_desched.model.migration_jobs import PodReference

    found = []
    for word in names:
        before, slash, name = word.rpartition("/")
        if not name or "/" in before or (slash and not before):
            raise ConfigError(f"{quote(word)} is no pod: write NAME or NAMESPACE/NAME")
        found.append(PodReference(before or namespace, name))
    return found


async def _migrate(arguments: argparse.Namespace) -> None:
    from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions
    from reactive_desched.kube.client.migration_jobs import (
        create_job,
        job_name,
        new_job,
        pod_exists,
    )
    from reactive_desched.kube.client.session import open_session
    from reactive_desched.model.migration_jobs import EVICT_REASON, EVICT_TRIGGER

    who = person(arguments)
    annotations = {EVICT_TRIGGER: who["by"], EVICT_REASON: who["reason"] or "asked for by hand"}
    pods = _pods(arguments.names, arguments.namespace)
    async with open_session(KubeConfigOptions(arguments.kubeconfig, arguments.context)) as session:
        for pod in pods:
            if not await pod_exists(session, pod):
                raise ConfigError(
                    f"there is no pod {quote(str(pod))}, so no job is made; `kubectl get pods -n"
                    f" {pod.namespace}` lists them"
                )
        for pod in pods:
            body = new_job("", pod, arguments.mode, arguments.ttl_s, annotations)
            name = job_name(await create_job(session, body))
            sys.stdout.write(f"podmigrationjob {name} is made for {pod}\n")


async def _change(arguments: argparse.Namespace) -> None:
    from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions
    from reactive_desched.kube.client.migration_jobs import abort_job, pause_job
    from reactive_desched.kube.client.session import open_session

    async with open_session(KubeConfigOptions(arguments.kubeconfig, arguments.context)) as session:
        for name in arguments.names:
            if arguments.change == "abort":
                await abort_job(session, name)
                sys.stdout.write(f"podmigrationjob {name} is to be aborted\n")
            else:
                await pause_job(session, name, paused=arguments.change == "pause")
                now = "is paused" if arguments.change == "pause" else "goes on"
                sys.stdout.write(f"podmigrationjob {name} {now}\n")
