"""Tokens and certificates: who is answered over HTTP, and by what."""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import CapturingLogger

from reactive_desched.errors import ClusterError, ConfigError, RateLimited, Unreachable
from reactive_desched.model.rights import AccessReview
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.telemetry.registry import MetricsRegistry
from reactive_desched.web import tls
from reactive_desched.web.access import COOKIE, TokenAccess
from reactive_desched.web.health import Health
from reactive_desched.web.listen_socket import bound
from reactive_desched.web.operator import DebugPage, Operator, Order
from reactive_desched.web.server import Security, Served, serve_at
from reactive_desched.web.tls import ServerCertificate
from tests.support.authority import CertificateAuthority
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

READER = {"Authorization": "Bearer reader"}
OWN_FILES = (
    "/",
    "/ui/app.js",
    "/ui/style.css",
    "/ui/reasons.html",
    "/livez",
    "/readyz",
    "/healthz",
)


class Rbac:
    """Lets a reader get everything, an operator post to pause, too, and a guest nothing."""

    def __init__(self) -> None:
        self.fault: ClusterError | None = None

    async def review(self, token: str, verb: str, path: str) -> AccessReview:
        if self.fault is not None:
            raise self.fault
        allowed = {"reader": {"get"}, "operator": {"get", "post"}, "guest": set[str]()}
        if token not in allowed:
            return AccessReview()
        return AccessReview(token, verb in allowed[token])


async def carry_out(_: Mapping[str, Any]) -> object:
    return {"done": True}


@asynccontextmanager
async def serving(security: Security, metrics: MetricsRegistry | None = None) -> AsyncIterator[str]:
    operator = Operator(
        (DebugPage("status", "what it does", lambda _: {"mode": "live"}),),
        (Order("pause", "stop", carry_out),),
    )
    served = Served(Health(lambda: 0.0), metrics, operator=operator, live_page=True)
    async with (
        bound(ListenAddress("127.0.0.1", 0)) as address,
        serve_at(address, served, security) as url,
    ):
        yield url


@pytest.fixture
def rbac() -> Rbac:
    return Rbac()


@pytest.fixture
def metrics(rbac: Rbac) -> MetricsRegistry:
    del rbac
    return MetricsRegistry()


@pytest.fixture
async def client(rbac: Rbac, metrics: MetricsRegistry) -> AsyncIterator[aiohttp.ClientSession]:
    access = TokenAccess(rbac.review, is_encrypted=False)
    metrics.register(access)
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an IP address
    async with (
        serving(Security(access), metrics) as url,
        aiohttp.ClientSession(url, cookie_jar=jar) as session,
    ):
        yield session


async def test_without_a_token_only_probes_and_the_files_of_the_page_are_served(
    client: aiohttp.ClientSession,
) -> None:
    for path in OWN_FILES:
        async with client.get(path) as answer:
            assert answer.status == 200, path
    for path in ("/metrics", "/events", "/debug/status", "/schemas/"):
        async with client.get(path) as answer:
            assert answer.status == 401, path
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert "kubectl create token" in await answer.text()
    async with client.post("/operator/pause", json={}) as answer:
        assert answer.status == 401


@pytest.mark.parametrize(
    ("token", "read", "ordered"),
    [("reader", 200, 403), ("operator", 200, 200), ("guest", 403, 403), ("stranger", 401, 401)],
)
async def test_a_token_gives_what_rbac_gives_its_user(
    client: aiohttp.ClientSession, metrics: MetricsRegistry, token: str, read: int, ordered: int
) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    async with client.get("/debug/status", headers=headers) as answer:
        assert answer.status == read
    async with client.get("/metrics", headers=headers) as answer:
        assert answer.status == read
    async with client.post("/operator/pause", json={}, headers=headers) as answer:
        assert answer.status == ordered
        if ordered == 403:
            text = await answer.text()
            assert 'nonResourceURLs: ["/operator/pause"] and verbs: ["post"]' in text

    text = metrics.exposition("")[0].decode()
    denied = {401: "Unauthorized", 403: "Forbidden"}
    for reason in denied.values():
        count = sum(denied.get(status) == reason for status in (read, read, ordered))
        assert f'http_denied_requests_total{{reason="{reason}"}} {count}.0' in text


async def test_the_page_logs_in_and_then_reads_but_gives_no_orders(
    client: aiohttp.ClientSession,
) -> None:
    async with client.post("/login", json={"token": " operator\n"}) as answer:
        assert answer.status == 204
        cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    async with client.get("/debug/status") as answer:
        assert answer.status == 200
    async with client.post("/operator/pause", json={}) as answer:
        assert answer.status == 401, "a cookie is sent by any page"

    async with client.post("/logout") as answer:
        assert answer.status == 204
    async with client.get("/debug/status") as answer:
        assert answer.status == 401


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"token": "stranger"}', {}, 401),
        (b'{"token": "guest"}', {}, 403),
        (b'{"token": "reader"}', {"Origin": "http://elsewhere.example"}, 403),
        (b"reader", {}, 400),
        (b'{"token": "' + b"x" * 5000 + b'"}', {}, 413),
    ],
)
async def test_no_other_user_logs_in(
    client: aiohttp.ClientSession, body: bytes, headers: Mapping[str, str], status: int
) -> None:
    async with client.post("/login", data=body, headers=headers) as answer:
        assert answer.status == status
        assert COOKIE not in answer.cookies


@pytest.mark.parametrize(
    ("fault", "status", "text"),
    [
        (RateLimited("too many tokens are being reviewed"), 429, "too many"),
        (Unreachable("POST tokenreviews", "refused", sent=False), 503, "system:auth-delegator"),
    ],
)
async def test_without_a_review_nothing_is_answered(
    client: aiohttp.ClientSession, rbac: Rbac, fault: ClusterError, status: int, text: str
) -> None:
    rbac.fault = fault
    async with client.get("/debug/status", headers=READER) as answer:
        assert answer.status == status
        assert text in await answer.text()
        assert answer.headers["Retry-After"] == "1"
    async with client.get("/livez") as answer:
        assert answer.status == 200


# --- TLS ---


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority()


def trusting(authority: CertificateAuthority, folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.write(folder / "ca.crt"))


def certificate(
    authority: CertificateAuthority, folder: Path, log: CapturingLogger | None = None
) -> ServerCertificate:
    cert, key = authority.issue(folder, "server", "127.0.0.1")
    return ServerCertificate(str(cert), str(key), log or CapturingLogger())


async def test_everything_is_served_over_tls_and_nothing_without(
    authority: CertificateAuthority, tmp_path: Path, rbac: Rbac
) -> None:
    access = TokenAccess(rbac.review, is_encrypted=True)
    served = certificate(authority, tmp_path)
    trusted = trusting(authority, tmp_path)
    async with serving(Security(access, served.context)) as url:
        assert url.startswith("https://")
        async with aiohttp.ClientSession(url) as client:
            async with client.get("/debug/status", headers=READER, ssl=trusted) as answer:
                assert await answer.json() == {"mode": "live"}
            async with client.post("/login", json={"token": "reader"}, ssl=trusted) as answer:
                assert "Secure" in answer.headers["Set-Cookie"]
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await client.get("/livez")
        async with aiohttp.ClientSession(url.replace("https", "http")) as plain:
            with pytest.raises(aiohttp.ClientError):
                await plain.get("/livez")


async def test_a_new_certificate_is_served_and_one_that_cannot_be_is_not(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "RELOAD_INTERVAL_S", 0.01)
    log = CapturingLogger()
    served = certificate(authority, tmp_path, log)

    async def serial_when(changed: str) -> str:
        async with asyncio.timeout(5):
            while not any(changed in call.args[0] for call in log.calls):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return await _serial(url)

    async with serving(Security(tls=served.context)) as url, asyncio.TaskGroup() as group:
        reloading = group.create_task(served.run())
        first = await _serial(url)
        (tmp_path / "server.key").write_text("not a key")
        assert await serial_when("cannot be used") == first
        certificate(authority, tmp_path)
        assert await serial_when("was read again") != first
        reloading.cancel()


async def _serial(url: str) -> str:
    host, port = url.removeprefix("https://").split(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return str(hash(found))


async def test_clients_that_never_finish_a_handshake_hold_few_places_and_keep_no_other_client_out(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "MAX_HANDSHAKES", 3)
    served, trusted = certificate(authority, tmp_path), trusting(authority, tmp_path)
    async with serving(Security(tls=served.context)) as url:
        host, port = url.removeprefix("https://").split(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
        async with aiohttp.ClientSession(url) as client, client.get("/livez", ssl=trusted) as one:
            assert one.status == 200
        async with asyncio.timeout(3):
            for reader, _ in silent[:2]:
                with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                    await reader.readexactly(1)
        for _, writer in silent:
            writer.close()
            with contextlib.suppress(ConnectionError):  # the first ones are cut off
                await writer.wait_closed()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda cert, key: cert.unlink(),
        lambda cert, key: key.write_text("x"),
    ],
)
def test_files_that_cannot_be_used_end_the_start(
    authority: CertificateAuthority, tmp_path: Path, spoil: Any, golden: Golden
) -> None:
    cert, key = authority.issue(tmp_path, "server", "127.0.0.1")
    spoil(cert, key)
    with pytest.raises(ConfigError) as caught:
        ServerCertificate(os.fspath(cert), os.fspath(key), CapturingLogger())

    assert golden() in str(caught.value)


async def test_connections_are_accepted_again_after_too_many_files_were_open(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_ACCEPT_RETRY_S", 0.01)
    served, trusted = certificate(authority, tmp_path), trusting(authority, tmp_path)
    accept, failures = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")] * 2

    def accept_later(listening: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", accept_later)
    async with (
        serving(Security(tls=served.context)) as url,
        aiohttp.ClientSession(url) as client,
        client.get("/livez", ssl=trusted) as one,
    ):
        assert (one.status, failures) == (200, [])
