"""What a process that runs for months does besides: tidy up, and finish what a crash left open."""

import gc
from collections.abc import Callable

import anyio

from reactive_desched.controller.controller import Core
from reactive_desched.eviction.executor import Evictor, read_back
from reactive_desched.journal.recorder import Ledger
from reactive_desched.kube.decode.interning import SharedParts
from reactive_desched.model.outcomes import WITHHELD, EvictionRequest, Outcome
from reactive_desched.telemetry.logs import Log

SWEEP_EVERY_S, SWEEP_ENTRIES = 1.0, 2_000


async def keep_house(core: Core, shared: SharedParts, log: Log) -> None:
    """Keep the collector away from the first picture; then drop unused shared parts, for ever.

    Nothing of the picture is garbage and all of it lives long: walking it during the first sync
    would hold the loop for tens of milliseconds, again and again.
    """
    gc.disable()
    try:
        await core.started.wait()
    finally:
        gc.freeze()
        gc.enable()
    log.info("synced", **core.size())
    while True:
        await anyio.sleep(SWEEP_EVERY_S)
        shared.sweep(SWEEP_ENTRIES)


async def settle_open_intents(
    hold_back: Callable[[str | None], None], ledger: Ledger, evictor: Evictor, log: Log
) -> None:
    """End every intent that an earlier life left open, and hold back until that is done."""
    for intent in ledger.unended():
        who = intent.who
        if intent.is_dry_run:
            outcome = Outcome(WITHHELD, "a dry run that was cut short")
            await ledger.end(intent.id, outcome)
        else:
            hold_back(f"settling the eviction of {who.namespace}/{who.name}")
            request = EvictionRequest(who.namespace, who.name, who.uid)
            outcome = await read_back(evictor, request)
            await ledger.end(intent.id, outcome)
        log.info(
            "settled an open intent",
            pod=f"{who.namespace}/{who.name}",
            result=outcome.result,
            detail=outcome.detail,
        )
    hold_back(None)
