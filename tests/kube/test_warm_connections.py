"""An eviction request leaves before `send_now` returns, where a connection is unused."""

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from reactive_desched.kube.client import warm_connections
from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.kube.client.rate_limiter import RateLimit
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
    EvictionResponse,
    TooManyRequests,
)
from reactive_desched.primitives.proxies import Proxy
from tests.support.authority import CertificateAuthority
from tests.support.manual_clock import ManualClock
from tests.support.scripted_api import ScriptedApi, ScriptedReply

pytestmark = pytest.mark.anyio

WEB, DB = EvictionRequest("shop", "web-1", "uid-1"), EvictionRequest("shop", "db-1", "uid-2")
OK = ScriptedReply(201, b"{}")


@pytest.fixture
async def evictor(api: ScriptedApi, session: Session) -> ApiEvictor:
    """Return an evictor that has evicted a pod, and has one unused connection."""
    api.answer_next("POST", OK)
    evictor = ApiEvictor(session)
    assert await evictor.evict(WEB) == Accepted()
    return evictor


async def send_now(evictor: ApiEvictor, request: EvictionRequest = DB) -> EvictionResponse:
    """Send a request at once and return its response."""
    response = evictor.send_now(request)
    assert response is not None, "a connection is unused"
    with anyio.fail_after(10):
        return await response


async def test_nothing_is_sent_at_once_before_there_is_a_connection(
    api: ScriptedApi, session: Session
) -> None:
    assert ApiEvictor(session).send_now(WEB) is None
    assert api.requests == []


async def test_a_request_sent_at_once_is_the_same_as_any_other_but_for_its_pod(
    api: ScriptedApi, evictor: ApiEvictor
) -> None:
    api.answer_next("POST", OK, OK)
    assert await send_now(evictor, WEB) == Accepted()
    await evictor._session.request("POST", api.requests[0].path, body=api.requests[0].body)

    first, at_once, aiohttps = api.requests
    assert (at_once.path, at_once.body) == (first.path, first.body)
    assert dict(at_once.headers) == dict(first.headers) == dict(aiohttps.headers)


async def test_requests_one_after_the_other_use_one_connection(
    api: ScriptedApi, evictor: ApiEvictor
) -> None:
    api.answer_next("POST", *[OK] * 3)
    for _ in range(3):
        await send_now(evictor)

    assert len(api.connections) == 1


async def test_requests_at_once_have_a_connection_each_and_keep_a_few(
    api: ScriptedApi, evictor: ApiEvictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_connections, "MAX_WARM", 2)
    api.answer_next("POST", *[OK] * 5)
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(evictor.evict, DB)

    assert len(api.connections) == 3
    responses = [evictor.send_now(DB) for _ in range(3)]
    assert [response is not None for response in responses] == [True, True, False]
    for response in responses[:2]:
        assert response is not None
        assert await response == Accepted()


async def test_a_connection_that_waits_for_its_response_is_not_used(
    api: ScriptedApi, evictor: ApiEvictor
) -> None:
    api.answer_next("POST", OK)
    response = evictor.send_now(DB)
    assert evictor.send_now(DB) is None
    assert response is not None
    assert await response == Accepted()


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(msgspec.structs.replace(OK, headers={"Connection": "close"}), id="announced"),
        pytest.param(ScriptedReply(201, b"x", {"Content-Length": "9"}, "cut"), id="cut"),
    ],
)
async def test_a_connection_that_the_server_closes_is_not_used_again(
    api: ScriptedApi, evictor: ApiEvictor, reply: ScriptedReply
) -> None:
    api.answer_next("POST", reply, OK)
    await send_now(evictor)

    assert evictor.send_now(DB) is None
    assert await evictor.evict(DB) == Accepted()


async def test_a_connection_that_was_closed_while_unused_is_not_used_again(
    api: ScriptedApi, evictor: ApiEvictor
) -> None:
    (connection,) = api.connections
    connection.abort()
    (unused,) = evictor._session._warm._unused
    with anyio.fail_after(10):
        while not unused[0].closed:  # noqa: ASYNC110  # aiohttp has no event for it
            await anyio.sleep(0.001)

    assert evictor.send_now(DB) is None


async def test_a_connection_that_was_unused_for_long_is_not_used_again(
    evictor: ApiEvictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_connections, "MAX_UNUSED_S", -1.0)
    assert evictor.send_now(DB) is None


async def test_a_connection_made_for_other_credentials_is_not_used_again(
    api: ScriptedApi, evictor: ApiEvictor
) -> None:
    session = evictor._session
    same = msgspec.structs.replace(
        session.credentials.config, headers={"Authorization": "Bearer 2"}
    )
    session.credentials._config = same
    api.answer_next("POST", OK)
    assert await send_now(evictor) == Accepted()
    assert api.requests[-1].headers["Authorization"] == "Bearer 2"

    session.credentials._config = msgspec.structs.replace(same, tls_server_name="other")
    assert evictor.send_now(DB) is None


async def test_without_a_token_of_the_rate_limit_nothing_is_sent_at_once(
    api: ScriptedApi, kubeconfig: Callable[..., Path], clock: ManualClock
) -> None:
    options = KubeConfigOptions(kubeconfig=str(kubeconfig(api.url)))
    rate = RateLimit(qps=1, burst=2, critical_reserve=0)
    api.answer_next("POST", OK, OK)
    async with open_session(options, rate_limit=rate, clock=clock) as session:
        evictor = ApiEvictor(session)
        await evictor.evict(WEB)
        assert await send_now(evictor) == Accepted()

        assert (evictor.send_now(DB), api.count("POST")) == (None, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"proxy": Proxy("http://127.0.0.1:9", "")},
        {"headers": {"Authorization": "Bearer a\r\nX: b"}},
    ],
)
async def test_what_only_aiohttp_can_send_is_left_to_it(
    api: ScriptedApi, evictor: ApiEvictor, change: dict[str, object]
) -> None:
    session = evictor._session
    session.credentials._config = msgspec.structs.replace(session.credentials.config, **change)

    assert evictor.send_now(DB) is None
    assert isinstance(await evictor.evict(DB), TooManyRequests | EffectUnknown)
    assert api.count("POST") == 1


async def test_a_path_before_the_api_is_kept(
    api: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    options = KubeConfigOptions(kubeconfig=str(kubeconfig(f"{api.url}/k8s/c1")))
    api.answer_next("POST", OK)
    async with open_session(options) as session:
        await ApiEvictor(session).evict(WEB)

    assert api.requests[0].path == "/k8s/c1/api/v1/namespaces/shop/pods/web-1/eviction"


async def test_a_response_that_does_not_come_in_time_leaves_the_effect_unknown(
    api: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    options = KubeConfigOptions(kubeconfig=str(kubeconfig(api.url)))
    limits = RequestLimits(total_s=0.2)
    api.answer_next("POST", OK, ScriptedReply(201, b"{", {"Content-Length": "9"}, "hang"))
    async with open_session(options, limits=limits, rate_limit=RateLimit(qps=1000)) as session:
        evictor = ApiEvictor(session)
        await evictor.evict(WEB)
        answer = await send_now(evictor)

        assert isinstance(answer, EffectUnknown)
        assert evictor.send_now(DB) is None


async def test_a_response_longer_than_allowed_leaves_the_effect_unknown(
    api: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    options = KubeConfigOptions(kubeconfig=str(kubeconfig(api.url)))
    api.answer_next("POST", OK, ScriptedReply(201, b"x" * 100))
    async with open_session(options, limits=RequestLimits(body_bytes=10)) as session:
        evictor = ApiEvictor(session)
        await evictor.evict(WEB)

        assert isinstance(await send_now(evictor), EffectUnknown)


async def test_rejected_credentials_are_read_again(api: ScriptedApi, evictor: ApiEvictor) -> None:
    api.answer_next("POST", ScriptedReply(401))
    await send_now(evictor)
    assert evictor._session.credentials._invalidated


@pytest.fixture
async def not_http() -> AsyncIterator[str]:
    """Serve lines that are no HTTP."""

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"SSH-2.0-OpenSSH_9.9\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        yield f"http://127.0.0.1:{port}"
        group.cancel_scope.cancel()


async def test_what_is_no_http_leaves_the_effect_unknown(
    not_http: str, kubeconfig: Callable[..., Path]
) -> None:
    options = KubeConfigOptions(kubeconfig=str(kubeconfig(not_http)))
    async with open_session(options) as session:
        assert isinstance(await ApiEvictor(session).evict(WEB), EffectUnknown)


async def test_the_end_of_the_session_closes_every_connection(
    api: ScriptedApi, kubeconfig: Callable[..., Path]
) -> None:
    options = KubeConfigOptions(kubeconfig=str(kubeconfig(api.url)))
    api.answer_next("POST", OK, ScriptedReply(201, after_body="hang"))
    async with open_session(options) as session:
        evictor = ApiEvictor(session)
        await evictor.evict(WEB)
        evictor.send_now(DB)  # whoever waited for it is gone
        warm = session._warm

    assert (warm._unused, warm._in_use) == ([], set())


Connect = Callable[..., AbstractAsyncContextManager[tuple[ScriptedApi, ApiEvictor]]]


@pytest.fixture
def connect(authority: CertificateAuthority, tmp_path: Path) -> Connect:
    """Return a way to a server over TLS whose certificate is for `host`, and an evictor."""

    @asynccontextmanager
    async def connecting(
        host: str, **cluster: str
    ) -> AsyncIterator[tuple[ScriptedApi, ApiEvictor]]:
        tls = authority.server_context(tmp_path, host)
        async with ScriptedApi("/pods").serving(tls) as api:
            config = tmp_path / "config"
            found = {"name": "c", "cluster": {"server": api.url, **cluster}}
            context = {"name": "here", "context": {"cluster": "c", "user": "u"}}
            user = {"name": "u", "user": {"token": "secret"}}
            document = {"current-context": "here", "clusters": [found], "contexts": [context]}
            config.write_bytes(msgspec.json.encode(document | {"users": [user]}))
            async with open_session(KubeConfigOptions(kubeconfig=str(config))) as session:
                yield api, ApiEvictor(session)

    return connecting


def bytes_that_reached(api: ScriptedApi) -> bytes:
    """Return what the server could read now of the connection that was opened last."""
    line = list(api.connections)[-1].get_extra_info("socket")
    with socket.socket(fileno=os.dup(line.fileno())) as same:
        return same.recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT)


async def test_a_request_sent_at_once_is_with_the_server_before_the_turn_ends(
    api: ScriptedApi, evictor: ApiEvictor
) -> None:
    api.answer_next("POST", OK)
    response = evictor.send_now(DB)
    assert bytes_that_reached(api).startswith(b"POST ")
    assert response is not None
    assert await response == Accepted()


async def test_a_request_sent_at_once_over_tls_is_with_the_server_before_the_turn_ends(
    connect: Connect, ca_file: Path
) -> None:
    async with connect("127.0.0.1", **{"certificate-authority": str(ca_file)}) as (api, evictor):
        api.answer_next("POST", OK, OK)
        assert await evictor.evict(WEB) == Accepted()

        response = evictor.send_now(DB)

        assert bytes_that_reached(api)
        assert response is not None
        assert await response == Accepted()
        assert len(api.connections) == 1
