"""Commands ask a running controller through the proxy of the environment, as kubectl does."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from anyio import to_thread

from reactive_desched.cli import main
from reactive_desched.cli.controller_client import ControllerClient
from reactive_desched.errors import ConfigError, ControllerUnavailable
from tests.support.authority import CertificateAuthority
from tests.support.golden import Golden
from tests.support.http_proxy import HttpProxy

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

HOST = "desched.example"
VARIABLES = ("http_proxy", "https_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Have no proxies but those of the test."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


async def _answer(request: web.BaseRequest) -> web.StreamResponse:
    headers = {"Reactive-Desched-Cluster": "caf%C3%A9"}
    if request.path.endswith("/events"):
        return web.Response(text=": nothing yet\n\n", content_type="text/event-stream")
    if request.path.endswith("/gone"):
        return web.Response(status=404)
    said = {"path": request.path_qs, "token": request.headers.get("Authorization", "")}
    return web.json_response({**said, "body": await request.text()}, headers=headers)


@asynccontextmanager
async def controller(tls: Any = None) -> AsyncIterator[int]:
    """Serve what a controller would; yield the port."""
    runner = web.ServerRunner(web.Server(_answer), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def in_thread(call: Callable[..., Any], *arguments: Any) -> Any:
    return await to_thread.run_sync(partial(call, *arguments))


async def test_a_controller_is_asked_through_the_proxy(
    environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("canary")
    async with controller() as port, HttpProxy("me:s3cret").serving() as proxy:
        environ.setenv("HTTP_PROXY", proxy.url.replace("//", "//me:s3cret@"))
        client = ControllerClient(f"http://{HOST}:{port}/base/", token_file=str(token))
        answer = await in_thread(client.ask, "pending", {"limit": "3"})
        order = await in_thread(client.send_order, "pause", {"by": "me"})

    assert answer.value["path"] == "/base/debug/pending?limit=3"
    assert (answer.value["token"], answer.cluster) == ("Bearer canary", "café")
    assert (order.value["path"], order.value["body"]) == ("/base/operator/pause", '{"by": "me"}')
    assert proxy.asked[0].startswith(f"GET http://{HOST}:{port}/base/debug/pending")


async def test_a_controller_with_tls_is_asked_through_a_tunnel(
    environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = CertificateAuthority()
    ca_file = str(authority.write(tmp_path / "ca.crt"))
    tls = authority.server_context(tmp_path, "other.example")
    async with controller(tls) as port, HttpProxy().serving() as proxy:
        environ.setenv("https_proxy", proxy.url)
        client = ControllerClient(f"https://{HOST}:{port}", None, ca_file, "other.example")
        answer = await in_thread(client.ask, "status")

    assert answer.value["path"] == "/debug/status"
    assert proxy.asked == [f"CONNECT {HOST}:{port}"]


@pytest.mark.parametrize(
    ("host", "excluded"),
    [
        pytest.param("127.0.0.1", "", id="this machine"),
        pytest.param("localhost", "", id="its name"),
        pytest.param("127.0.0.1", "*", id="none at all"),
    ],
)
async def test_this_machine_is_asked_directly(
    environ: pytest.MonkeyPatch, host: str, excluded: str
) -> None:
    async with controller() as port, HttpProxy().serving() as proxy:
        environ.setenv("HTTP_PROXY", proxy.url)
        environ.setenv("NO_PROXY", excluded)
        client = ControllerClient(f"http://{host}:{port}")
        assert (await in_thread(client.ask, "status")).value["path"] == "/debug/status"
    assert proxy.asked == []


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("login", ["", "me:wrong@"])
async def test_a_proxy_that_wants_a_password_is_named_with_the_remedy(
    environ: pytest.MonkeyPatch, scheme: str, login: str, golden: Golden
) -> None:
    async with HttpProxy("me:right").serving() as proxy:
        environ.setenv(f"{scheme}_proxy", proxy.url.replace("//", f"//{login}"))
        with pytest.raises(ControllerUnavailable) as caught:
            await in_thread(ControllerClient(f"{scheme}://{HOST}:1").ask, "status")

    assert str(caught.value) == golden(proxy=proxy.url)


async def test_a_proxy_that_is_away_is_not_taken_for_the_controller(
    environ: pytest.MonkeyPatch, golden: Golden
) -> None:
    async with HttpProxy().serving() as proxy:
        pass
    environ.setenv("HTTP_PROXY", proxy.url)
    with pytest.raises(ControllerUnavailable) as caught:
        await in_thread(ControllerClient(f"http://{HOST}:1").ask, "status")

    assert str(caught.value) == golden(place=proxy.url.removeprefix("http://"))


async def test_an_answer_through_a_proxy_names_it(environ: pytest.MonkeyPatch) -> None:
    async with controller() as port, HttpProxy().serving() as proxy:
        environ.setenv("HTTP_PROXY", proxy.url)
        with pytest.raises(ControllerUnavailable, match=f", through the proxy {proxy.url}"):
            await in_thread(ControllerClient(f"http://{HOST}:{port}").ask, "gone")


async def test_socks_is_refused_with_a_remedy(environ: pytest.MonkeyPatch, golden: Golden) -> None:
    environ.setenv("HTTPS_PROXY", "socks5://127.0.0.1:1080")
    with pytest.raises(ConfigError) as caught:
        await in_thread(ControllerClient(f"https://{HOST}").ask, "status")
    assert str(caught.value) == golden()


async def test_events_are_read_through_the_proxy(
    environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with controller() as port, HttpProxy().serving() as proxy:
        environ.setenv("HTTP_PROXY", proxy.url)
        flags = ["--server", f"http://{HOST}:{port}", "--from", "0"]
        assert await in_thread(main, ["events", "tail", *flags]) == 0
    assert proxy.asked[0].startswith(f"GET http://{HOST}:{port}/events")

    environ.setenv("HTTP_PROXY", proxy.url)
    assert await in_thread(main, ["events", "tail", *flags]) == 1
    assert (
        f"cannot connect to the proxy {proxy.url.removeprefix('http://')}"
        in capsys.readouterr().err
    )
