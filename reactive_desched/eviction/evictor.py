"""What sends eviction requests: the API server's client, or a preview of its answers."""

from collections.abc import Awaitable
from typing import Protocol

from reactive_desched.model.outcomes import EvictionRequest, EvictionResponse, PodLookup


class Evictor(Protocol):
    """Sends one eviction request, once, and never raises; reads a pod back.

    One that cannot send at once inherits `send_now`.
    """

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Ask the API server to evict the pod."""
        ...

    def send_now(self, request: EvictionRequest) -> Awaitable[EvictionResponse] | None:
        """Send the request before this returns; None where that takes a wait, and nothing is sent.

        Awaiting the response never raises either.
        """
        del request
        return None

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Read the pod that has this name now; raises ClusterError when it cannot be read."""
        ...
