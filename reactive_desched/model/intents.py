"""Intents, complete enough to be recorded before they are carried out, and how each ended."""

from msgspec import Struct

from reactive_desched.model.evaluation import DecisionContext
from reactive_desched.model.eviction_options import BY_EVICTION, EVICTION, EvictionOptions
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import NOT_KNOWN, Outcome, RequestTime


class Intent(Struct, frozen=True, gc=False):
    """One eviction that every gate agreed to, and the account of what led to it.

    `grace_period_s` is that of the policy file, which holds where the finding asks for none, and
    `evictor` that of the profile, for findings that have no options of their own.
    """

    context: DecisionContext
    grace_period_s: int | None = None
    evictor: str = EVICTION

    @property
    def pod(self) -> Pod:
        """The pod to evict."""
        return self.context.finding.pod

    @property
    def options(self) -> EvictionOptions:
        """Return how the pod is asked to leave."""
        asked = self.context.finding.options
        if asked is None:
            asked = EvictionOptions(self.evictor) if self.evictor != EVICTION else BY_EVICTION
        return asked.or_grace_period(self.grace_period_s)

    @property
    def plugin(self) -> str:
        """The plugin that yielded the finding."""
        return self.context.finding.plugin

    @property
    def message(self) -> str:
        """Return why the pod should leave, for a person to read."""
        return self.context.finding.message


class EvictionResult(Struct, frozen=True, gc=False):
    """The result of carrying out an intent.

    `sent_at` is when the eviction request was sent, or would have been, in monotonic seconds.
    `request_id` is the id of its record; empty where none was written. `sent` is the same moment
    by the other clocks.
    """

    intent: Intent
    outcome: Outcome
    sent_at: float
    request_id: str = ""
    sent: RequestTime = NOT_KNOWN
