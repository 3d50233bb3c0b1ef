"""Declares the contract by which who decided on an intent follows its request."""

from reactive_desched.model.intents import Intent
from reactive_desched.model.outcomes import Outcome


class IntentOwner:
    """Decided on intents, and follows their requests; its defaults do nothing."""

    def cancelled(self, intent: Intent) -> Outcome | None:
        """Return the outcome of an intent that must not be sent after all; None when it may."""
        del intent
        return None

    def requested(self, intent: Intent, request_id: str, sent_at: float) -> None:
        """See that the request of an intent is recorded, and sent next unless it is cancelled."""
