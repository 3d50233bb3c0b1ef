"""A list whose pages do not all come: each is requested again, and the list goes on."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from aiohttp import web

from reactive_desched.errors import Malformed, RequestRejected
from reactive_desched.kube.client.rate_limiter import RateLimit
from reactive_desched.kube.client.session import (
    KubeConfigOptions,
    RequestLimits,
    Session,
    open_session,
)
from reactive_desched.kube.watch.initial_list import list_once
from tests.support.fake_resource import FakeCodec
from tests.support.manual_clock import InstantClock, wait_until
from tests.support.misbehaving_proxy import (
    CutAfter,
    Fault,
    MisbehavingProxy,
    Refused,
    Truncated,
    Zipped,
    one_in,
)
from tests.support.reflector_harness import ReflectorHarness
from tests.support.scripted_api import ScriptedApi, ScriptedReply, failing

pytestmark = pytest.mark.anyio

THINGS = 5000
THROTTLED = Refused(429, b"too many requests", {"Retry-After": "1"})


@pytest.fixture
def full(api: ScriptedApi) -> ScriptedApi:
    for number in range(THINGS):
        api.objects[f"t{number}"] = "1"
    return api


@asynccontextmanager
async def proxied(
    api: ScriptedApi,
    kubeconfig: Callable[..., Path],
    fault_of: Callable[[web.Request], Fault | None],
    limits: RequestLimits | None = None,
) -> AsyncIterator[tuple[MisbehavingProxy, Session]]:
    async with MisbehavingProxy(api.url, fault_of).serving() as proxy:
        config = KubeConfigOptions(kubeconfig=str(kubeconfig(proxy.url)))
        rate = RateLimit(qps=10_000, burst=10_000)
        async with open_session(config, limits=limits, rate_limit=rate) as session:
            yield proxy, session


async def names_listed(session: Session, clock: InstantClock | None = None) -> set[str]:
    lacking: list[Malformed] = []
    result = await list_once(session, FakeCodec(), lacking.append, clock=clock or InstantClock())
    assert lacking == []
    assert len(result.items) == len({obj.name for obj in result.items})
    return {obj.name for obj in result.items}


@pytest.mark.parametrize(
    "fault_of",
    [
        pytest.param(one_in(2, THROTTLED), id="half of the requests are throttled"),
        pytest.param(one_in(3, Refused(429)), id="429 without Retry-After"),
        pytest.param(one_in(3, Refused(408)), id="408"),
        pytest.param(one_in(3, Refused(425)), id="425"),
        pytest.param(one_in(3, Refused(500)), id="500"),
        pytest.param(one_in(3, Refused(502, b"<html>bad gateway</html>")), id="a page of a proxy"),
        pytest.param(one_in(3, Refused(503)), id="503"),
        pytest.param(one_in(3, Refused(504)), id="504"),
        pytest.param(one_in(3, Refused(401)), id="credentials expired meanwhile"),
        pytest.param(one_in(3, CutAfter(0)), id="cut before the first byte"),
        pytest.param(one_in(3, CutAfter(2000)), id="cut in the middle"),
        pytest.param(one_in(3, Truncated(2000)), id="ended in the middle"),
        pytest.param(one_in(1, CutAfter(9000)), id="every large response is cut"),
        pytest.param(one_in(1, Truncated(9000)), id="every large response ends too early"),
        pytest.param(one_in(1, Zipped()), id="compressed"),
        pytest.param(one_in(3, Zipped(cut=100)), id="compressed and ended in the middle"),
    ],
)
async def test_a_list_is_complete_though_a_proxy_spoils_pages_of_it(
    full: ScriptedApi,
    kubeconfig: Callable[..., Path],
    fault_of: Callable[[web.Request], Fault | None],
) -> None:
    async with proxied(full, kubeconfig, fault_of) as (_, session):
        assert await names_listed(session) == set(full.objects)


async def test_the_pages_that_came_are_not_requested_again(
    full: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    async with proxied(full, kubeconfig, one_in(4, THROTTLED)) as (proxy, session):
        await names_listed(session)
    assert full.count("list") == THINGS / 500
    assert len(proxy.requests) == THINGS / 500 + 3


async def test_a_page_is_requested_again_after_the_wait_that_the_server_asks_for(
    full: ScriptedApi, session: Session
) -> None:
    full.answer_next("list", None, failing(429, **{"Retry-After": "7"}))
    clock = InstantClock()
    await names_listed(session, clock)
    assert clock.slept_s == [7.0]


async def test_a_page_that_is_to_come_after_ten_minutes_ends_the_list(
    full: ScriptedApi, session: Session
) -> None:
    full.answer_next("list", None, failing(429, **{"Retry-After": "600"}))
    with pytest.raises(RequestRejected) as caught:
        await names_listed(session)
    assert caught.value.retryable
    assert caught.value.retry_after_s == 600


async def test_a_page_that_never_comes_ends_the_list_after_ten_tries(
    full: ScriptedApi, session: Session
) -> None:
    full.answer_next("list", None, *[failing(500)] * 100)
    clock = InstantClock()
    with pytest.raises(RequestRejected):
        await names_listed(session, clock)
    assert full.count("list") == 11
    assert sum(clock.slept_s) < 30


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        pytest.param(410, "Expired", id="expired"),
        pytest.param(400, "BadRequest", id="not valid for the server that is asked now"),
    ],
)
async def test_a_continue_token_that_is_refused_leads_to_one_list_without_a_limit(
    full: ScriptedApi, session: Session, status: int, reason: str
) -> None:
    full.answer_next("list", None, None, failing(status, reason))
    assert await names_listed(session) == set(full.objects)
    queries = [asked.query for asked in full.requests]
    assert [sorted(query) for query in queries] == [
        ["limit"],
        ["continue", "limit"],
        ["continue", "limit"],
        [],
    ]


async def test_the_version_of_a_list_without_a_limit_is_its_own(
    full: ScriptedApi, mirror: ReflectorHarness
) -> None:
    async def forget() -> None:
        if full.count("list") == 2:
            full.answer_next("list", failing(410, "Expired"))
            full.delete_silently("t1")
            full.before_answering = None

    full.before_answering = forget
    async with mirror.running():
        await mirror.wait_until_fresh()
    assert mirror.objects == full.objects
    assert full.requests[-1].query["resourceVersion"] == str(full.version)


async def test_a_list_whose_continue_tokens_expire_always_is_begun_anew_once_and_ends(
    full: ScriptedApi, session: Session
) -> None:
    # Before the server stands something that limits the list without a limit, too.
    first = ScriptedReply(body=b'{"metadata":{"resourceVersion":"1","continue":"x"},"items":[]}')
    full.answer_next("list", *[first, failing(410, "Expired")] * 50)
    with pytest.raises(RequestRejected, match="410") as rejected:
        await names_listed(session)
    assert rejected.value.retryable
    assert full.count("list") == 4


async def test_a_list_that_was_begun_anew_may_have_the_tokens_of_before(
    full: ScriptedApi, session: Session
) -> None:
    page = '{"metadata":{"resourceVersion":"1","continue":"%s"},"items":[]}'
    first, second = (ScriptedReply(body=(page % token).encode()) for token in "xy")
    end = ScriptedReply(body=b'{"metadata":{"resourceVersion":"1"},"items":[]}')
    full.answer_next("list", first, second, failing(410, "Expired"), first, second, end)
    assert await names_listed(session) == set()
    assert full.count("list") == 6


async def test_the_token_of_an_inconsistent_rest_is_not_used(
    full: ScriptedApi, session: Session
) -> None:
    body = (
        b'{"kind":"Status","code":410,"reason":"Expired","message":"use the token",'
        b'"metadata":{"continue":"inconsistent"}}'
    )
    full.answer_next("list", None, ScriptedReply(410, body))
    assert await names_listed(session) == set(full.objects)
    assert "inconsistent" not in {asked.query.get("continue") for asked in full.requests}


async def test_what_is_throttled_shows_while_the_list_waits_for_its_page(
    full: ScriptedApi, mirror: ReflectorHarness
) -> None:
    full.answer_next("list", None, failing(429, **{"Retry-After": "5"}))
    async with mirror.running():
        await wait_until(lambda: 5.0 in mirror.clock.pending_waits_s)
        assert "429" in mirror.handler.reason
        assert mirror.status.repeated_pages == 1
        assert mirror.status.failures == 0
        mirror.clock.advance(5)
        await mirror.wait_until_confirmed()
    assert mirror.objects == full.objects


async def test_pages_that_are_cut_twice_get_small_and_the_size_is_tried_ever_more_seldom(
    full: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    async with proxied(full, kubeconfig, one_in(1, CutAfter(15_000))) as (_, session):
        await names_listed(session)
    sizes = [asked.query["limit"] for asked in full.requests]
    assert sizes[:5] == ["500", "500", "125", "250", "250"]
    assert sizes[5:12] == ["62", *["124"] * 4, "248", "248"]
    assert sizes[12:19] == ["62", *["124"] * 4, "248", "248"]
    assert sizes[19:30] == ["62", *["124"] * 8, "248", "248"]


async def test_a_proxy_that_cuts_responses_of_every_size_at_random_makes_no_small_pages(
    full: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    """Pages became smaller and smaller: more than half of such lists took thousands of requests."""
    chance = Random(2)

    def fault_of(_: web.Request) -> Fault | None:
        return CutAfter(40) if chance.random() < 0.4 else None

    async with proxied(full, kubeconfig, fault_of) as (_, session):
        assert await names_listed(session) == set(full.objects)
    assert len(full.requests) < 5 * (THINGS // 500)


async def test_pages_that_break_off_by_chance_keep_their_size(
    full: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    async with proxied(full, kubeconfig, one_in(3, CutAfter(2000))) as (_, session):
        await names_listed(session)
    assert {asked.query["limit"] for asked in full.requests} == {"500"}
