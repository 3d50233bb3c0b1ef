"""What is about to be done, complete enough to be written down before it happens."""

from msgspec import Struct

from reactive_desched.model.accounts import DecisionContext
from reactive_desched.model.objects import Pod


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
