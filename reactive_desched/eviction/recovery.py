"""Finds the outcome of evictions that an earlier process left open: read each pod, then record."""

from collections.abc import Mapping

import anyio
from msgspec import Struct

from reactive_desched.eviction.client import EvictionClient
from reactive_desched.eviction.executor import confirm_by_reading, read_outcome
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


class InheritedEvictions(Struct, frozen=True):
    """Evictions of an earlier process: those whose outcome is known, by pod, and the others.

    A pod of `pending` still exists, and the earlier process's request may yet evict it.
    """

    outcomes: Mapping[PodKey, Outcome]
    pending: tuple[OpenIntent, ...]


async def read_open_intents(
    recorder: JournalRecorder, evictor: EvictionClient, log: Logger
) -> InheritedEvictions:
    """Read the pod of every intent that an earlier process left open; end those it decides."""
    outcomes, pending = {}, []
    for intent in recorder.open_intents():
        if intent.is_dry_run:
            outcome = DRY_RUN_INTERRUPTED.outcome("the dry run was interrupted")
            await _end_intent(intent, outcome, recorder, log)
            continue
        outcome = await read_outcome(evictor, _request(intent))
        if outcome.result == FAILED:
            pending.append(intent)
        else:
            await _end_intent(intent, outcome, recorder, log)
            outcomes[intent.who.uid] = outcome
    return InheritedEvictions(outcomes, tuple(pending))


async def end_pending_intent(
    intent: OpenIntent,
    recorder: JournalRecorder,
    evictor: EvictionClient,
    log: Logger,
    deadline: float,
) -> Outcome:
    """End an intent as its pod shows by `deadline` (event loop's clock), and return the outcome.

    The wall clock may have been set since the request was sent, so it does not count.
    """
    outcome = await confirm_by_reading(evictor, _request(intent), deadline)
    await _end_intent(intent, outcome, recorder, log)
    return outcome


async def resolve_open_intents(
    recorder: JournalRecorder, evictor: EvictionClient, log: Logger
) -> None:
    """End every intent that an earlier process left open, one way or the other."""
    deadline = anyio.current_time() + evictor.effect_timeout_s
    inherited = await read_open_intents(recorder, evictor, log)
    async with anyio.create_task_group() as group:
        for intent in inherited.pending:
            group.start_soon(end_pending_intent, intent, recorder, evictor, log, deadline)


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


def _request(intent: OpenIntent) -> EvictionRequest:
    """Return the request as the record has it: it was sent then, or a moment later."""
    who = intent.who
    return EvictionRequest(
        who.namespace, who.name, who.uid, options=intent.options, sent=intent.sent
    )
