"""The contracts around the executor: who sends a request, and who decided on it."""

from typing import Final, Protocol

from reactive_desched.model.evaluation import Intent
from reactive_desched.model.outcomes import (
    NOT_KNOWN,
    EvictionRequest,
    EvictionResponse,
    Outcome,
    PodLookup,
    RequestTime,
)

EFFECT_TIMEOUT_S: Final = 90.0
"""So long after a request of unknown effect it may still evict the pod, by the usual time limit."""


class EvictionClient(Protocol):
    """Sends one eviction request, once, and never raises; reads a pod back.

    `effect_timeout_s` is how long after a request of unknown effect the request may still evict the
    pod.
    """

    effect_timeout_s: float = EFFECT_TIMEOUT_S

    async def caught_up(self) -> bool:
        """Return when what happened before this call shows in the state; by default at once.

        False: it does not show, and may not for long.
        """
        del self
        return True

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Ask the API server to evict the pod."""
        ...

    def now(self) -> RequestTime:
        """Return when a request is sent that is sent now, as far as the clocks are known."""
        return NOT_KNOWN

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Read the pod that has this name now; raises ClusterError when it cannot be read."""
        ...


class IntentOwner:
    """Decided on intents, and follows their requests; its defaults do nothing."""

    def cancelled(self, intent: Intent) -> Outcome | None:
        """Return the outcome of an intent that must not be sent after all; None when it may."""
        del intent
        return None

    def caught_up(self, intent: Intent) -> None:
        """Note that the state shows by now what happened before the decision."""

    def requested(self, intent: Intent, request_id: str, sent_at: float) -> None:
        """See that the request of an intent is recorded, and sent next unless it is cancelled."""

    def effect_unknown(self, intent: Intent, error: str, within_s: float) -> None:
        """See that a request may have evicted the pod, or may yet, in at most so long.

        The pod is read next, until it shows which.
        """
