"""What became of a pod is read from the cluster when the answer to an eviction was lost."""

from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest

from reactive_desched.errors import ClusterError
from reactive_desched.eviction.executor import MAX_READ_BACKOFF_S, confirm_by_reading
from reactive_desched.model.outcomes import (
    EvictionRequest,
    EvictionResponse,
    PodFound,
    PodLookup,
    PodNotFound,
)

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Reader:
    """Answers reads from a script, later ones like the last; an error is raised."""

    def __init__(self, *script: PodLookup | ClusterError) -> None:
        self.script = list(script)
        self.read_at: list[float] = []

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        raise AssertionError("reading back never asks again")

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        assert (namespace, name) == ("shop", "web")
        await anyio.lowlevel.checkpoint()
        self.read_at.append(anyio.current_time())
        now = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(now, ClusterError):
            raise now
        return now


@pytest.mark.parametrize(
    ("now", "result"),
    [
        pytest.param(PodNotFound(), "unknown", id="it is gone"),
        pytest.param(PodFound("u1", terminating=True), "evicted", id="it is leaving"),
        pytest.param(PodFound("u1", terminating=False), "failed", id="it stays"),
        pytest.param(PodFound("u2", terminating=False), "unknown", id="another has its name"),
    ],
)
async def test_reading_the_pod_tells_what_became_of_it(now: PodLookup, result: str) -> None:
    outcome = await confirm_by_reading(Reader(now), EvictionRequest("shop", "web", "u1"))

    assert outcome.result == result


async def test_a_pod_that_cannot_be_read_is_read_again_ever_less_often() -> None:
    lost = ClusterError("unreachable")
    reader = Reader(*[lost] * 8, PodNotFound())

    outcome = await confirm_by_reading(reader, EvictionRequest("shop", "web", "u1"))

    waits = [b - a for a, b in pairwise(reader.read_at)]
    assert waits == [1, 2, 4, 8, 16, MAX_READ_BACKOFF_S, MAX_READ_BACKOFF_S, MAX_READ_BACKOFF_S]
    assert outcome.result == "unknown"
