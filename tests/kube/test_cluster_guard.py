"""The address leads to another cluster: nothing but the question who it is reaches that one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from reactive_desched.errors import Unreachable
from reactive_desched.kube.client import cluster_guard
from reactive_desched.kube.client.cluster_guard import ClusterGuard
from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.kube.client.session import (
    KubeConfigOptions,
    RequestLimits,
    Session,
    open_session,
)
from reactive_desched.model.outcomes import (
    Accepted,
    EffectUnknown,
    EvictionRequest,
    NotSent,
)
from tests.support.exposition import exposed
from tests.support.golden import Golden
from tests.support.http_proxy import HttpProxy
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.two_clusters import Address, NamedCluster, ProxyAddress

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

WEB = EvictionRequest("shop", "web-1", "uid-1")
EVICTION = "POST /api/v1/namespaces/shop/pods/web-1/eviction"

Open = Callable[[str], Awaitable[Session]]


@pytest.fixture
async def staging() -> AsyncIterator[NamedCluster]:
    async with NamedCluster("uid-of-staging").serving() as cluster:
        yield cluster


@pytest.fixture
async def prod() -> AsyncIterator[NamedCluster]:
    async with NamedCluster("uid-of-prod").serving() as cluster:
        yield cluster


@pytest.fixture
async def address(staging: NamedCluster) -> AsyncIterator[Address]:
    async with Address(staging).open() as opened:
        yield opened


@pytest.fixture
async def opened(kubeconfig: Callable[..., Path]) -> AsyncIterator[Open]:
    """Return a way to open a session that asks every connection, on the tests' own clock."""
    async with AsyncExitStack() as stack:

        async def open_to(url: str) -> Session:
            options = KubeConfigOptions(kubeconfig=str(kubeconfig(url)))
            return await stack.enter_async_context(open_session(options, cluster=ClusterGuard()))

        yield open_to


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a busy server asked again at once."""
    monkeypatch.setattr(cluster_guard, "_BUSY_S", 0.001)
    monkeypatch.setattr(cluster_guard, "_FAILED_S", 0.001)


@pytest.fixture
async def session(address: Address, opened: Open) -> Session:
    session = await opened(address.url)
    await session.request("GET", "/first")
    return session


async def get(session: Session) -> None:
    await session.request("GET", "/api/v1/pods")


async def watch(session: Session) -> None:
    async with session.stream("/api/v1/pods", {"watch": "true"}):
        pass


async def patch(session: Session) -> None:
    await session.request("PATCH", "/api/v1/namespaces/shop/pods/web-1", body=b"{}")


async def post(session: Session) -> None:
    await session.request("POST", "/apis/events.k8s.io/v1/namespaces/shop/events", body=b"{}")


WAYS = [get, watch, patch, post]
ANOTHER, NOT_KNOWN = "led to another cluster", "which cluster answers is not known"


async def refusal(
    session: Session, words: str, way: Callable[[Session], Awaitable[None]] = patch
) -> Unreachable:
    """Return the error with these words; the first requests may meet a connection that broke."""
    with anyio.fail_after(20):
        while True:
            with pytest.raises(Unreachable) as caught:
                await way(session)
            if words in str(caught.value):
                return caught.value


@pytest.mark.parametrize("way", WAYS)
async def test_nothing_reaches_another_cluster_at_the_same_address(
    way: Callable[[Session], Awaitable[None]],
    session: Session,
    address: Address,
    staging: NamedCluster,
    prod: NamedCluster,
    golden: Golden,
) -> None:
    await way(session)
    asked = list(staging.requests)
    address.lead_to(prod)

    error = await refusal(session, ANOTHER, way)

    assert not error.sent
    assert session.cluster.fault == golden(url=address.url)
    assert prod.requests == ["GET /api/v1/namespaces"]
    assert staging.requests == asked


@pytest.mark.parametrize("way", WAYS)
async def test_after_that_nothing_is_sent_though_the_address_leads_back(
    way: Callable[[Session], Awaitable[None]],
    session: Session,
    address: Address,
    staging: NamedCluster,
    prod: NamedCluster,
) -> None:
    await ApiEvictor(session).evict(WEB)
    address.lead_to(prod)
    await refusal(session, ANOTHER, Session.confirm_cluster)
    address.lead_to(staging)
    asked = list(staging.requests)

    await refusal(session, ANOTHER, way)

    assert staging.requests == asked
    assert exposed(session)["cluster_fault"] == 1


async def test_an_eviction_that_was_not_sent_there_may_be_requested_again(
    session: Session, address: Address, prod: NamedCluster
) -> None:
    evictor = ApiEvictor(session)
    assert await evictor.evict(WEB) == Accepted()
    address.lead_to(prod)
    await refusal(session, ANOTHER, get)

    assert isinstance(await evictor.evict(WEB), NotSent)
    assert prod.real_requests == []


async def test_connections_that_lead_on_to_the_first_cluster_are_left_alone_until_one_does_not(
    session: Session, address: Address, staging: NamedCluster, prod: NamedCluster
) -> None:
    address.lead_to(prod, breaks=False)
    await get(session)
    assert session.cluster.fault == ""
    async with session.stream("/api/v1/pods", {"watch": "true"}) as first:
        assert first is not None  # it has the connection; the next request needs another one
        await refusal(session, ANOTHER, get)
    assert prod.real_requests == []
    assert staging.real_requests == ["GET /first", "GET /api/v1/pods", "GET /api/v1/pods"]


async def test_the_same_cluster_at_another_end_of_the_tunnel_is_gone_on_with(
    session: Session, address: Address, staging: NamedCluster
) -> None:
    async with NamedCluster(staging.uid).serving() as other_replica:
        address.lead_to(other_replica)
        with anyio.fail_after(20):
            while not other_replica.real_requests:
                with suppress(Unreachable):  # the connection that broke
                    await get(session)
        assert other_replica.real_requests == ["GET /api/v1/pods"]
    assert session.cluster.fault == ""


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
async def test_a_server_that_does_not_say_which_cluster_it_is_gets_nothing_until_it_does(
    status: int, session: Session, address: Address, prod: NamedCluster, golden: Golden
) -> None:
    prod.status = status
    address.lead_to(prod)
    assert str(await refusal(session, NOT_KNOWN)) == golden(status=f"{status}")
    assert session.cluster.fault == ""
    prod.status = 200
    await refusal(session, ANOTHER)
    assert prod.real_requests == []


async def test_a_server_that_is_too_busy_to_say_which_cluster_it_is_is_asked_again(
    session: Session, address: Address, prod: NamedCluster, at_once: None
) -> None:
    del at_once
    prod.uid, prod.busy = session.cluster.uid, 3
    address.lead_to(prod)
    session.cluster.doubt()
    await get(session)
    assert prod.real_requests == ["GET /api/v1/pods"]
    assert prod.busy == 0


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize(("refusals", "is_served"), [(3, True), (4, False)])
async def test_a_server_that_fails_and_a_proxy_that_has_none_are_asked_three_times_more(
    session: Session,
    address: Address,
    prod: NamedCluster,
    at_once: None,
    status: int,
    refusals: int,
    *,
    is_served: bool,
) -> None:
    del at_once
    prod.uid, prod.busy, prod.busy_status = session.cluster.uid, refusals, status
    address.lead_to(prod)
    session.cluster.doubt()
    if is_served:
        await get(session)
    else:
        assert f"{status}" in str(await refusal(session, NOT_KNOWN))
    assert prod.real_requests == ["GET /api/v1/pods"] * is_served
    assert prod.busy == 0


async def test_a_server_that_stays_too_busy_to_say_which_cluster_it_is_gets_nothing(
    session: Session, address: Address, prod: NamedCluster
) -> None:
    limits = RequestLimits(connect_s=0.5)  # shorter than the wait before another question

    async def get_soon(session: Session) -> None:
        await session.request("GET", "/api/v1/pods", limits=limits)

    prod.status = 429
    address.lead_to(prod)
    assert "429" in str(await refusal(session, NOT_KNOWN, get_soon))
    assert prod.real_requests == []


async def test_a_server_that_is_too_busy_to_say_it_again_is_the_one_that_it_said_it_was(
    kubeconfig: Callable[..., Path], address: Address, staging: NamedCluster
) -> None:
    clock = ManualClock()
    options = KubeConfigOptions(kubeconfig=str(kubeconfig(address.url)))
    async with open_session(options, cluster=ClusterGuard(clock=clock.now)) as session:
        await patch(session)
        staging.status = 429
        clock.advance(2)
        await patch(session)
        await session.confirm_cluster()
        assert len(staging.real_requests) == 2
        session.cluster.doubt()
        limits = RequestLimits(connect_s=0.5)  # shorter than the wait before another question
        with pytest.raises(Unreachable, match=NOT_KNOWN):
            await session.request("GET", "/api/v1/pods", limits=limits)


async def test_a_401_to_the_question_has_the_credentials_read_anew(
    session: Session, address: Address, staging: NamedCluster
) -> None:
    invalidated = []
    session.cluster.attach(lambda: address.url, lambda: invalidated.append(True))
    staging.status = 401
    address.lead_to(staging)
    await refusal(session, NOT_KNOWN)
    assert invalidated == [True]


async def test_a_new_cluster_that_has_no_namespaces_yet_is_not_trusted(
    session: Session, address: Address, prod: NamedCluster
) -> None:
    prod.uid = ""
    address.lead_to(prod)
    await refusal(session, "there is no namespace kube-system")
    assert prod.real_requests == []


async def test_a_connection_is_asked_again_after_a_second_and_at_a_doubt(
    kubeconfig: Callable[..., Path], address: Address, staging: NamedCluster
) -> None:
    clock = ManualClock()
    options = KubeConfigOptions(kubeconfig=str(kubeconfig(address.url)))
    async with open_session(options, cluster=ClusterGuard(clock=clock.now)) as session:
        evictor = ApiEvictor(session)

        async def checks(wait_s: float) -> int:
            """Return how often the server is asked by what is requested after this time."""
            clock.advance(wait_s)
            before = staging.checks
            await get(session)
            await get(session)
            assert await evictor.evict(WEB) == Accepted()
            return staging.checks - before

        assert await checks(0) == 1
        before = staging.checks
        clock.advance(3)  # an eviction has the uid of its pod: elsewhere it would do nothing
        assert await evictor.evict(WEB) == Accepted()
        assert staging.checks == before
        assert await checks(0) == 1
        assert await checks(1) == 0
        assert await checks(0.1) == 1
        session.cluster.doubt()
        assert await checks(0) == 1
        assert session.cluster.uid == staging.uid
        counted = exposed(session)
        assert counted['api_requests_total{code="200",method="GET"}'] == 10 + staging.checks


async def test_the_question_says_who_asks(session: Session, staging: NamedCluster) -> None:
    assert staging.requests[0] == "GET /api/v1/namespaces"
    first, second = staging.headers
    del first["Accept"], second["Accept"]
    assert first == second


async def test_the_question_is_asked_below_the_servers_path(
    staging: NamedCluster, opened: Open
) -> None:
    session = await opened(f"http://127.0.0.1:{staging.port}/k8s/c1")
    await patch(session)
    assert staging.requests[0] == "GET /k8s/c1/api/v1/namespaces"


async def test_a_proxy_that_leads_a_name_elsewhere_leads_no_request_there(
    kubeconfig: Callable[..., Path], staging: NamedCluster, prod: NamedCluster
) -> None:
    async with HttpProxy().serving() as proxy:
        proxy.leads_to = staging.port
        options = KubeConfigOptions(kubeconfig=str(kubeconfig("http://api.example")))
        environ = {"HTTP_PROXY": proxy.url}
        async with open_session(options, cluster=ClusterGuard(), environ=environ) as session:
            await patch(session)
            assert proxy.asked[0].startswith("GET http://api.example/api/v1/namespaces?")
            assert len(staging.real_requests) == 1
            proxy.leads_to = prod.port
            session.cluster.doubt()
            async with session.stream("/api/v1/pods", {"watch": "true"}):
                assert len(staging.real_requests) == 2
                await refusal(session, ANOTHER)
    assert prod.real_requests == []


async def test_a_server_that_closes_each_connection_is_asked_before_each_request(
    staging: NamedCluster, opened: Open
) -> None:
    staging.closes = True
    session = await opened(f"http://127.0.0.1:{staging.port}")
    await patch(session)
    await patch(session)
    assert staging.checks == 2
    assert len(staging.real_requests) == 2


async def test_where_no_uid_is_shown_requests_are_sent_and_the_first_uid_counts(
    opened: Open, address: Address, staging: NamedCluster, prod: NamedCluster
) -> None:
    staging.status = 403
    session = await opened(address.url)
    await patch(session)
    assert session.cluster.uid == ""
    staging.status = 200
    await session.confirm_cluster()
    assert session.cluster.uid == staging.uid
    address.lead_to(prod)
    await refusal(session, ANOTHER)
    assert len(staging.real_requests) == 1
    assert prod.real_requests == []


@asynccontextmanager
async def ticking(
    kubeconfig: Path, clock: ManualClock
) -> AsyncIterator[tuple[Session, Callable[[float], Awaitable[None]]]]:
    """Open a session on a clock that the test advances second by second."""
    options = KubeConfigOptions(kubeconfig=str(kubeconfig))
    async with open_session(options, cluster=ClusterGuard(), clock=clock) as session:

        async def advance(seconds: float) -> None:
            for _ in range(int(seconds)):
                await wait_until(lambda: 1.0 in clock.pending_waits_s)
                clock.advance(1)
            await wait_until(lambda: 1.0 in clock.pending_waits_s or bool(session.cluster.fault))

        yield session, advance


@pytest.mark.parametrize("way", WAYS)
async def test_a_proxy_that_leads_elsewhere_without_a_word_is_found_out_by_the_next_request(
    way: Callable[[Session], Awaitable[None]],
    kubeconfig: Callable[..., Path],
    staging: NamedCluster,
    prod: NamedCluster,
) -> None:
    clock = ManualClock()
    async with ProxyAddress(staging).open() as proxy:
        options = KubeConfigOptions(kubeconfig=str(kubeconfig(proxy.url)))
        async with open_session(options, cluster=ClusterGuard(clock=clock.now)) as session:
            await get(session)
            proxy.cluster = prod
            clock.advance(1.1)
            await refusal(session, ANOTHER, way)
    assert prod.real_requests == []


async def test_a_proxy_that_leads_elsewhere_without_a_word_is_found_out_within_five_seconds(
    kubeconfig: Callable[..., Path],
    clock: ManualClock,
    staging: NamedCluster,
    prod: NamedCluster,
) -> None:
    async with (
        ProxyAddress(staging).open() as proxy,
        ticking(kubeconfig(proxy.url), clock) as (session, advance),
    ):
        assert await ApiEvictor(session).evict(WEB) == Accepted()
        proxy.cluster = prod
        await advance(5)
        await session.cluster.faulted.wait()
        assert prod.real_requests == []
        await refusal(session, ANOTHER)


async def test_a_proxy_that_failed_over_is_asked_before_the_next_request(
    opened: Open, staging: NamedCluster, prod: NamedCluster
) -> None:
    async with ProxyAddress(staging).open() as proxy:
        session = await opened(proxy.url)
        assert await ApiEvictor(session).evict(WEB) == Accepted()
        proxy.fails = True
        assert isinstance(await ApiEvictor(session).evict(WEB), EffectUnknown)
        proxy.cluster, proxy.fails = prod, False
        await refusal(session, ANOTHER)
        assert isinstance(await ApiEvictor(session).evict(WEB), NotSent)
    assert prod.real_requests == []


async def test_a_connection_that_is_unused_is_asked_every_five_seconds(
    kubeconfig: Callable[..., Path],
    clock: ManualClock,
    staging: NamedCluster,
    address: Address,
) -> None:
    async with ticking(kubeconfig(address.url), clock) as (session, advance):
        assert await ApiEvictor(session).evict(WEB) == Accepted()
        asked = staging.checks
        await advance(15)
        assert staging.real_requests == [EVICTION]
        assert staging.checks >= asked + 3


async def test_a_session_without_a_guard_asks_nothing(
    kubeconfig: Callable[..., Path], staging: NamedCluster
) -> None:
    options = KubeConfigOptions(kubeconfig=str(kubeconfig(f"http://127.0.0.1:{staging.port}")))
    async with open_session(options) as session:
        await patch(session)
    assert staging.checks == 0
