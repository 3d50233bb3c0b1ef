"""Health checks ask over real HTTP; whatever is no clear answer is no answer, and says why."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from reactive_desched.errors import UsageUnavailable
from reactive_desched.model.health import HELD_KEYS, HealthAnswer
from reactive_desched.policy.settings.health import HealthCheckSettings
from reactive_desched.usage import health_sources
from reactive_desched.usage.health_sources import open_health_source

pytestmark = pytest.mark.anyio

NOW_S = 1_800_000_000.0
NOWHERE = Path("/nowhere")


def vector(*samples: tuple[dict[str, str], str], at: float = NOW_S, **more: Any) -> dict[str, Any]:
    result = [{"metric": labels, "value": [at, value]} for labels, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


def of_type(name: str, result: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": name, "result": result}}


class Server:
    """Answers by what is asked, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answer: Callable[[str], Any] = lambda _: vector()
        self.status = 200
        self.asked: list[tuple[str, str, list[str]]] = []
        self.tokens: list[str] = []
        self.url = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Server"]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization", ""))
        query = str((await request.post()).get("query", ""))
        filters = request.query.getall("filter", [])
        self.asked.append((request.method, request.path, [query] if query else filters))
        answer = self.answer(query or ",".join(filters))
        if isinstance(answer, bytes):
            return web.Response(status=self.status, body=answer)
        return web.json_response(answer, status=self.status)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server().serving() as running:
        yield running


async def prometheus(server: Server, known_by: str = "", **check: Any) -> HealthAnswer:
    asked = {"url": server.url, "query": "errors > 5", "knownBy": known_by}
    if token_file := check.pop("tokenFile", ""):
        asked["tokenFile"] = token_file
    settings = HealthCheckSettings.model_validate({"name": "x", "prometheus": asked, **check})
    async with open_health_source(settings, lambda: NOW_S, NOWHERE, {}) as source:
        return await source.ask()


async def alertmanager(server: Server, *known_by: str, **check: Any) -> HealthAnswer:
    asked = {"url": server.url, "alerts": ['severity="page"', "team=~shop|pay"]}
    if known_by:
        asked["knownBy"] = list(known_by)
    settings = HealthCheckSettings.model_validate({"name": "x", "alertmanager": asked, **check})
    async with open_health_source(settings, lambda: NOW_S, NOWHERE, {}) as source:
        return await source.ask()


async def test_no_sample_is_health_and_any_sample_is_none(server: Server) -> None:
    assert await prometheus(server) == HealthAnswer("x")

    server.answer = lambda _: vector(({"job": "a"}, "0"), ({"job": "b", "__name__": "up"}, "7.5"))
    found = await prometheus(server)

    assert [str(each) for each in found.symptoms] == ['0 {job="a"}', '7.5 {job="b"}']
    assert server.asked[-1] == ("POST", "/api/v1/query", ["errors > 5"])


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(of_type("scalar", [NOW_S, "1"]), "query yields a scalar", id="scalar"),
        pytest.param(of_type("string", [NOW_S, "x"]), "query yields a string", id="string"),
        pytest.param(
            of_type("matrix", [{"metric": {}, "values": [[NOW_S, "1"]]}]),
            "query yields a matrix",
            id="matrix",
        ),
        pytest.param(vector(({}, "NaN")), "1 sample is not a number", id="NaN"),
        pytest.param(vector(warnings=["store down"]), "store down", id="part"),
        pytest.param(
            {"status": "error", "errorType": "bad_data", "error": "parse error"},
            "query: bad_data: parse error",
            id="error",
        ),
        pytest.param(vector(({}, "1"), at=NOW_S - 3600), "1h old", id="stale"),
        pytest.param(vector(({}, "1"), at=NOW_S + 3600), "1h ahead", id="of the future"),
        pytest.param(b"<html>", "the answer (200) is not Prometheus's", id="another server"),
        pytest.param([], "the answer (200) is not Prometheus's", id="another JSON"),
    ],
)
async def test_what_is_no_clear_answer_is_none(server: Server, answer: Any, problem: str) -> None:
    server.answer = lambda _: answer

    with pytest.raises(UsageUnavailable) as caught:
        await prometheus(server)

    assert problem in str(caught.value)


async def test_samples_count_beside_others_that_are_no_numbers_and_with_warnings(
    server: Server,
) -> None:
    server.answer = lambda _: vector(({"job": "a"}, "NaN"), ({"job": "b"}, "1"), warnings=["part"])

    assert [str(each) for each in (await prometheus(server)).symptoms] == ['1 {job="b"}']


@pytest.mark.parametrize("status", [401, 403, 500, 503])
async def test_a_refusal_is_no_answer(server: Server, status: int) -> None:
    server.status, server.answer = status, lambda _: b"no"

    with pytest.raises(UsageUnavailable, match=f"{server.url}: {status}"):
        await prometheus(server)


async def test_without_a_sample_of_known_by_no_sample_is_no_proof_of_health(server: Server) -> None:
    with pytest.raises(UsageUnavailable, match="knownBy yields no sample"):
        await prometheus(server, "up == 1")

    server.answer = lambda query: vector(({}, "1")) if query == "up == 1" else vector()
    assert await prometheus(server, "up == 1") == HealthAnswer("x")


async def test_the_token_of_the_file_is_shown_as_it_is_now(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(UsageUnavailable, match="No such file"):
        await prometheus(server, tokenFile=str(file))
    file.write_text("secret\n")
    await prometheus(server, tokenFile=str(file))

    assert server.tokens == ["Bearer secret"]


async def test_an_answer_that_is_too_long_is_none(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_sources, "MAX_BODY_BYTES", 1000)
    server.answer = lambda _: vector(*(({"pod": f"p{i}"}, "1") for i in range(100)))

    with pytest.raises(UsageUnavailable, match="let the query aggregate"):
        await prometheus(server)


async def test_many_samples_of_few_namespaces_are_one_for_each(server: Server) -> None:
    many = [({"namespace": f"ns{i % 3}", "pod": f"p{i}"}, "1") for i in range(3 * HELD_KEYS)]
    server.answer = lambda _: vector(*many)

    found = await prometheus(server, holds="namespace")
    assert [each.labels["namespace"] for each in found.symptoms] == ["ns0", "ns1", "ns2"]
    assert found.more == 0

    of_all = await prometheus(server)
    assert (len(of_all.symptoms), of_all.more) == (HELD_KEYS, 2 * HELD_KEYS)


async def test_the_label_that_names_who_is_held_is_kept_whole(server: Server) -> None:
    name = "n" * 300
    labels = {"which": name, **{f"a{i:02}": "v" * 300 for i in range(50)}}
    server.answer = lambda _: vector((labels, "1"))

    (found,) = (await prometheus(server, holds="profile", label="which")).symptoms

    assert found.labels["which"] == name
    assert len(found.labels) <= 12
    assert max(len(value) for key, value in found.labels.items() if key != "which") < 150


def alert(state: str, **labels: str) -> dict[str, Any]:
    return {"labels": labels, "status": {"state": state, "silencedBy": [], "inhibitedBy": []}}


async def test_alerts_are_asked_for_by_their_labels_without_silenced_ones(server: Server) -> None:
    server.answer = lambda _: [
        alert("active", alertname="Errors", severity="page"),
        alert("suppressed", alertname="Known", severity="page"),
    ]

    found = await alertmanager(server)

    assert [str(each) for each in found.symptoms] == ['{alertname="Errors", severity="page"}']
    method, path, filters = server.asked[-1]
    assert (method, path) == ("GET", "/api/v2/alerts")
    assert filters == ['severity="page"', "team=~shop|pay"]


async def test_without_the_alert_of_known_by_there_is_no_answer(server: Server) -> None:
    watchdog = 'alertname="Watchdog"'
    server.answer = lambda _: []
    with pytest.raises(UsageUnavailable, match="no alert fires that knownBy names"):
        await alertmanager(server, watchdog)

    server.answer = lambda asked: [alert("active", alertname="W")] if asked == watchdog else []
    assert await alertmanager(server, watchdog) == HealthAnswer("x")


@pytest.mark.parametrize(
    ("status", "answer", "problem"),
    [
        (400, "bad matcher format", "Alertmanager answers 400: bad matcher format"),
        (200, {"status": "success"}, "is not Alertmanager's"),
        (200, b"<html>", "is not Alertmanager's"),
        (502, b"<html>", "502 Bad Gateway"),
    ],
)
async def test_what_is_no_list_of_alerts_is_no_answer(
    server: Server, status: int, answer: Any, problem: str
) -> None:
    server.status, server.answer = status, lambda _: answer

    with pytest.raises(UsageUnavailable) as caught:
        await alertmanager(server)

    assert problem in str(caught.value)
