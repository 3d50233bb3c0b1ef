"""Finds the outcome of evictions that an earlier process left open: read each pod, then record."""

from collections.abc import Callable

import anyio

from reactive_desched.api.event import Who
from reactive_desched.eviction.executor import Evictor, confirm_by_reading, read_outcome
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.journal.recovery import OpenIntent
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import (
    DRY_RUN_INTERRUPTED,
    FAILED,
    EvictionRequest,
    Outcome,
)
from reactive_desched.telemetry.logs import Logger


async def resolve_open_intents(
    set_paused: Callable[[str | None], None],
    recorder: JournalRecorder,
    evictor: Evictor,
    log: Logger,
    effect_timeout_s: float,
    *,
    on_inherited: Callable[[PodKey], None] = lambda _pod: None,
    on_outcome: Callable[[PodKey, Outcome], None] = lambda _pod, _outcome: None,
) -> None:
    """End every intent that an earlier process left open; pause until each pod was read.

    A pod that still exists may be evicted by the earlier process's request for `effect_timeout_s`
    from now: the wall clock may have been set since, and does not count. `on_inherited` is called
    for each such pod, and other pods are evaluated meanwhile; `on_outcome` gets each pod's outcome.
    """
    deadline = anyio.current_time() + effect_timeout_s
    pending = []
    for intent in recorder.open_intents():
        pod = intent.who
        if intent.is_dry_run:
            outcome = DRY_RUN_INTERRUPTED.outcome("the dry run was interrupted")
            await _end_intent(intent, outcome, recorder, log)
            continue
        set_paused(f"settling the eviction of {pod.namespace}/{pod.name}")
        outcome = await read_outcome(evictor, _request(pod))
        if outcome.result == FAILED:
            on_inherited(pod.uid)
            pending.append(intent)
        else:
            await _end_intent(intent, outcome, recorder, log)
            on_outcome(pod.uid, outcome)
    set_paused(None)
    if pending:
        log.info(
            "waiting for eviction requests of an earlier process",
            pods=len(pending),
            duration_s=effect_timeout_s,
        )

    async def end_pending(intent: OpenIntent) -> None:
        outcome = await confirm_by_reading(evictor, _request(intent.who), deadline)
        await _end_intent(intent, outcome, recorder, log)
        on_outcome(intent.who.uid, outcome)

    async with anyio.create_task_group() as group:
        for intent in pending:
            group.start_soon(end_pending, intent)


async def _end_intent(
    intent: OpenIntent, outcome: Outcome, recorder: JournalRecorder, log: Logger
) -> None:
    await recorder.record_outcome(intent.id, outcome)
    log.info(
        "resolved an open intent",
        pod=f"{intent.who.namespace}/{intent.who.name}",
        result=outcome.result,
        reason=outcome.reason,
        message=outcome.message,
    )


def _request(pod: Who) -> EvictionRequest:
    return EvictionRequest(pod.namespace, pod.name, pod.uid)
