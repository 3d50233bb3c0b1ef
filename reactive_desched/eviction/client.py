"""Sends eviction requests to the API server, or previews its answers."""

from typing import Final, Protocol

from reactive_desched.model.outcomes import (
    NOT_KNOWN,
    EvictionRequest,
    EvictionResponse,
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

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Ask the API server to evict the pod."""
        ...

    def now(self) -> RequestTime:
        """Return when a request is sent that is sent now, as far as the clocks are known."""
        return NOT_KNOWN

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Read the pod that has this name now; raises ClusterError when it cannot be read."""
        ...
