"""What is about to be done, complete enough to be written down before it happens; how it ended."""

from msgspec import Struct

from reactive_desched.model.accounts import DecisionContext
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import Outcome


class Intent(Struct, frozen=True, gc=False):
    """One eviction that every gate agreed to, and the account of what led to it."""

    context: DecisionContext
    grace_period_s: int | None = None

    @property
    def pod(self) -> Pod:
        """The pod to evict."""
        return self.context.finding.pod

    @property
    def plugin(self) -> str:
        """The plugin that yielded the finding."""
        return self.context.finding.plugin

    @property
    def message(self) -> str:
        """Why the pod should leave, for a person to read."""
        return self.context.finding.message


class EvictionResult(Struct, frozen=True, gc=False):
    """How the execution of an intent ended.

    `sent_at` is when the eviction request was sent, or would have been, in monotonic seconds.
    `request_id` is the id of its record; empty where none was written.
    """

    intent: Intent
    outcome: Outcome
    sent_at: float
    request_id: str = ""
