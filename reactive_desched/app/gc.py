"""What a process that runs for months does besides: tidy up, and finish what a crash left open."""

import gc
from collections.abc import Callable

import anyio

from reactive_desched.controller.controller import Controller
from reactive_desched.eviction.executor import Evictor, confirm_by_reading
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.model.outcomes import DRY_RUN_INTERRUPTED, EvictionRequest
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.telemetry.logs import Logger

_THRESHOLDS = (700, 10, 10)
"""Python's own: often and little. `__main__` sets a higher one, which is for loading."""

SWEEP_INTERVAL_S, SWEEP_BATCH_SIZE = 1.0, 2_000


async def freeze_gc_after_sync(controller: Controller, interned: InternTables, log: Logger) -> None:
    """Keep the collector away from the first picture; then drop unused shared parts, for ever.

    Nothing of the picture is garbage and all of it lives long: walking it during the first sync
    would hold the loop for tens of milliseconds, again and again.
    """
    gc.disable()
    try:
        await controller.initial_sync_done.wait()
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()
    log.info("synced", **controller.size())
    while True:
        await anyio.sleep(SWEEP_INTERVAL_S)
        interned.sweep(SWEEP_BATCH_SIZE)


async def resolve_open_intents(
    set_paused: Callable[[str | None], None],
    recorder: JournalRecorder,
    evictor: Evictor,
    log: Logger,
) -> None:
    """End every intent that an earlier life left open, and hold back until that is done."""
    for intent in recorder.open_intents():
        pod = intent.who
        if intent.is_dry_run:
            outcome = DRY_RUN_INTERRUPTED.outcome("the dry run was interrupted")
            await recorder.record_outcome(intent.id, outcome)
        else:
            set_paused(f"settling the eviction of {pod.namespace}/{pod.name}")
            request = EvictionRequest(pod.namespace, pod.name, pod.uid)
            outcome = await confirm_by_reading(evictor, request)
            await recorder.record_outcome(intent.id, outcome)
        log.info(
            "settled an open intent",
            pod=f"{pod.namespace}/{pod.name}",
            result=outcome.result,
            reason=outcome.reason,
            message=outcome.message,
        )
    set_paused(None)
