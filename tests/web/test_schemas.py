import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from reactive_desched.api.event import DATA_TYPES, dataschema, schema_name
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.web.health import Health
from reactive_desched.web.schemas import read_schema
from reactive_desched.web.server import Served, serve

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        serve(ListenAddress("127.0.0.1", 0), Served(Health(lambda: 0.0))) as url,
        aiohttp.ClientSession(url) as session,
    ):
        yield session


async def fetched(client: aiohttp.ClientSession, path: str) -> Any:
    async with client.get(path) as answer:
        assert answer.status == 200
        return json.loads(await answer.read())


@pytest.mark.parametrize("type_", DATA_TYPES)
async def test_the_schema_an_event_names_is_served_under_its_last_part(
    client: aiohttp.ClientSession, type_: str
) -> None:
    name = dataschema(type_).rpartition(":")[2]

    schema = await fetched(client, f"/schemas/{name}.json")

    assert schema["$id"] == dataschema(type_)


async def test_the_index_leads_to_every_schema_there_is(client: aiohttp.ClientSession) -> None:
    index = await fetched(client, "/schemas/")

    named = {index["event"], *(each["schema"] for each in index["types"].values())}
    files = (ROOT / "reactive_desched/api/schemas").glob("*.json")
    served = {each.stem for each in files} - {"index"}
    assert named <= served
    assert all(read_schema(f"{name}.json") for name in served)
    older = {name.rpartition(".")[0] for name in served - named}
    assert older <= {name.rpartition(".")[0] for name in named}, "records of earlier releases"
    for name in named:
        await fetched(client, f"/schemas/{name}.json")


async def test_the_index_needs_no_slash_at_its_end(client: aiohttp.ClientSession) -> None:
    assert await fetched(client, "/schemas") == await fetched(client, "/schemas/")


async def test_only_what_never_changes_may_be_kept_for_ever(client: aiohttp.ClientSession) -> None:
    one = schema_name(next(iter(DATA_TYPES)))
    async with client.get(f"/schemas/{one}.json") as answer:
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.headers["Content-Type"] == "application/schema+json"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    for path in ("/schemas/", "/schemas/event.v1.json"):
        async with client.get(path) as answer:
            assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "name",
    [
        "no-such.json",
        "event.v1",
        "..%2Fevent.py",
        "%2e%2e/event.py",
        "..%5cevent.py",
        "%2Fetc%2Fpasswd",
        "event.v1.json%00",
        "event.v1.json/",
    ],
)
async def test_nothing_but_a_schema_is_found_here(client: aiohttp.ClientSession, name: str) -> None:
    async with client.get(f"/schemas/{name}") as answer:
        assert answer.status == 404


async def test_a_request_for_an_unknown_schema_is_sent_to_the_index(
    client: aiohttp.ClientSession,
) -> None:
    async with client.get("/schemas/no-such.json") as answer:
        assert "/schemas/" in await answer.text()
    async with client.get("/") as index:
        assert "/schemas/" in await index.text()
