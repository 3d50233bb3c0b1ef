"""A dry run's evictor: everything happens as usual, except the call."""

from reactive_desched.errors import ClusterError
from reactive_desched.model.outcomes import Answer, EvictionRequest, PodNow, Rehearsed


class Rehearsal:
    """Asks nobody, and says so."""

    async def evict(self, _: EvictionRequest) -> Answer:
        """Say that this was a rehearsal."""
        return Rehearsed()

    async def look(self, namespace: str, name: str) -> PodNow:
        """Know nothing: a rehearsal has no effect to read back."""
        raise ClusterError(f"a dry run never reads {namespace}/{name} back")
