"""What an API server answers in brackets within brackets is unreadable, and not our end."""

import pytest

from reactive_desched.errors import Unreachable
from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.kube.client.session import Session
from reactive_desched.model.outcomes import EvictionRequest, TooManyRequests
from tests.support.scripted_api import ScriptedApi, ScriptedReply

pytestmark = pytest.mark.anyio


async def test_a_pod_nested_too_deeply_is_no_pod(api: ScriptedApi, session: Session) -> None:
    deep = b'{"spec":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    api.answer_next("GET", ScriptedReply(body=deep))

    with pytest.raises(Unreachable, match="not a pod") as caught:
        await ApiEvictor(session).get_pod("shop", "web-1")

    assert caught.value.sent


async def test_a_date_that_no_calendar_has_does_not_end_an_eviction(
    api: ScriptedApi, session: Session
) -> None:
    date = "Mon, 01 Jan 2024 00:00:00 +99999999999999"
    api.answer_next("POST", ScriptedReply(429, b"later", {"Retry-After": date}))

    answer = await ApiEvictor(session).evict(EvictionRequest("shop", "web-1", "uid-1"))

    assert isinstance(answer, TooManyRequests)
    assert answer.retry_after_s is None
