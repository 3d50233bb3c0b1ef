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
    WITHHELD,
    Answer,
    EvictionRequest,
    Outcome,
    PodNow,
    outcome_of,
    settled,
)

FIRST_READ_S, LONGEST_READ_S = 1.0, 30.0
"""How soon a pod is read after a call of unknown effect, and how rarely at most."""


class Evictor(Protocol):
    """Asks for one eviction, once, and never raises; reads a pod back when asked."""

    async def evict(self, request: EvictionRequest) -> Answer:
        """Ask the API server to evict the pod."""
        ...

    async def look(self, namespace: str, name: str) -> PodNow:
        """Read who bears this name now; raises ClusterError when that cannot be found out."""
        ...


class Ledger(Protocol):
    """The durable record of intents and their ends."""

    async def begin(self, intent: Intent) -> str:
        """Return the intent's id once it is on disk; raises JournalError when it cannot be."""
        ...

    async def end(self, intent_id: str, outcome: Outcome) -> None:
        """Return once the outcome is on disk."""
        ...


Finished = Callable[[Intent, Outcome, float], None]
"""Told the intent, its outcome, and when the API server was asked (or would have been)."""


class Means:
    """What one eviction takes: where it is written down, who asks for it, and what time it is."""

    def __init__(self, ledger: Ledger, evictor: Evictor, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._evictor = evictor
        self._clock = clock

    async def carry_out(
        self, intent: Intent, why_not: Callable[[], str | None]
    ) -> tuple[Outcome, float]:
        """Write an intent down, ask for the eviction, and write down what came of it.

        `why_not` is asked before each of these steps. Returns the outcome, and when the API server
        was asked (or would have been).
        """
        if (reason := why_not()) is not None:
            return Outcome(WITHHELD, reason), self._clock()
        try:
            intent_id = await self._ledger.begin(intent)
        except JournalError as error:
            return Outcome(WITHHELD, str(error)), self._clock()
        asked_at = self._clock()
        outcome = await self._ask(intent, why_not)
        await self._ledger.end(intent_id, outcome)
        return outcome, asked_at

    async def _ask(self, intent: Intent, why_not: Callable[[], str | None]) -> Outcome:
        """Call the API server, unless things changed while the intent was being written."""
        if (reason := why_not()) is not None:
            return Outcome(WITHHELD, reason)
        request = _request(intent)
        answer = await self._evictor.evict(request)
        return outcome_of(answer) or await read_back(self._evictor, request)


class Evictions:
    """Every eviction under way; `may_act` returns why not, or None.

    `at_once` tasks each carry out one after the other: to hand an intent to a waiting task costs
    a fifth of starting one. Further intents wait in line and are asked `may_act` when their turn
    comes. Their number is bounded by the token buckets that let them through.
    """

    def __init__(
        self,
        ledger: Ledger,
        evictor: Evictor,
        may_act: Callable[[], str | None],
        finished: Finished,
        clock: Callable[[], float],
        *,
        at_once: int = 50,
    ) -> None:
        self._means = Means(ledger, evictor, clock)
        self._may_act = may_act
        self._finished = finished
        self._clock = clock
        self._at_once = at_once
        self._line: MemoryObjectSendStream[Intent] | None = None
        self._under_way = 0
        self._unasked: dict[PodKey, str | None] = {}
        self._idle = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Carry out what is submitted, until cancelled."""
        line, intents = anyio.create_memory_object_stream[Intent](inf)
        try:
            async with line, intents, anyio.create_task_group() as group:
                for _ in range(self._at_once):
                    group.start_soon(self._carry_out_all, intents)
                self._line = line
                task_status.started()
                await self._until_cancelled()
        finally:
            self._unasked.clear()
            self._under_way = 0  # whoever still stood in line had not begun

    async def _until_cancelled(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._line = None

    def submit(self, intent: Intent) -> None:
        """Let one eviction begin; after `run` has ended it is withheld."""
        if self._line is None:
            self._finished(intent, Outcome(WITHHELD, "stopping"), self._clock())
        else:
            self._under_way += 1
            self._unasked[intent.pod.uid] = None
            self._line.send_nowait(intent)

    def recall(self, reason: str) -> None:
        """Withhold every eviction that was not asked for yet; the others go on to their end."""
        self._unasked = dict.fromkeys(self._unasked, reason)

    async def ended(self) -> None:
        """Return when no eviction is under way."""
        while self._under_way:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def _carry_out_all(self, intents: MemoryObjectReceiveStream[Intent]) -> None:
        async for intent in intents:
            try:
                may_not = partial(self._why_not, intent)
                outcome, asked_at = await self._means.carry_out(intent, may_not)
            finally:
                self._unasked.pop(intent.pod.uid, None)
                self._under_way -= 1
                if not self._under_way:
                    self._idle.set()
            self._finished(intent, outcome, asked_at)

    def _why_not(self, intent: Intent) -> str | None:
        return self._unasked.get(intent.pod.uid) or self._may_act()


async def read_back(evictor: Evictor, request: EvictionRequest) -> Outcome:
    """Find out what a call of unknown effect did; keeps trying until the pod can be read."""
    wait_s = FIRST_READ_S
    while True:
        try:
            now = await evictor.look(request.namespace, request.name)
        except ClusterError:
            await anyio.sleep(wait_s)
            wait_s = min(LONGEST_READ_S, wait_s * 2)
        else:
            return settled(request.uid, now)


def _request(intent: Intent) -> EvictionRequest:
    pod = intent.pod
    reason = f"{intent.account.profile}/{intent.plugin}: {intent.reason}"
    return EvictionRequest(pod.namespace, pod.name, pod.uid, reason, intent.grace_period_s)
