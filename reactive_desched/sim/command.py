"""The `sim` command: serves a simulated cluster until it is stopped."""

import signal
import sys
from pathlib import Path

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.sim.run import Landscape, Simulation, simulation

__all__ = ["SimulationOptions", "simulate"]


class SimulationOptions(Struct, frozen=True, kw_only=True):
    """What a person asks of the command; port 0 takes a free one."""

    nodes: int = 50
    pods: int = 1000
    seed: int = 1
    host: str = "127.0.0.1"
    port: int = 0
    kubeconfig_file: str | None = None


def simulate(options: SimulationOptions) -> int:
    """Serve until SIGINT or SIGTERM and return the exit status.

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
    landscape = Landscape(nodes=options.nodes, pods=options.pods, seed=options.seed)
    async with anyio.create_task_group() as tasks:
        await tasks.start(_stop_on_signal, tasks.cancel_scope)
        async with simulation(landscape, host=options.host, port=options.port) as running:
            _announce(running, options)
            await anyio.sleep_forever()


async def _stop_on_signal(
    work: anyio.CancelScope, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            work.cancel()
            return


def _announce(running: Simulation, options: SimulationOptions) -> None:
    """Write the kubeconfig if asked, then print the server's URL: clients may start."""
    how = f"kubectl -s {running.url}"
    if options.kubeconfig_file is not None:
        how = f"kubectl --kubeconfig {options.kubeconfig_file}"
        try:
            Path(options.kubeconfig_file).write_text(running.kubeconfig, encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"cannot write the kubeconfig to {options.kubeconfig_file}: {error.strerror}"
            ) from error
    sys.stdout.write(
        f"{running.url}\n{options.nodes} nodes, about {options.pods} pods, seed {options.seed}; "
        f"try: {how} get nodes\n"
    )
    sys.stdout.flush()
