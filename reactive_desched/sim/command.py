"""The `sim` command: serves a simulated cluster until it is stopped."""

import os
import secrets
import shlex
import signal
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.sim.cluster import MOST_ENDED_PODS
from reactive_desched.sim.kubeconfig_file import KubeconfigFile
from reactive_desched.sim.run import Landscape, Simulation, simulation
from reactive_desched.sim.scenarios import FRESH
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED

__all__ = ["SimulationOptions", "simulate"]

_INPUT_BYTES: Final = 65_536


class SimulationOptions(Struct, frozen=True, kw_only=True):
    """The options of the command `sim`; port 0 takes a free one."""

    nodes: int = 50
    pods: int = 1000
    seed: int = 1
    scenario: str = FRESH
    scoring: str = LEAST_ALLOCATED
    most_ended_pods: int = MOST_ENDED_PODS
    host: str = "127.0.0.1"
    port: int = 0
    kubeconfig_file: str = "sim.kubeconfig"
    until_stdin_ends: bool = False


def simulate(options: SimulationOptions) -> int:
    """Serve until SIGINT, SIGTERM or, if asked to, the end of standard input; return the status.

    Raises ConfigError when a number, the address or the kubeconfig's place makes no sense.
    """
    try:
        anyio.run(_serve_until_stopped, options)
    except ExceptionGroup as group:
        raise _cause_of(group) from group
    return 0


def _cause_of(error: Exception) -> Exception:
    """Return the single exception inside nested task groups, or the group itself."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, OSError):
        return ConfigError(f"cannot serve: {error.strerror or error}; choose another --listen")
    return error


async def _serve_until_stopped(options: SimulationOptions) -> None:
    landscape = Landscape(
        nodes=options.nodes,
        pods=options.pods,
        seed=options.seed,
        scenario=options.scenario,
        scoring=options.scoring,
        most_ended_pods=options.most_ended_pods,
        uid_salt=secrets.randbits(128),  # a controller takes no other run's journal for its own
    )
    with closing(KubeconfigFile(Path(options.kubeconfig_file))) as file:
        await _serve(landscape, options, file)


async def _serve(landscape: Landscape, options: SimulationOptions, file: KubeconfigFile) -> None:
    async with anyio.create_task_group() as tasks:
        await tasks.start(_stop_on_signal, tasks.cancel_scope)

        def announce(url: str) -> None:
            _announce(url, file)

        async with simulation(
            landscape, host=options.host, port=options.port, on_listening=announce
        ) as running:
            _say_ready(running, options)
            if not options.until_stdin_ends:
                await anyio.sleep_forever()
            await _wait_for_end_of(sys.stdin.fileno())
        tasks.cancel_scope.cancel()


async def _stop_on_signal(
    work: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            work.cancel()
            return


async def _wait_for_end_of(descriptor: int) -> None:
    """Read and discard input to its end: a pipe's comes when the last writer closes it or dies."""
    while True:
        with suppress(PermissionError):  # what epoll says of a file, which can always be read
            await anyio.wait_readable(descriptor)
        if not os.read(descriptor, _INPUT_BYTES):
            return


def _announce(url: str, file: KubeconfigFile) -> None:
    """Write the kubeconfig and say where the server is: clients may connect, and wait."""
    file.write(url)
    _print(
        url,
        "making the cluster: clients may connect, and wait",
        f"export KUBECONFIG={shlex.quote(str(file.path.absolute()))}",
    )


def _say_ready(running: Simulation, options: SimulationOptions) -> None:
    nodes, pods = (len(running.store.list(resource)) for resource in ("nodes", "pods"))
    what = f"scenario {options.scenario}, seed {options.seed}, {nodes} nodes, {pods} pods"
    if options.scenario != FRESH and pods > options.pods:
        what += f" ({pods - options.pods} of them for the scenario)"
    _print(f"ready: {what}; try: kubectl get nodes")


def _print(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
