"""The evictor of a dry run: it sends no request to the API server."""

from reactive_desched.errors import ClusterError
from reactive_desched.model.outcomes import DryRun, EvictionRequest, EvictionResponse, PodLookup


class DryRunEvictor:
    """Answers every request with DryRun."""

    async def evict(self, _: EvictionRequest) -> EvictionResponse:
        """Return DryRun without a request."""
        return DryRun()

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Raise ClusterError: a dry run has no effect to read back."""
        raise ClusterError(f"a dry run never reads {namespace}/{name} back")
