"""What is about to be done, complete enough to be written down before it happens."""

from msgspec import Struct

from reactive_desched.model.accounts import Account
from reactive_desched.model.objects import Pod


class Intent(Struct, frozen=True, gc=False):
    """One eviction that every gate agreed to, and the account of what led to it."""

    account: Account
    grace_period_s: int | None = None

    @property
    def pod(self) -> Pod:
        """The pod to evict."""
        return self.account.finding.pod

    @property
    def plugin(self) -> str:
        """Whose finding it is."""
        return self.account.finding.plugin

    @property
    def reason(self) -> str:
        """Why the pod should leave, for a person to read."""
        return self.account.finding.reason
