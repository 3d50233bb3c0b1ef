"""Runs tasks for as long as the configuration asks for them; a reload begins others."""

from collections.abc import Callable, Coroutine
from typing import Any, Final

import anyio

from reactive_desched.kube.client.clock import Clock

CHECK_INTERVAL_S: Final = 1.0
"""How soon tasks follow a reload."""


Task = Callable[[], Coroutine[Any, Any, None]]  # Any: what an event loop exchanges with it


async def run_while(holds: Callable[[], bool], clock: Clock, *tasks: Task) -> None:
    """Run tasks while a condition holds, and cancel them once it does not."""
    async with anyio.create_task_group() as group:
        for each in tasks:
            group.start_soon(each)
        while holds():
            await clock.sleep(CHECK_INTERVAL_S)
        group.cancel_scope.cancel()
