"""`run`: the controller until a signal stops it."""

import signal
from importlib.util import find_spec
from typing import Any

import anyio
from anyio.abc import TaskStatus

from reactive_desched.app.controller import open_controller
from reactive_desched.app.options import Dependencies, Options, load_dependencies
from reactive_desched.app.plugin_watchdog import PluginWatchdog
from reactive_desched.controller.public_state import ControllerState
from reactive_desched.primitives.foreign_code import interrupts_received
from reactive_desched.primitives.hung_calls import hung_calls_ended


def has_uvloop() -> bool:
    """Say whether uvloop is installed; some platforms have none."""
    return find_spec("uvloop") is not None


def loop_options() -> dict[str, Any]:
    """Return the `backend_options` of anyio that choose uvloop where there is one."""
    return {"use_uvloop": has_uvloop()}


def run(options: Options) -> int:
    """Run the controller until SIGTERM or SIGINT; return the exit status."""
    with hung_calls_ended():  # a plugin's module, or its constructor
        deps = load_dependencies(options)
    if not has_uvloop():
        deps.log.info("uvloop is not installed: events and evictions cost more CPU")
    anyio.run(_until_stopped, deps, backend_options=loop_options())
    return 0


async def _until_stopped(deps: Dependencies) -> None:
    """Serve until a signal arrives; one that arrives during the start cancels the start."""
    is_serving, stop_requested = anyio.Event(), anyio.Event()

    async def listen(*, task_status: TaskStatus[None]) -> None:
        receiver = anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT)
        with interrupts_received(), receiver as signals:
            task_status.started()
            async for number in signals:
                deps.log.info(
                    "the controller is stopping",
                    state=ControllerState.STOPPING,
                    signal=signal.Signals(number).name,
                )
                stop_requested.set()
                if not is_serving.is_set():
                    tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        await tasks.start(listen)
        tasks.start_soon(PluginWatchdog().run)
        async with open_controller(deps):
            is_serving.set()
            await stop_requested.wait()
        tasks.cancel_scope.cancel()
