"""Carries out evictions: written down first, asked for once, ended exactly once."""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Protocol

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from reactive_desched.errors import ClusterError, JournalError
from reactive_desched.model.intents import Intent
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import (
    EVICTIONS_PAUSED,
    FAILED,
    JOURNAL_UNAVAILABLE,
    SHUTTING_DOWN,
    EvictionRequest,
    EvictionResponse,
    Outcome,
    PodLookup,
    outcome_from_lookup,
    outcome_from_response,
)

INITIAL_READ_BACKOFF_S, MAX_READ_BACKOFF_S = 1.0, 30.0
"""How soon a pod is read after a call of unknown effect, and how rarely at most."""

WEBHOOK_TIMEOUT_S = 30.0
"""So long after its time limit a request may still be carried out: a webhook has 30 s at most."""

EFFECT_TIMEOUT_S = 60.0 + WEBHOOK_TIMEOUT_S
"""So long after a call of unknown effect it may still take effect, by the usual time limit."""


def effect_timeout(request_timeout_s: float) -> float:
    """Return how long after a request of unknown effect the request may still evict the pod."""
    return request_timeout_s + WEBHOOK_TIMEOUT_S


class Evictor(Protocol):
    """Asks for one eviction, once, and never raises; reads a pod back when asked."""

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Ask the API server to evict the pod."""
        ...

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Read who bears this name now; raises ClusterError when that cannot be found out."""
        ...


class IntentStore(Protocol):
    """The durable record of intents and their ends."""

    async def begin_intent(self, intent: Intent) -> str:
        """Return the intent's id once it is on disk; raises JournalError when it cannot be."""
        ...

    async def record_outcome(self, intent_id: str, outcome: Outcome) -> None:
        """Return once the outcome is on disk."""
        ...


OnOutcome = Callable[[Intent, Outcome, float], None]
"""Told the intent, its outcome, and when the API server was asked (or would have been)."""


class EvictionExecutor:
    """What one eviction takes: where it is written down, who asks for it, and what time it is.

    `effect_timeout_s` is how long after a call of unknown effect the call may still evict the pod.
    """

    def __init__(
        self,
        intents: IntentStore,
        evictor: Evictor,
        clock: Callable[[], float],
        *,
        effect_timeout_s: float = EFFECT_TIMEOUT_S,
    ) -> None:
        self._intents = intents
        self._evictor = evictor
        self._clock = clock
        self._effect_timeout_s = effect_timeout_s

    async def execute(
        self, intent: Intent, cancel_reason: Callable[[], str | None]
    ) -> tuple[Outcome, float]:
        """Write an intent down, ask for the eviction, and write down what came of it.

        `why_not` is asked before each of these steps. Returns the outcome, and when the API server
        was asked (or would have been).
        """
        if (reason := cancel_reason()) is not None:
            return EVICTIONS_PAUSED.outcome(reason), self._clock()
        try:
            intent_id = await self._intents.begin_intent(intent)
        except JournalError as error:
            return JOURNAL_UNAVAILABLE.outcome(str(error)), self._clock()
        sent_at = self._clock()
        outcome = await self._send(intent, cancel_reason)
        await self._intents.record_outcome(intent_id, outcome)
        return outcome, sent_at

    async def _send(self, intent: Intent, cancel_reason: Callable[[], str | None]) -> Outcome:
        """Call the API server, unless things changed while the intent was being written."""
        if (reason := cancel_reason()) is not None:
            return EVICTIONS_PAUSED.outcome(reason)
        request = _request(intent)
        response = await self._evictor.evict(request)
        if (outcome := outcome_from_response(response)) is not None:
            return outcome
        deadline = anyio.current_time() + self._effect_timeout_s
        return await confirm_by_reading(self._evictor, request, deadline)


class EvictionPool:
    """Every eviction under way; `may_act` returns why not, or None.

    `at_once` tasks each carry out one after the other: to hand an intent to a waiting task costs
    a fifth of starting one. Further intents wait in line and are asked `may_act` when their turn
    comes. Their number is bounded by the token buckets that let them through.
    """

    def __init__(
        self,
        intents: IntentStore,
        evictor: Evictor,
        cancel_reason: Callable[[], str | None],
        on_outcome: OnOutcome,
        clock: Callable[[], float],
        *,
        max_concurrent: int = 50,
        effect_timeout_s: float = EFFECT_TIMEOUT_S,
    ) -> None:
        self._executor = EvictionExecutor(
            intents, evictor, clock, effect_timeout_s=effect_timeout_s
        )
        self._cancel_reason = cancel_reason
        self._on_outcome = on_outcome
        self._clock = clock
        self._max_concurrent = max_concurrent
        self._queue: MemoryObjectSendStream[Intent] | None = None
        self._active = 0
        self._not_yet_sent: dict[PodKey, str | None] = {}
        self._idle = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Carry out what is submitted, until cancelled."""
        queue, intents = anyio.create_memory_object_stream[Intent](inf)
        try:
            async with queue, intents, anyio.create_task_group() as group:
                for _ in range(self._max_concurrent):
                    group.start_soon(self._work, intents)
                self._queue = queue
                task_status.started()
                await self._sleep_until_cancelled()
        finally:
            self._not_yet_sent.clear()
            self._active = 0  # whoever still stood in line had not begun

    async def _sleep_until_cancelled(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._queue = None

    def submit(self, intent: Intent) -> None:
        """Let one eviction begin; after `run` has ended it is withheld."""
        if self._queue is None:
            self._on_outcome(intent, SHUTTING_DOWN.outcome("the controller stops"), self._clock())
        else:
            self._active += 1
            self._not_yet_sent[intent.pod.uid] = None
            self._queue.send_nowait(intent)

    def cancel_pending(self, reason: str) -> None:
        """Withhold every eviction that was not asked for yet; the others go on to their end."""
        self._not_yet_sent = dict.fromkeys(self._not_yet_sent, reason)

    async def drained(self) -> None:
        """Return when no eviction is under way."""
        while self._active:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def _work(self, intents: MemoryObjectReceiveStream[Intent]) -> None:
        async for intent in intents:
            try:
                cancel_reason = partial(self._intent_cancel_reason, intent)
                outcome, sent_at = await self._executor.execute(intent, cancel_reason)
            finally:
                self._not_yet_sent.pop(intent.pod.uid, None)
                self._active -= 1
                if not self._active:
                    self._idle.set()
            self._on_outcome(intent, outcome, sent_at)

    def _intent_cancel_reason(self, intent: Intent) -> str | None:
        return self._not_yet_sent.get(intent.pod.uid) or self._cancel_reason()


async def confirm_by_reading(
    evictor: Evictor, request: EvictionRequest, deadline: float
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


async def read_outcome(evictor: Evictor, request: EvictionRequest) -> Outcome:
    """Return the outcome that the pod shows now; keeps trying until the pod can be read."""
    wait_s = INITIAL_READ_BACKOFF_S
    while True:
        try:
            lookup = await evictor.get_pod(request.namespace, request.name)
        except ClusterError:
            await anyio.sleep(wait_s)
            wait_s = min(MAX_READ_BACKOFF_S, wait_s * 2)
        else:
            return outcome_from_lookup(request.uid, lookup)


def _request(intent: Intent) -> EvictionRequest:
    pod = intent.pod
    reason = f"{intent.context.profile}/{intent.plugin}: {intent.message}"
    return EvictionRequest(pod.namespace, pod.name, pod.uid, reason, intent.grace_period_s)
