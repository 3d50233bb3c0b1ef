"""Prometheus is reached through the environment's proxy, as the API server is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from ssl import SSLContext

import pytest
from aiohttp import web

from reactive_desched.errors import UsageUnavailable
from reactive_desched.usage.prometheus import (
    PrometheusQuerySource,
    ServiceAccountToken,
    open_prometheus,
)
from tests.support.authority import CertificateAuthority
from tests.support.golden import Golden
from tests.support.http_proxy import HttpProxy
from tests.support.tls_handshake import check_strictly

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ANSWER = (
    '{"status": "success", "data": {"resultType": "vector",'
    ' "result": [{"metric": {"instance": "n1"}, "value": [1, "0.5"]}]}}'
)
SECRET = "c4n4ry"


@asynccontextmanager
async def prometheus(tls: SSLContext | None = None) -> AsyncIterator[int]:
    """Serve an answer on a free port, and return that."""

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=ANSWER, content_type="application/json")

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def nodes(url: str, folder: Path, **environ: str) -> list[str]:
    async with open_prometheus(5.0, folder) as http:
        tokens = ServiceAccountToken(folder)
        source = PrometheusQuerySource(http, url, "q", tokens, lambda: 1.0, environ)
        return [each.node for each in await source.measure()]


async def refusal(url: str, folder: Path, **environ: str) -> str:
    with pytest.raises(UsageUnavailable) as caught:
        await nodes(url, folder, **environ)
    assert SECRET not in str(caught.value)
    return str(caught.value)


async def test_it_is_asked_through_the_proxy_and_the_clusters_authority_is_trusted_on_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_strictly(monkeypatch)
    authority = CertificateAuthority(is_lax=True)
    authority.write(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("abc")
    tls = authority.server_context(tmp_path, "prometheus.example")
    async with prometheus(tls) as port, HttpProxy().serving() as proxy:
        url = f"https://prometheus.example:{port}"
        assert await nodes(url, tmp_path, https_proxy=proxy.url) == ["n1"]
    assert proxy.asked == [f"CONNECT prometheus.example:{port}"]


async def test_over_http_the_proxy_gets_the_whole_address() -> None:
    async with prometheus() as port, HttpProxy().serving() as proxy:
        url = f"http://prometheus.example:{port}"
        assert await nodes(url, Path("/nowhere"), HTTP_PROXY=proxy.url) == ["n1"]
    assert proxy.asked == [f"POST {url}/api/v1/query"]


async def test_what_no_proxy_names_is_asked_without_it() -> None:
    async with HttpProxy().serving() as proxy:
        told = await refusal(
            "http://prometheus.monitoring.svc",
            Path("/nowhere"),
            HTTP_PROXY=proxy.url,
            NO_PROXY=".cluster.local,.svc",
        )
    assert (proxy.asked, "proxy" in told) == ([], False)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_wants_a_password_is_named_with_the_remedy(
    scheme: str, golden: Golden
) -> None:
    async with HttpProxy("me:right").serving() as proxy:
        environ = {f"{scheme}_proxy": proxy.url.replace("//", f"//me:{SECRET}@")}
        told = await refusal(f"{scheme}://prometheus.example", Path("/nowhere"), **environ)
    assert told == golden(proxy=proxy.url)


async def test_a_proxy_that_cannot_be_used_is_refused(golden: Golden) -> None:
    environ = {"HTTP_PROXY": f"socks5://me:{SECRET}@p:1"}
    assert await refusal("http://prometheus.example", Path("/nowhere"), **environ) == golden()
