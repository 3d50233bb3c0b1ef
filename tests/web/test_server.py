import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import aiohttp
import anyio
import pytest
from yarl import URL

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.telemetry.registry import MetricsRegistry
from reactive_desched.web import server
from reactive_desched.web.health import CheckResult, EventLoopPulse, Health, Heartbeat
from reactive_desched.web.listen_socket import bound_if_set
from reactive_desched.web.server import Served, serve, serve_probes_at

pytestmark = pytest.mark.anyio

ANYWHERE = ListenAddress("127.0.0.1", 0)
PATHS = ["/", "/livez", "/healthz", "/readyz", "/metrics"]


@pytest.fixture
def health() -> Health:
    return Health(lambda: 0.0)


@pytest.fixture
def metrics() -> MetricsRegistry:
    return MetricsRegistry()


@pytest.fixture
async def url(health: Health, metrics: MetricsRegistry) -> AsyncIterator[str]:
    async with serve(ANYWHERE, Served(health, metrics)) as url:
        yield url


@pytest.fixture
async def client(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(url) as session:
        yield session


async def raw(url: str, request: bytes) -> bytes:
    address = URL(url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def test_probes_show_the_state_in_status_and_text(
    client: aiohttp.ClientSession, health: Health
) -> None:
    state = CheckResult(ok=True)
    health.add_readiness_check("journal", lambda: state)

    async with client.get("/readyz") as well:
        assert (well.status, await well.text()) == (200, "ok")
    async with client.get("/readyz?verbose") as told:
        assert (told.status, await told.text()) == (200, "[+]journal ok\nreadyz check passed\n")
    state = CheckResult(ok=False, message="disk full")
    async with client.get("/readyz") as ill:
        assert ill.status == 503
        assert "[-]journal failed: disk full" in await ill.text()
    async with client.get("/livez") as alive:
        assert alive.status == 200


async def test_metrics_come_in_the_format_asked_for(
    client: aiohttp.ClientSession, metrics: MetricsRegistry
) -> None:
    metrics.register(EventLoopPulse(Heartbeat(1, lambda: 0)))

    async with client.get("/metrics") as plain:
        assert plain.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "reactive_desched_loop_lag_seconds_count 0.0" in await plain.text()
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with client.get("/metrics", headers=accept) as open_metrics:
        assert "openmetrics-text; version=1.0.0" in open_metrics.headers["Content-Type"]
        assert (await open_metrics.text()).endswith("# EOF\n")


async def test_the_index_names_every_path(client: aiohttp.ClientSession) -> None:
    async with client.get("/") as index:
        text = await index.text()

    assert [path for path in PATHS if path not in text] == []


async def test_a_stream_that_is_switched_off_says_how_to_have_it(
    client: aiohttp.ClientSession,
) -> None:
    async with client.get("/events") as nothing:
        assert nothing.status == 404
        assert "sinks: {stream: {}}" in await nothing.text()
    async with client.get("/") as index:
        assert "/events" not in await index.text()


async def test_metrics_that_are_switched_off_are_nowhere(health: Health) -> None:
    async with serve(ANYWHERE, Served(health)) as url, aiohttp.ClientSession(url) as client:
        async with client.get("/metrics") as nothing:
            assert nothing.status == 404
        async with client.get("/") as index:
            assert "/metrics" not in await index.text()
        async with client.get("/livez") as alive:
            assert alive.status == 200


@pytest.mark.parametrize("path", PATHS)
async def test_head_is_get_without_its_body(client: aiohttp.ClientSession, path: str) -> None:
    async with client.head(path) as answer:
        assert (answer.status, await answer.read()) == (200, b"")


@pytest.mark.parametrize("path", [*PATHS, "/elsewhere"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_nothing_but_reading_is_allowed(
    client: aiohttp.ClientSession, path: str, method: str
) -> None:
    async with client.request(method, path) as answer:
        assert answer.status == 405
        assert set(answer.headers["Allow"].split(",")) == {"GET", "HEAD"}


@pytest.mark.parametrize("path", [*PATHS, "/elsewhere", "/../etc/passwd", "/livez/%00"])
async def test_every_answer_carries_the_protective_headers(
    client: aiohttp.ClientSession, path: str
) -> None:
    async with client.get(path) as answer:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert "aiohttp" not in answer.headers["Server"]
        assert answer.status == (200 if path in PATHS else 404)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(b"GET /" + b"x" * 5_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", id="long line"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"x" * 5_000 + b"\r\n\r\n", id="long header"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: h\r\n" + b"A: b\r\n" * 100 + b"\r\n", id="many headers"
        ),
        pytest.param(b"\x16\x03\x01 hello\r\n\r\n", id="TLS by mistake"),
    ],
)
async def test_an_outsized_or_senseless_request_is_refused_and_the_next_one_served(
    client: aiohttp.ClientSession, url: str, request_: bytes
) -> None:
    assert b" 400 " in (await raw(url, request_)).splitlines()[0]

    async with client.get("/livez") as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n", id="a NUL in a header"),
        pytest.param(b"?\r\n\r\n", id="no HTTP at all"),
    ],
)
async def test_what_is_no_request_is_counted_not_logged_and_its_answer_says_little(
    url: str, metrics: MetricsRegistry, caplog: pytest.LogCaptureFixture, request_: bytes
) -> None:
    caplog.set_level("DEBUG")
    with anyio.fail_after(8):  # it is hung up at once, not after the ten seconds of aiohttp
        reply = (await raw(url, request_)).decode()

    head, _, text = reply.partition("\r\n\r\n")
    assert head.startswith(("HTTP/1.1 400 ", "HTTP/1.0 400 "))
    assert "Server: reactive-desched\r\n" in head + "\r\n"
    assert "X-Content-Type-Options: nosniff" in head
    assert "Cache-Control: no-store" in head
    assert text.startswith("this is not a request")
    assert not [line for line in caplog.messages if "request" in line.lower()]
    counted = b"reactive_desched_http_malformed_requests_total 1.0"
    assert counted in metrics.exposition("")[0]


@pytest.mark.parametrize("expectation", [b"the unknown", b"\xff"])
async def test_an_unknown_expectation_is_not_met(url: str, expectation: bytes) -> None:
    head = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: " + expectation
    with anyio.fail_after(30):
        reply = await raw(url, head + b"\r\n\r\n")

    assert reply.startswith(b"HTTP/1.1 417 ")
    assert b"X-Content-Type-Options: nosniff" in reply


async def test_a_client_that_waits_for_it_is_asked_to_continue(url: str) -> None:
    head = b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue"
    with anyio.fail_after(30):
        reply = await raw(url, head + b"\r\n\r\n")

    assert reply.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


async def test_a_fault_of_our_own_is_logged_and_answered_500(
    client: aiohttp.ClientSession,
    metrics: MetricsRegistry,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(_: str) -> tuple[Iterator[bytes], str]:
        raise ZeroDivisionError

    monkeypatch.setattr(metrics, "parts", fails)
    async with client.get("/metrics") as answer:
        assert answer.status == 500
        assert answer.headers["Server"] == "reactive-desched"
        assert "ZeroDivisionError" not in await answer.text()
    assert "ZeroDivisionError" in caplog.text


async def test_between_the_parts_of_the_metrics_the_event_loop_does_other_work(
    client: aiohttp.ClientSession, metrics: MetricsRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    story: list[str] = []

    def parts(_: str) -> tuple[Iterator[bytes], str]:
        def render() -> Iterator[bytes]:
            for number in range(3):
                story.append(f"part {number}")
                asyncio.get_running_loop().call_soon(story.append, "other work")
                yield b"%d\n" % number

        return render(), "text/plain"

    monkeypatch.setattr(metrics, "parts", parts)
    async with client.get("/metrics") as answer:
        assert await answer.text() == "0\n1\n2\n"

    assert story[:5] == ["part 0", "other work", "part 1", "other work", "part 2"]


async def test_a_request_is_answered_however_many_clients_say_nothing(
    health: Health, metrics: MetricsRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    async with serve(ANYWHERE, Served(health, metrics)) as url:
        address = URL(url)
        silent = [await asyncio.open_connection(address.host, address.port) for _ in range(5)]

        with anyio.fail_after(30):
            assert b"200 OK" in await raw(url, b"GET /livez HTTP/1.0\r\n\r\n")
            for reader, _ in silent[:4]:
                assert await reader.read() == b""
        crowded = b"reactive_desched_http_connections_crowded_out_total 4.0"
        assert crowded in metrics.exposition("")[0]
        for _, writer in silent:
            writer.close()


async def test_ending_does_not_wait_for_clients_that_hold_on(
    health: Health, metrics: MetricsRegistry
) -> None:
    with anyio.fail_after(10):
        async with serve(ANYWHERE, Served(health, metrics)) as url:
            address = URL(url)
            silent, halfway, idle = [
                await asyncio.open_connection(address.host, address.port) for _ in range(3)
            ]
            halfway[1].write(b"GET /livez HTTP/1.1\r\nHost:")
            idle[1].write(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
            assert b"200 OK" in await idle[0].readline()

        for reader, writer in (silent, halfway, idle):
            await reader.read()
            writer.close()


async def test_an_address_in_use_is_named_with_the_remedy(
    health: Health, metrics: MetricsRegistry
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"127.0.0.1:{port}.*choose another address"):
            async with serve(ListenAddress("127.0.0.1", port), Served(health, metrics)):
                pass


async def test_it_listens_on_ipv6_too(health: Health, metrics: MetricsRegistry) -> None:
    async with serve(ListenAddress("::1", 0), Served(health, metrics)) as url:
        assert url.startswith("http://[::1]:")


async def test_probes_on_their_own_address_get_health_and_nothing_else(health: Health) -> None:
    async with (
        bound_if_set(ANYWHERE) as probe_address,
        serve_probes_at(probe_address, health) as probes,
        aiohttp.ClientSession(probes) as session,
    ):
        for path in ("/livez", "/readyz", "/healthz"):
            async with session.get(path) as answer:
                assert (answer.status, await answer.text()) == (200, "ok")
        async with session.get("/metrics") as nothing:
            assert nothing.status == 404
        async with session.get("/") as index:
            assert "/readyz" in await index.text()


async def test_probes_without_an_address_of_their_own_are_served_at_none(health: Health) -> None:
    async with bound_if_set(None) as none, serve_probes_at(none, health) as url:
        assert (none, url) == (None, "")
