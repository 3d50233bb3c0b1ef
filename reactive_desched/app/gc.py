"""Keeps Python's garbage collector away from the cluster state."""

import ctypes
import gc
from collections.abc import Callable

import anyio

from reactive_desched.controller.controller import Controller
from reactive_desched.state.kinds.interning import InternTables

_THRESHOLDS = (3_000, 5, 40)
"""The young generations hold 3,000 and 15,000 objects: a collection takes a millisecond at most.

With Python's own 700 one eviction in two would pay for a collection. `__main__` sets a higher one,
which is for loading. All that is not frozen is collected once in 600,000 objects: that takes 2 to
20 ms with 12,000 findings that wait, and their turns, to be foreseen, need 40,000 objects.
"""

SWEEP_INTERVAL_S, SWEEP_BATCH_SIZE = 0.5, 1_000

FIRST_PASS_S = 60.0
"""So long nothing is collected for the first evaluation of everything, which takes a few seconds
at 500,000 pods; garbage in cycles is rare."""


TRIM_INTERVAL_S = 60.0
"""How often free memory is returned to the system: a millisecond, for 12 of 258 MB after a list of
150,000 pods, whose pages were read into it."""


def trim_heap() -> None:
    """Return the free pages of the C library's heap to the system, where it is glibc's.

    It keeps what is free between two blocks in use for itself, and Python returns its own alone.
    """
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


async def freeze_gc_after_sync(
    controller: Controller, interned: InternTables, trim: Callable[[], None] = trim_heap
) -> None:
    """Freeze what the initial sync allocated; then drop unused interned parts, until cancelled.

    None of the cluster state is garbage and all of it lives long: a collection during the initial
    sync would hold the event loop for tens of milliseconds, again and again. So would one later,
    over what indexes build when everything is evaluated for the first time: that is frozen, too.
    """
    gc.disable()
    try:
        await controller.readiness.synced.wait()
        if not controller.pauses.leadership.is_standby:  # which may evaluate nothing for months
            await controller.initial_sync_done.wait()
            with anyio.move_on_after(FIRST_PASS_S):  # a pause may hold it for long
                while controller.evaluator.is_resyncing:  # noqa: ASYNC110 -- nothing else asks
                    await anyio.sleep(SWEEP_INTERVAL_S)
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()
    trimmed_at = anyio.current_time()
    while True:
        await anyio.sleep(SWEEP_INTERVAL_S)
        interned.sweep(SWEEP_BATCH_SIZE)
        if (now := anyio.current_time()) - trimmed_at >= TRIM_INTERVAL_S:
            trimmed_at = now
            trim()
