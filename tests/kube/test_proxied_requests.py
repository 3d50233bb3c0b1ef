"""Requests to the API server through a proxy, and what is said of one that lets none through."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from reactive_desched.app.start_up import log_api_server
from reactive_desched.errors import Unreachable
from reactive_desched.kube.client.session import KubeConfigOptions, Session, open_session
from tests.support.authority import CertificateAuthority
from tests.support.fake_resource import FakeCodec
from tests.support.golden import Golden
from tests.support.http_proxy import HttpProxy
from tests.support.recording_logger import RecordingLogger
from tests.support.scripted_api import ScriptedApi

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

HOST = "api.example"
SECRET = "c4n4ry"

Open = Callable[..., AbstractAsyncContextManager[Session]]


@pytest.fixture
async def behind(
    tmp_path: Path, authority: CertificateAuthority
) -> AsyncIterator[tuple[ScriptedApi, Open]]:
    """Return an API server whose name only a proxy resolves, and a way to open a session to it."""
    ca_file = authority.write(tmp_path / "ca.pem")
    tls = authority.server_context(tmp_path, HOST)
    async with ScriptedApi(FakeCodec.path).serving(tls) as api:

        def open_to(proxy_url: str = "", **environ: str) -> AbstractAsyncContextManager[Session]:
            path = tmp_path / "kubeconfig"
            own = f", proxy-url: '{proxy_url}'" if proxy_url else ""
            server = f"https://{HOST}:{urlsplit(api.url).port}"
            path.write_text(
                "current-context: here\n"
                f"clusters: [{{name: c, cluster: {{server: '{server}',"
                f" certificate-authority: {ca_file}{own}}}}}]\n"
                "users: [{name: u, user: {token: secret}}]\n"
                "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
            )
            return open_session(KubeConfigOptions(kubeconfig=str(path)), environ=environ)

        yield api, open_to


def with_login(url: str, login: str) -> str:
    return url.replace("//", f"//{login}@")


async def refusal(session: Session) -> str:
    with pytest.raises(Unreachable) as caught:
        await session.request("GET", "/version")
    assert caught.value.sent is False
    with pytest.raises(Unreachable) as in_stream:
        async with session.stream("/version", {}):
            pass
    with pytest.raises(Unreachable) as in_post:
        await session.request("POST", "/version", body=b"{}")
    told = str(caught.value)
    assert str(in_stream.value) == told
    assert str(in_post.value) == told.replace("GET", "POST")
    assert SECRET not in told
    return told


async def test_requests_streams_and_evictions_reach_the_server_through_the_proxy_of_the_environment(
    behind: tuple[ScriptedApi, Open],
) -> None:
    api, opened = behind
    async with HttpProxy().serving() as proxy, opened(HTTPS_PROXY=proxy.url) as session:
        assert (await session.request("GET", FakeCodec.path)).ok
        assert (await session.request("POST", "/none", body=b"{}")).status == 404
        async with session.stream(FakeCodec.path, {"watch": "true"}):
            pass
    assert set(proxy.asked) == {f"CONNECT {HOST}:{urlsplit(api.url).port}"}


async def test_the_kubeconfigs_proxy_counts_whatever_no_proxy_says(
    behind: tuple[ScriptedApi, Open],
) -> None:
    _, opened = behind
    async with (
        HttpProxy().serving() as own,
        HttpProxy().serving() as other,
        opened(own.url, HTTPS_PROXY=other.url, NO_PROXY="*") as session,
    ):
        assert (await session.request("GET", FakeCodec.path)).ok
    assert (bool(own.asked), other.asked) == (True, [])


async def test_a_proxy_that_speaks_tls_is_used_too(
    behind: tuple[ScriptedApi, Open], tmp_path: Path, authority: CertificateAuthority
) -> None:
    _, opened = behind
    tls = authority.server_context(tmp_path, "127.0.0.1")
    async with HttpProxy().serving(tls) as proxy, opened(HTTPS_PROXY=proxy.url) as session:
        assert (await session.request("GET", FakeCodec.path)).ok
    assert proxy.asked


async def test_a_password_in_the_url_signs_in_and_is_in_no_log(
    behind: tuple[ScriptedApi, Open],
) -> None:
    _, opened = behind
    log = RecordingLogger()
    async with (
        HttpProxy("me:c4n@4ry").serving() as proxy,
        opened(HTTPS_PROXY=with_login(proxy.url, "me:c4n%404ry")) as session,
    ):
        assert (await session.request("GET", FakeCodec.path)).ok
        log_api_server(session, log)
    assert f"{proxy.url} of $HTTPS_PROXY" in str(log.lines)
    assert "4ry" not in str(log.lines)


@pytest.mark.parametrize("password", ["pür", "p€r", "a:b"])
async def test_a_password_is_sent_in_utf_8_as_by_programs_in_go(
    password: str, behind: tuple[ScriptedApi, Open]
) -> None:
    _, opened = behind
    async with (
        HttpProxy(f"mé:{password}").serving() as proxy,
        opened(HTTPS_PROXY=with_login(proxy.url, f"m%C3%A9:{quote(password)}")) as session,
    ):
        assert (await session.request("GET", FakeCodec.path)).ok


async def test_a_direct_connection_is_logged_as_one(behind: tuple[ScriptedApi, Open]) -> None:
    _, opened = behind
    log = RecordingLogger()
    async with opened(HTTPS_PROXY="http://127.0.0.1:9", NO_PROXY=HOST) as session:
        log_api_server(session, log)
    assert "'proxy': 'none'" in str(log.lines)


@pytest.mark.parametrize("login", ["", f"me:{SECRET}"])
async def test_a_proxy_that_wants_a_password_is_named_with_the_remedy(
    login: str, behind: tuple[ScriptedApi, Open], golden: Golden
) -> None:
    _, opened = behind
    async with HttpProxy("me:right").serving() as proxy:
        url = with_login(proxy.url, login) if login else proxy.url
        async with opened(HTTPS_PROXY=url) as session:
            assert await refusal(session) == golden(proxy=proxy.url)


@pytest.mark.parametrize("status", [403, 503])
async def test_a_proxy_that_refuses_is_named_with_the_remedy(
    status: int, behind: tuple[ScriptedApi, Open], golden: Golden
) -> None:
    _, opened = behind
    async with HttpProxy(refusal=status).serving() as proxy, opened(proxy.url) as session:
        assert await refusal(session) == golden(proxy=proxy.url)


async def test_a_proxy_that_is_away_is_not_taken_for_the_server(
    behind: tuple[ScriptedApi, Open], golden: Golden
) -> None:
    _, opened = behind
    async with HttpProxy().serving() as proxy:
        pass
    async with opened(HTTPS_PROXY=with_login(proxy.url, f"me:{SECRET}")) as session:
        assert await refusal(session) == golden(address=proxy.url.removeprefix("http://"))


async def test_a_proxy_whose_name_is_unknown_is_not_taken_for_the_server(
    behind: tuple[ScriptedApi, Open], golden: Golden
) -> None:
    _, opened = behind
    async with opened(HTTPS_PROXY="http://proxy.invalid:3128") as session:
        assert await refusal(session) == golden()


async def test_a_proxy_that_speaks_no_tls_is_named(
    behind: tuple[ScriptedApi, Open], golden: Golden
) -> None:
    _, opened = behind
    async with (
        HttpProxy().serving() as proxy,
        opened(HTTPS_PROXY=proxy.url.replace("http:", "https:")) as session,
    ):
        told = await refusal(session)
    assert told == golden(address=proxy.url.removeprefix("http://"))


async def test_a_proxy_that_shows_a_certificate_of_its_own_is_named(
    behind: tuple[ScriptedApi, Open], tmp_path: Path
) -> None:
    _, opened = behind
    opens_tls = CertificateAuthority().server_context(tmp_path, HOST)
    async with ScriptedApi(FakeCodec.path).serving(opens_tls) as instead:
        port = urlsplit(instead.url).port
        proxy = HttpProxy()
        proxy.leads_to = port
        async with proxy.serving(), opened(HTTPS_PROXY=proxy.url) as session:
            told = await refusal(session)
    assert f"the proxy {proxy.url} of $HTTPS_PROXY" in told
    assert "cannot trust api.example" in told


async def test_a_plain_request_that_the_proxy_refuses_is_not_taken_for_the_servers_answer(
    kubeconfig: Callable[..., Path], golden: Golden
) -> None:
    path = kubeconfig(f"http://{HOST}:1")
    async with HttpProxy("me:right").serving() as proxy:
        options = KubeConfigOptions(kubeconfig=str(path))
        async with open_session(options, environ={"http_proxy": proxy.url}) as session:
            assert await refusal(session) == golden(proxy=proxy.url)
