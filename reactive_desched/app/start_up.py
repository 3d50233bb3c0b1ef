"""What a controller does before its first eviction: learn what became of the last run's."""

import anyio

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.readiness import STARTUP
from reactive_desched.eviction.executor import Evictor
from reactive_desched.eviction.recovery import end_pending_intent, read_open_intents
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.journal.recovery import OpenIntent
from reactive_desched.telemetry.logs import Logger


async def end_startup_pause(
    controller: Controller,
    recorder: JournalRecorder,
    evictor: Evictor,
    log: Logger,
    effect_timeout_s: float,
) -> None:
    """End the startup pause once each pod of the last run's open intents was read.

    A pod that still exists may be evicted by that run's request for `effect_timeout_s` from now;
    other pods are evaluated meanwhile.
    """
    deadline = anyio.current_time() + effect_timeout_s
    if recorder.open_intents():
        controller.readiness.pause(STARTUP, "resolving the evictions that the last run left open")
    inherited = await read_open_intents(recorder, evictor, log)
    for pod, outcome in inherited.outcomes.items():
        controller.end_inherited_eviction(pod, outcome)
    for intent in inherited.pending:
        controller.inherit_eviction(intent.who.uid)
    controller.readiness.resume(STARTUP)

    async def end(intent: OpenIntent) -> None:
        outcome = await end_pending_intent(intent, recorder, evictor, log, deadline)
        controller.end_inherited_eviction(intent.who.uid, outcome)

    if pending := inherited.pending:
        message = "waiting for eviction requests of an earlier process"
        log.info(message, pods=len(pending), duration_s=effect_timeout_s)
    async with anyio.create_task_group() as group:
        for intent in inherited.pending:
            group.start_soon(end, intent)
