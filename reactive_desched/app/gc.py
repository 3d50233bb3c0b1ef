"""Keeps Python's garbage collector away from the cluster state."""

import gc

import anyio

from reactive_desched.controller.controller import Controller
from reactive_desched.state.kinds.interning import InternTables

_THRESHOLDS = (3_000, 5, 10)
"""The young generations hold 3,000 and 15,000 objects: a collection takes a millisecond at most.

With Python's own 700 one eviction in two would pay for a collection. `__main__` sets a higher one,
which is for loading.
"""

SWEEP_INTERVAL_S, SWEEP_BATCH_SIZE = 1.0, 2_000


async def freeze_gc_after_sync(controller: Controller, interned: InternTables) -> None:
    """Freeze what the initial sync allocated; then drop unused interned parts, until cancelled.

    None of the cluster state is garbage and all of it lives long: a collection during the initial
    sync would hold the event loop for tens of milliseconds, again and again.
    """
    gc.disable()
    try:
        await controller.readiness.synced.wait()
        if not controller.pauses.leadership.is_standby:  # which may evaluate nothing for months
            await controller.initial_sync_done.wait()
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()
    while True:
        await anyio.sleep(SWEEP_INTERVAL_S)
        interned.sweep(SWEEP_BATCH_SIZE)
