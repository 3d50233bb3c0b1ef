"""A dry run's evictor: everything happens as usual, except the call."""

from reactive_desched.errors import ClusterError
from reactive_desched.model.outcomes import DryRun, EvictionRequest, EvictionResponse, PodLookup


class DryRunEvictor:
    """Asks nobody, and says so."""

    async def evict(self, _: EvictionRequest) -> EvictionResponse:
        """Say that this was a rehearsal."""
        return DryRun()

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Know nothing: a rehearsal has no effect to read back."""
        raise ClusterError(f"a dry run never reads {namespace}/{name} back")
