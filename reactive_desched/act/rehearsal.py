"""A dry run's evictor: everything happens as usual, except the call."""

from reactive_desched.errors import ClusterError
from reactive_desched.model.outcomes import Accepted, Answer, EvictionRequest, PodNow


class Rehearsal:
    """Says yes to every eviction and asks nobody."""

    async def evict(self, _: EvictionRequest) -> Answer:
        """Pretend that the API server agreed."""
        return Accepted()

    async def look(self, namespace: str, name: str) -> PodNow:
        """Know nothing: a rehearsal has no effect to read back."""
        raise ClusterError(f"a dry run never reads {namespace}/{name} back")
