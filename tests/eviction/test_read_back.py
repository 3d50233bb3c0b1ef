"""What became of a pod is read from the cluster when the answer to an eviction was lost."""

from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest

from reactive_desched.errors import ClusterError
from reactive_desched.eviction.client import EFFECT_TIMEOUT_S, EvictionClient, IntentOwner
from reactive_desched.eviction.executor import (
    MAX_READ_BACKOFF_S,
    EvictionExecutor,
    confirm_by_reading,
)
from reactive_desched.model.evaluation import DecisionContext, Intent
from reactive_desched.model.findings import Finding
from reactive_desched.model.outcomes import (
    BY_EVICTION_API,
    EffectUnknown,
    EvictionRequest,
    EvictionResponse,
    PodFound,
    PodLookup,
    PodNotFound,
    RequestTime,
)
from reactive_desched.testing.builders import pod
from tests.support.flow import MemoryIntentStore

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Reader(EvictionClient):
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
        pytest.param(PodFound("u1", terminating=True), "unknown", id="it was deleted"),
        pytest.param(
            PodFound("u1", terminating=True, disruption=BY_EVICTION_API),
            "evicted",
            id="it was evicted",
        ),
        pytest.param(PodFound("u1", terminating=False), "failed", id="it stays"),
        pytest.param(PodFound("u2", terminating=False), "unknown", id="another has its name"),
    ],
)
async def test_reading_the_pod_shows_what_became_of_it(now: PodLookup, result: str) -> None:
    outcome = await confirm_by_reading(Reader(now), EvictionRequest("shop", "web", "u1"), 0.0)

    assert outcome.result == result


async def test_a_pod_that_cannot_be_read_is_read_again_ever_less_often() -> None:
    lost = ClusterError("unreachable")
    reader = Reader(*[lost] * 8, PodNotFound())

    outcome = await confirm_by_reading(reader, EvictionRequest("shop", "web", "u1"), 0.0)

    waits = [b - a for a, b in pairwise(reader.read_at)]
    assert waits == [1, 2, 4, 8, 16, MAX_READ_BACKOFF_S, MAX_READ_BACKOFF_S, MAX_READ_BACKOFF_S]
    assert outcome.result == "unknown"


HERE = PodFound("u1", terminating=False)
LEAVING = PodFound("u1", terminating=True, disruption=BY_EVICTION_API)
MARKED = PodFound("u1", terminating=False, disruption=BY_EVICTION_API)


@pytest.mark.parametrize(
    ("later", "result"),
    [
        pytest.param(PodNotFound(), "unknown", id="then it is gone"),
        pytest.param(LEAVING, "evicted", id="then it was evicted"),
    ],
)
async def test_a_pod_that_is_still_there_proves_nothing_while_the_request_may_arrive(
    later: PodLookup, result: str
) -> None:
    reader = Reader(HERE, HERE, HERE, later)

    outcome = await confirm_by_reading(
        reader, EvictionRequest("shop", "web", "u1"), EFFECT_TIMEOUT_S
    )

    assert outcome.result == result
    assert reader.read_at == [0, 1, 3, 7]


async def test_a_pod_that_is_marked_and_not_deleted_yet_was_not_evicted_yet() -> None:
    reader = Reader(HERE, MARKED, LEAVING)

    outcome = await confirm_by_reading(
        reader, EvictionRequest("shop", "web", "u1"), EFFECT_TIMEOUT_S
    )

    assert (outcome.result, outcome.reason) == ("evicted", "FoundEvicted")
    assert reader.read_at == [0, 1, 3]


async def test_a_pod_is_compared_with_the_time_at_which_its_request_was_sent() -> None:
    class Timed(Reader):
        effect_timeout_s = 8.0

        def now(self) -> RequestTime:
            return RequestTime(1_000.0)

        async def evict(self, request: EvictionRequest) -> EvictionResponse:
            await anyio.lowlevel.checkpoint()
            return EffectUnknown("connection reset")

    results = {}
    for deleted_s in (990, 1_000, 1_020):
        found = PodFound("u1", terminating=True, disruption=BY_EVICTION_API, deleted_s=deleted_s)
        means = EvictionExecutor(MemoryIntentStore(), Timed(found), anyio.current_time)
        finding = Finding(pod("web", uid="u1", on="n1", namespace="shop"), "NodeTaints", "no gpu")
        result = await means.execute(Intent(DecisionContext(finding, "day")), IntentOwner())
        results[deleted_s] = result.outcome.reason

    assert results == {990: "FoundDisrupted", 1_000: "FoundEvicted", 1_020: "FoundDisrupted"}


async def test_a_pod_that_is_still_there_when_nothing_can_arrive_any_more_was_not_evicted() -> None:
    reader = Reader(HERE, ClusterError("unreachable"), HERE)

    outcome = await confirm_by_reading(
        reader, EvictionRequest("shop", "web", "u1"), EFFECT_TIMEOUT_S
    )

    assert outcome.result == "failed"
    assert reader.read_at[-1] == anyio.current_time() == EFFECT_TIMEOUT_S


async def test_an_eviction_whose_line_broke_ends_when_its_request_can_no_longer_arrive() -> None:
    class Broken(Reader):
        effect_timeout_s = 8.0

        async def evict(self, request: EvictionRequest) -> EvictionResponse:
            await anyio.sleep(5)
            return EffectUnknown("connection reset")

    recorder = MemoryIntentStore()
    means = EvictionExecutor(recorder, Broken(HERE), anyio.current_time)
    finding = Finding(pod("web", uid="u1", on="n1", namespace="shop"), "NodeTaints", "no gpu")

    result = await means.execute(Intent(DecisionContext(finding, "day")), IntentOwner())

    assert result.outcome.result == "failed"
    assert anyio.current_time() == 5 + 8
