"""Executes evictions: journaled first, sent once, ended exactly once."""

from collections.abc import Callable
from typing import Final

import anyio

from reactive_desched.errors import ClusterError, JournalError, RecordUnwritable
from reactive_desched.eviction.client import EvictionClient, IntentOwner
from reactive_desched.eviction.dry_run import DryRunEvictor
from reactive_desched.eviction.recorder import Recorder
from reactive_desched.model.evaluation import EvictionResult, Intent
from reactive_desched.model.outcomes import (
    FAILED,
    JOURNAL_UNAVAILABLE,
    RECORD_UNWRITABLE,
    SHUTTING_DOWN,
    EffectUnknown,
    EvictionRequest,
    Outcome,
    outcome_from_response,
)
from reactive_desched.model.read_back import outcome_from_lookup

INITIAL_READ_BACKOFF_S, MAX_READ_BACKOFF_S = 1.0, 30.0
"""The first wait between two reads of a pod after a request of unknown effect, and the longest."""

_OBSERVING: Final = DryRunEvictor()


class EvictionExecutor:
    """Executes one eviction: journal the intent, call the API, journal the outcome.

    Intents that are only observed are answered by `observing`, which sends nothing.
    """

    def __init__(
        self,
        recorder: Recorder,
        evictor: EvictionClient,
        clock: Callable[[], float],
        observing: DryRunEvictor = _OBSERVING,
    ) -> None:
        self._observing = observing
        self._recorder = recorder
        self._evictor = evictor
        self._clock = clock

    async def execute(self, intent: Intent, owner: IntentOwner) -> EvictionResult:
        """Journal the intent, send the eviction request, and journal the outcome.

        Its `owner` is asked before each of the first two steps whether it is cancelled: the first
        time when the state shows what happened before the decision, which is not waited for where
        it is cancelled already. Else those that waited for their turn too long would hold up all
        behind them until those have, too.
        """
        if (outcome := owner.cancelled(intent)) is None:
            if await self._evictor.caught_up():
                owner.caught_up(intent)
            outcome = owner.cancelled(intent)
        if outcome is not None:
            return EvictionResult(intent, outcome, self._clock())
        try:
            intent_id = await self._recorder.record_intent(intent)
        except JournalError as error:
            reason = (
                RECORD_UNWRITABLE if isinstance(error, RecordUnwritable) else JOURNAL_UNAVAILABLE
            )
            return EvictionResult(intent, reason.outcome(str(error)), self._clock())
        sent_at, request = self._clock(), self._request(intent, self._recorder.case_of(intent_id))
        owner.requested(intent, intent_id, sent_at)
        evictor = self._observing if intent.is_observed else self._evictor
        outcome = owner.cancelled(intent) or await _outcome(evictor, request, intent, owner)
        await self._recorder.record_outcome(intent_id, outcome)
        return EvictionResult(intent, outcome, sent_at, intent_id, request.sent)

    def shutting_down(self, intent: Intent) -> EvictionResult:
        """Return the end of an intent that arrives after the shutdown."""
        outcome = SHUTTING_DOWN.outcome("the controller stops")
        return EvictionResult(intent, outcome, self._clock())

    def _request(self, intent: Intent, case: str) -> EvictionRequest:
        """Return the request of an intent of this case, as it is sent now."""
        pod, sent = intent.pod, self._evictor.now()
        reason = f"{intent.context.profile}/{intent.plugin}: {intent.message}"
        return EvictionRequest(pod.namespace, pod.name, pod.uid, reason, intent.options, sent, case)


async def _outcome(
    evictor: EvictionClient, request: EvictionRequest, intent: Intent, owner: IntentOwner
) -> Outcome:
    """Return what the response says of the pod, or what the pod shows where it says nothing."""
    response = await evictor.evict(request)
    if (outcome := outcome_from_response(response)) is not None:
        return outcome
    assert isinstance(response, EffectUnknown), "any other answer has an outcome"
    owner.effect_unknown(intent, response.error, evictor.effect_timeout_s)
    deadline = anyio.current_time() + evictor.effect_timeout_s
    return await confirm_by_reading(evictor, request, deadline)


async def confirm_by_reading(
    evictor: EvictionClient, request: EvictionRequest, deadline: float
) -> Outcome:
    """Find out what a call of unknown effect did.

    A pod that is still there proves nothing before `deadline`, by the event loop's clock: a proxy
    may hold the request. Until then the pod is read again and again.
    """
    wait_s = INITIAL_READ_BACKOFF_S
    while True:
        began = anyio.current_time()
        outcome = await read_outcome(evictor, request)
        if outcome.result != FAILED or began >= deadline:
            return outcome
        await anyio.sleep(min(wait_s, max(0.0, deadline - anyio.current_time())))
        wait_s = min(MAX_READ_BACKOFF_S, wait_s * 2)


async def read_outcome(evictor: EvictionClient, request: EvictionRequest) -> Outcome:
    """Return the outcome that the pod shows now; keeps trying until the pod can be read."""
    wait_s = INITIAL_READ_BACKOFF_S
    while True:
        try:
            lookup = await evictor.get_pod(request.namespace, request.name)
        except ClusterError:
            await anyio.sleep(wait_s)
            wait_s = min(MAX_READ_BACKOFF_S, wait_s * 2)
        else:
            return outcome_from_lookup(request, lookup, evictor.effect_timeout_s)
