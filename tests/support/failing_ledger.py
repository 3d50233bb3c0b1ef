"""A ledger whose disk fails and heals while evictions are under way; outcomes wait it out."""

import anyio

from reactive_desched.api.event import EventData
from reactive_desched.errors import JournalUnavailable
from reactive_desched.model.brakes import BrakeNotice
from reactive_desched.model.decision_context import DecisionContext
from reactive_desched.model.decisions import Decision
from reactive_desched.model.disruptions import EndedPod
from reactive_desched.model.intents import Intent
from reactive_desched.model.moves import FutileClearing, MoveEnd
from reactive_desched.model.outcomes import Outcome
from reactive_desched.primitives.wakeup import Wakeup

__all__ = ["FailingIntentStore"]


class FailingIntentStore:
    """Remembers intents by the pod's uid, and outcomes; a second outcome is an error.

    `recovered` is notified when the disk works again.
    """

    def __init__(self, recovered: Wakeup) -> None:
        self.intents: dict[str, str] = {}
        self.outcomes: dict[str, str] = {}
        self.fault = ""
        self.slow_s = 0.0
        self._recovered = recovered

    def record(self, data: EventData, subject: str, *, version: str = "", cause: str = "") -> None:
        """Record no other events."""

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Record no decisions."""

    def record_brake(self, notice: BrakeNotice) -> None:
        """Remember no brakes."""

    def set_fault(self, fault: str, slow_s: float) -> None:
        """Fail, or work again."""
        self.fault, self.slow_s = fault, slow_s
        self._recovered.notify()

    async def record_intent(self, intent: Intent) -> str:
        """Write an intent."""
        await anyio.sleep(self.slow_s)
        if self.fault:
            raise JournalUnavailable(self.fault)
        intent_id = f"i{len(self.intents)}"
        self.intents[intent_id] = intent.pod.uid
        return intent_id

    async def record_outcome(self, intent_id: str, outcome: Outcome) -> None:
        """Write an outcome as soon as the disk is well."""
        await anyio.sleep(self.slow_s)
        while self.fault:
            await self._recovered.wait()
        assert intent_id in self.intents
        assert intent_id not in self.outcomes, "a second outcome"
        self.outcomes[intent_id] = outcome.result

    async def record_futile_cleared(self, clearing: FutileClearing) -> None:
        """Remember nothing."""

    def record_follow_up(self, intent_id: str, end: MoveEnd) -> None:
        """Remember nothing: nobody waits for it."""

    def record_correction(self, intent_id: str, outcome: Outcome) -> None:
        """Remember nothing."""

    def record_disruption(self, ended: EndedPod) -> None:
        """Remember nothing."""

    def open_uids(self) -> list[str]:
        """Return the pods whose intent has no outcome yet."""
        return [uid for key, uid in self.intents.items() if key not in self.outcomes]
