import re
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import unquote

import aiohttp
import pytest
from aiohttp.web_response import StreamResponse

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.web import access
from reactive_desched.web.health import Health
from reactive_desched.web.listen_socket import bound
from reactive_desched.web.operator import (
    CLUSTER_HEADER,
    MAX_BODY_BYTES,
    MAX_INDENTED_BYTES,
    DebugPage,
    Operator,
    Order,
)
from reactive_desched.web.server import Served, serve_at

pytestmark = pytest.mark.anyio


def read(query: Mapping[str, str]) -> object:
    if "bad" in query:
        raise ConfigError("bad is not a filter")
    return {"query": dict(query)}


class Orders:
    def __init__(self) -> None:
        self.carried_out: list[Mapping[str, Any]] = []

    async def carry_out(self, body: Mapping[str, Any]) -> object:
        if "reason" not in body:
            raise ConfigError("a reason is missing")
        self.carried_out.append(body)
        return {"done": True}


@pytest.fixture
def orders() -> Orders:
    return Orders()


@pytest.fixture
async def client(orders: Orders) -> AsyncIterator[aiohttp.ClientSession]:
    offered = Operator(
        (DebugPage("page", "what there is", read),),
        (Order("pause", "stop", orders.carry_out),),
        lambda: "kind-ä (uid u, https://10.0.0.1)",
    )
    async with (
        bound(ListenAddress("127.0.0.1", 0)) as address,
        serve_at(address, Served(Health(lambda: 0.0), operator=offered)) as url,
        aiohttp.ClientSession(url) as session,
    ):
        yield session


async def test_a_debug_page_answers_as_json_and_is_in_the_index(
    client: aiohttp.ClientSession,
) -> None:
    async with client.get("/debug/page?a=1") as answer:
        assert (answer.status, await answer.json()) == (200, {"query": {"a": "1"}})
    async with client.get("/debug/page?bad=1") as answer:
        assert (answer.status, await answer.text()) == (400, "bad is not a filter\n")
    async with client.get("/") as index:
        assert "/debug/page         what there is\n" in await index.text()


async def test_every_answer_names_the_cluster_of_the_controller(
    client: aiohttp.ClientSession,
) -> None:
    asked = [
        client.get("/debug/page"),
        client.get("/debug/page?bad=1"),
        client.post("/operator/pause", json={"reason": "maintenance"}),
        client.post("/operator/pause", json={}),
    ]
    for each in asked:
        async with each as answer:
            named = unquote(answer.headers[CLUSTER_HEADER])
            assert named == "kind-ä (uid u, https://10.0.0.1)"


async def test_an_order_is_carried_out_and_answered(
    client: aiohttp.ClientSession, orders: Orders
) -> None:
    async with client.post("/operator/pause", json={"reason": "maintenance"}) as answer:
        assert (answer.status, await answer.json()) == (200, {"done": True})
    assert orders.carried_out == [{"reason": "maintenance"}]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param({"json": {}}, 400, id="an order that cannot be carried out"),
        pytest.param({"json": [1]}, 400, id="no object"),
        pytest.param({"data": "{"}, 415, id="no JSON type"),
        pytest.param(
            {"json": {"reason": "x"}, "headers": {"Origin": "http://evil"}}, 403, id="a web page"
        ),
        pytest.param({"json": {"reason": "x" * MAX_BODY_BYTES}}, 413, id="too long"),
    ],
)
async def test_other_orders_are_rejected(
    client: aiohttp.ClientSession, orders: Orders, request_: dict[str, Any], status: int
) -> None:
    async with client.post("/operator/pause", **request_) as answer:
        assert answer.status == status
    assert orders.carried_out == []


async def test_only_orders_can_be_written(client: aiohttp.ClientSession) -> None:
    for path in ("/debug/page", "/readyz", "/"):
        async with client.post(path, json={}) as answer:
            assert answer.status == 405


async def test_clients_of_other_machines_are_rejected(
    client: aiohttp.ClientSession, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_peer_address", lambda _: "10.0.0.7")

    async with client.get("/debug/page") as page:
        assert page.status == 403
        assert "kubectl port-forward" in await page.text()
    async with client.post("/operator/pause", json={"reason": "x"}) as order:
        assert order.status == 403
    assert orders.carried_out == []


@pytest.mark.parametrize(
    ("peer", "allowed"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.7", False),
        ("fe80::1%eth0", False),
        ("::ffff:10.0.0.7", False),
        ("", False),
    ],
)
def test_the_own_machine_is_known_by_its_address(peer: str, *, allowed: bool) -> None:
    assert access.is_loopback(peer) is allowed


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:10258", 200),
        ("127.0.0.1", 200),
        ("[::1]:10258", 200),
        ("desched.example.com:10258", 403),
        ("localhost.example.com", 403),
    ],
)
async def test_a_name_that_a_web_page_may_have_bound_to_this_machine_is_refused(
    client: aiohttp.ClientSession, host: str, status: int
) -> None:
    async with client.get("/debug/page", headers={"Host": host}) as answer:
        assert answer.status == status


async def test_a_page_may_be_awaited() -> None:
    async def read_later(query: Mapping[str, str]) -> object:
        if query:
            raise ConfigError("no filter")
        return {"later": True}

    offered = Operator((DebugPage("later", "what comes later", read_later),))
    async with (
        bound(ListenAddress("127.0.0.1", 0)) as address,
        serve_at(address, Served(Health(lambda: 0.0), operator=offered)) as url,
        aiohttp.ClientSession(url) as session,
    ):
        async with session.get("/debug/later") as answer:
            assert await answer.json() == {"later": True}
        async with session.get("/debug/later?x=1") as answer:
            assert (answer.status, await answer.text()) == (400, "no filter\n")


async def test_browsers_get_the_live_page_where_it_is_served() -> None:
    html = {"Accept": "text/html"}
    async with (
        bound(ListenAddress("127.0.0.1", 0)) as address,
        serve_at(address, Served(Health(lambda: 0.0), live_page=True)) as url,
        aiohttp.ClientSession(url) as session,
    ):
        async with session.get("/", headers=html) as answer:
            page = await answer.text()
            assert answer.content_type == "text/html"
        parts = re.findall(r'(?:src|href)="(ui/[^"]+)"', page)
        assert sorted(parts) == ["ui/app.js", "ui/style.css"]
        for part in (*parts, "ui/reasons.html"):
            async with session.get(f"/{part}") as answer:
                assert answer.status == 200
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        async with session.get("/") as answer:
            assert answer.content_type == "text/plain"


async def test_a_long_answer_comes_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"number": number, "text": "x" * 1000} for number in range(2000)]
    written: list[int] = []

    async def write(self: StreamResponse, data: bytes) -> None:
        written.append(len(data))
        await send(self, data)

    send = StreamResponse.write
    monkeypatch.setattr(StreamResponse, "write", write)
    offered = Operator((DebugPage("rows", "many rows", lambda _: {"rows": rows, "last": True}),))
    async with (
        bound(ListenAddress("127.0.0.1", 0)) as address,
        serve_at(address, Served(Health(lambda: 0.0), operator=offered)) as url,
        aiohttp.ClientSession(url) as session,
    ):
        async with session.get("/debug/rows") as answer:
            assert answer.content_type == "application/json"
            assert await answer.json() == {"rows": rows, "last": True}
        assert max(written) < 2 * MAX_INDENTED_BYTES
        written.clear()
        async with session.head("/debug/rows") as head:
            assert (head.status, await head.read(), written) == (200, b"", [])
        async with session.get("/debug/rows") as again:  # of the same connection
            assert len((await again.json())["rows"]) == 2000


async def test_a_long_answer_to_an_order_comes_whole() -> None:
    rows = [{"number": number, "text": "x" * 1000} for number in range(500)]

    async def carry_out(_: Mapping[str, Any]) -> object:
        return rows

    offered = Operator(orders=(Order("list", "list rows", carry_out),))
    async with (
        bound(ListenAddress("127.0.0.1", 0)) as address,
        serve_at(address, Served(Health(lambda: 0.0), operator=offered)) as url,
        aiohttp.ClientSession(url) as session,
        session.post("/operator/list", json={}) as answer,
    ):
        assert await answer.json() == rows


async def test_a_client_that_leaves_in_the_middle_of_a_long_answer_is_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = [{"number": number, "text": "x" * 1000} for number in range(20_000)]
    offered = Operator((DebugPage("rows", "many rows", lambda _: {"rows": rows}),))
    async with (
        bound(ListenAddress("127.0.0.1", 0)) as address,
        serve_at(address, Served(Health(lambda: 0.0), operator=offered)) as url,
    ):
        async with aiohttp.ClientSession(url) as leaves:
            answer = await leaves.get("/debug/rows")
            await answer.content.readexactly(1000)
            answer.close()
        async with aiohttp.ClientSession(url) as stays, stays.get("/debug/rows") as answer:
            assert len((await answer.json())["rows"]) == 20_000

    assert caplog.records == []
