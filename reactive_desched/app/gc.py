"""Keeps the garbage collector away from the cluster state, and returns free memory."""

import ctypes
import gc
from collections.abc import Callable
from typing import Final

import anyio

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.worker import Worker
from reactive_desched.state.kinds.interning import InternTables

_THRESHOLDS = (3_000, 2, 240)
"""The young generations hold 3,000 and 9,000 objects: a collection takes a millisecond at most, and
with cold caches two: it took three with 18,000, at 500,000 pods.

With Python's own 700 one eviction in two would pay for a collection. `__main__` sets a higher one,
which is for loading. All that is not frozen is collected once in a million objects at the most:
that takes 2 to 20 ms with 12,000 findings that wait, as those and their turns are many objects.
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


LARGE_BLOCK_BYTES: Final = 2**19
"""Blocks of this size lie outside the C library's heaps: 512 KiB.

A list is read in blocks of 256 KiB, which its heap has again for the next ones. Each of them cost
64 page faults where it lay outside: the kernel clears what it gives out, and a further list of all
pods took 1.5 times the processor time.
"""

KEPT_AT_END_BYTES: Final = 2 * LARGE_BLOCK_BYTES
"""So much may be free at the end of a heap before that is returned to the system: a mebibyte.

Three blocks of 256 KiB lie there while a watch is read. With half as much the kernel took them back
and cleared new ones for each read: two page faults and a tenth of the time of a watch event.
"""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def keep_large_blocks_apart() -> None:
    """Return large blocks to the system as they are freed, where the C library is glibc.

    It raises its threshold by itself to the largest block that was freed: a page of a list, 5 MB.
    From then on the heap of each thread that had a large block keeps as much, up to twice that
    size, which `trim_heap` does not reach: 3.4 MB in each of some threads were measured.
    In the first sync it is of use: pages are read into memory that is there.
    """
    if (set_option := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        set_option(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        set_option(_M_TRIM_THRESHOLD, KEPT_AT_END_BYTES)


STEPS_PER_COLLECTION: Final = 60
"""After so many steps of the controller the young objects are collected: each stands for a
decision, of which some 20 objects are kept, or for a few dozen turns."""

_MIDDLE_EVERY: Final = 3


class YoungObjects:
    """Collects the objects that evaluations make while these are few.

    Python counts what is made less what is freed, and where each decision replaces the one before
    it that is nothing (ADR 249): with 10,000 findings that wait, the young generations grew to
    85,000 objects before they were collected, which held the event loop for tens of milliseconds.
    """

    def __init__(self, collect: Callable[[int], object] = gc.collect) -> None:
        self._collect = collect
        self._steps = self._collections = 0

    def worked(self, now: float, ended_after: int | None) -> None:
        """Count a time slice of the worker; collect after some."""
        del now
        self._steps += ended_after or 1
        if self._steps >= STEPS_PER_COLLECTION and gc.isenabled():
            self._steps = 0
            self._collections += 1
            self._collect(0 if self._collections % _MIDDLE_EVERY else 1)


def _looked(now: float) -> None:
    """Do nothing where nothing was due."""


async def keep_young_objects_few(worker: Worker) -> None:
    """Collect what evaluations make, until cancelled."""
    with worker.followed_by(YoungObjects().worked, _looked):
        await anyio.sleep_forever()


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
                while controller.evaluator.queue.is_resyncing:  # noqa: ASYNC110 -- nothing else asks
                    await anyio.sleep(SWEEP_INTERVAL_S)
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()
        keep_large_blocks_apart()
    trimmed_at = anyio.current_time()
    while True:
        await anyio.sleep(SWEEP_INTERVAL_S)
        interned.sweep(SWEEP_BATCH_SIZE)
        if (now := anyio.current_time()) - trimmed_at >= TRIM_INTERVAL_S:
            trimmed_at = now
            trim()
