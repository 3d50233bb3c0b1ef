"""Prometheus is asked over real HTTP; whatever is wrong with its answer has upstream's words."""

import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from reactive_desched.errors import Unreachable, UsageUnavailable
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.model.usage import NodeUsage
from reactive_desched.usage import prometheus as prometheus_module
from reactive_desched.usage.monitoring_server import TokenSource
from reactive_desched.usage.prometheus import (
    PrometheusQuerySource,
    SecretToken,
    ServiceAccountToken,
    open_prometheus,
)
from tests.support.authority import CertificateAuthority
from tests.support.golden import verbatim

pytestmark = pytest.mark.anyio

QUERY = 'instance:node_cpu:rate:sum{job="node"}'
NOW_S = 1_800_000_000.0


def vector(*samples: tuple[str | None, str]) -> dict[str, Any]:
    result = [
        {"metric": {} if name is None else {"instance": name}, "value": [NOW_S - 1.5, value]}
        for name, value in samples
    ]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


class Server:
    """Answers every query alike and keeps what it was sent."""

    def __init__(self) -> None:
        self.answer: Any = vector(("n1", "0.5"))
        self.status = 200
        self.headers: list[dict[str, str]] = []
        self.queries: list[tuple[str, Any]] = []
        self.url = ""

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["Server"]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        host, port = runner.addresses[0][:2]
        self.url = f"{'https' if tls else 'http'}://{host}:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        self.queries.append((request.path, (await request.post()).get("query")))
        if isinstance(self.answer, bytes):
            return web.Response(status=self.status, body=self.answer)
        return web.json_response(self.answer, status=self.status)


class Token:
    """A token as it is."""

    def __init__(self, token: str = "") -> None:
        self._token = token

    async def token(self, url: object) -> str:
        return self._token


NO_TOKEN = Token()


async def measure(
    server: Server, tokens: TokenSource = NO_TOKEN, folder: Path = Path("/nowhere"), path: str = ""
) -> list[NodeUsage]:
    async with open_prometheus(5.0, folder) as http:
        source = PrometheusQuerySource(http, f"{server.url}{path}", QUERY, tokens, lambda: NOW_S)
        return list(await source.measure())


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server().serving() as running:
        yield running


async def test_a_sample_becomes_per_cent_cut_off_to_a_whole_number(server: Server) -> None:
    values = {"n1": "0.2038", "n2": "0.42450000", "n3": "0.5695", "n4": "0.29", "n5": "1"}
    server.answer = vector(*values.items())

    found = await measure(server)

    assert {each.node: each.usage["MetricResource"] for each in found} == {
        "n1": 20,
        "n2": 42,
        "n3": 56,
        "n4": 28,  # 0.29 is a little less in binary, as upstream has it
        "n5": 100,
    }
    assert {each.source for each in found} == {f"Prometheus/{QUERY}"}
    assert {each.sampled_s for each in found} == {NOW_S - 1.5}


@pytest.mark.parametrize("path", ["", "/", "/behind/a/proxy"])
async def test_the_query_is_posted_below_the_address(server: Server, path: str) -> None:
    await measure(server, path=path)

    assert server.queries == [(f"{path.rstrip('/')}/api/v1/query", QUERY)]
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            {"status": "error", "errorType": "bad_data", "error": "parse error"},
            verbatim("unable to capture prometheus metrics: bad_data: parse error"),
            id="a refused query",
        ),
        pytest.param(
            {"status": "success", "data": {"resultType": "scalar", "result": [1.0, "1"]}},
            verbatim('expected query results to be of type "vector", got "scalar" instead'),
            id="a scalar",
        ),
        pytest.param(
            vector(("n1", "0.5"), (None, "0.5")),
            verbatim("the collected metrics sample is missing 'instance' key"),
            id="no instance",
        ),
        pytest.param(
            vector(("n1", "0.5"), ("n2", "1.2038")),
            verbatim(
                'the collected metrics sample for "n2" has value 1.2038 outside of <0; 1> interval'
            ),
            id="too much",
        ),
        pytest.param(
            vector(("n1", "NaN")),
            verbatim(
                'the collected metrics sample for "n1" has value NaN outside of <0; 1> interval'
            ),
            id="no number",
        ),
        pytest.param(
            vector(("n1", "-0.1")),
            verbatim(
                'the collected metrics sample for "n1" has value -0.1 outside of <0; 1> interval'
            ),
            id="less than nothing",
        ),
        pytest.param(
            b"<html>",
            verbatim("unable to capture prometheus metrics: ") + "the answer is not Prometheus's",
            id="something else",
        ),
        pytest.param(
            {"status": "success", "data": {"resultType": "vector", "result": [7]}},
            verbatim("unable to capture prometheus metrics: ") + "the answer is not Prometheus's",
            id="no series",
        ),
    ],
)
async def test_what_is_wrong_with_an_answer_has_upstreams_words(
    server: Server, answer: Any, message: str
) -> None:
    server.answer = answer

    with pytest.raises(UsageUnavailable) as error:
        await measure(server)
    assert str(error.value) == message


async def test_a_refusal_is_reported_by_its_status(server: Server) -> None:
    server.answer, server.status = b"go away", 403

    with pytest.raises(UsageUnavailable, match=r"prometheus metrics: http://.*: 403 Forbidden$"):
        await measure(server)


async def test_an_error_of_prometheus_comes_with_another_status(server: Server) -> None:
    server.answer, server.status = (
        {"status": "error", "errorType": "timeout", "error": "query timed out"},
        503,
    )

    with pytest.raises(UsageUnavailable, match="timeout: query timed out"):
        await measure(server)


async def test_a_redirect_is_not_followed_and_the_token_not_sent_on(server: Server) -> None:
    server.answer, server.status = b"", 302

    with pytest.raises(UsageUnavailable, match="302"):
        await measure(server, Token("s3cret"))
    assert len(server.headers) == 1


async def test_an_answer_without_end_is_cut_off(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus_module, "MAX_BODY_BYTES", 1000)
    server.answer = vector(*((f"n{n}", "0.5") for n in range(100)))

    with pytest.raises(UsageUnavailable, match="longer than 1000 bytes"):
        await measure(server)


async def test_no_error_holds_the_token() -> None:
    server = Server()
    server.url = "http://127.0.0.1:1"

    with pytest.raises(UsageUnavailable, match="cannot connect") as error:
        await measure(server, Token("s3cret\nwith a newline"))
    assert "s3cret" not in repr(error.value.__context__)


# --- tokens -------------------------------------------------------------------------------------


class Secrets:
    """An API server with one Secret."""

    def __init__(self, answer: ApiResponse | Exception) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **_: object) -> ApiResponse:
        self.asked.append(f"{method} {path}")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def secret(**data: str) -> ApiResponse:
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return ApiResponse(200, {}, msgspec.json.encode({"kind": "Secret", "data": encoded}))


async def test_the_token_of_a_secret_is_shown(server: Server) -> None:
    secrets = Secrets(secret(prometheusAuthToken="s3cret\n"))
    await measure(server, SecretToken(secrets, "monitoring", "prom"))  # type: ignore[arg-type]  # what it uses of a session

    assert server.headers[0]["Authorization"] == "Bearer s3cret"
    assert secrets.asked == ["GET /api/v1/namespaces/monitoring/secrets/prom"]


async def test_a_rotated_token_is_shown_with_the_next_query(server: Server) -> None:
    secrets = Secrets(secret(prometheusAuthToken="old"))
    tokens = SecretToken(secrets, "monitoring", "prom")  # type: ignore[arg-type]  # as above
    await measure(server, tokens)
    secrets.answer = secret(prometheusAuthToken="new")
    await measure(server, tokens)

    assert [each["Authorization"] for each in server.headers] == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            ApiResponse(404, {}, b'{"code":404,"message":"secrets \\"prom\\" not found"}'),
            verbatim('unable to get monitoring/prom secret: 404 secrets "prom" not found'),
            id="not there",
        ),
        pytest.param(
            Unreachable("GET", "gone", sent=False),
            "unable to get monitoring/prom secret: GET: gone",
            id="no answer",
        ),
        pytest.param(
            secret(other="s3cret"),
            verbatim(
                'prometheus authentication token secret missing "prometheusAuthToken" data or empty'
            ),
            id="another key",
        ),
        pytest.param(
            secret(prometheusAuthToken=""),
            verbatim(
                'prometheus authentication token secret missing "prometheusAuthToken" data or empty'
            ),
            id="empty",
        ),
        pytest.param(
            ApiResponse(200, {}, b'{"data": {"prometheusAuthToken": "no base64!"}}'),
            verbatim(
                'prometheus authentication token secret missing "prometheusAuthToken" data or empty'
            ),
            id="no base64",
        ),
    ],
)
async def test_without_a_token_nothing_is_asked(
    server: Server, answer: ApiResponse | Exception, message: str
) -> None:
    with pytest.raises(UsageUnavailable) as error:
        await measure(server, SecretToken(Secrets(answer), "monitoring", "prom"))  # type: ignore[arg-type]  # as above
    assert str(error.value) == message
    assert server.headers == []


async def test_the_service_account_shows_its_token_over_https_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("mine\n", encoding="ascii")
    authority = CertificateAuthority()
    authority.write(tmp_path / "ca.crt")
    tokens = ServiceAccountToken(tmp_path)
    async with Server().serving(authority.server_context(tmp_path, "127.0.0.1")) as safe:
        await measure(safe, tokens, tmp_path)
        assert safe.headers[0]["Authorization"] == "Bearer mine"
    async with Server().serving() as unsafe:
        await measure(unsafe, tokens, tmp_path)
        assert "Authorization" not in unsafe.headers[0]


async def test_outside_a_cluster_there_is_no_token_and_no_authority(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    async with Server().serving(authority.server_context(tmp_path, "127.0.0.1")) as server:
        with pytest.raises(UsageUnavailable, match="cannot trust"):
            await measure(server, ServiceAccountToken(tmp_path / "none"))


async def test_an_authority_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("nothing of the kind", encoding="ascii")

    with pytest.raises(UsageUnavailable, match="error loading CA file"):
        await measure(Server(), NO_TOKEN, tmp_path)


async def test_a_token_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "token").mkdir()
    async with Server().serving() as server:
        server.url = server.url.replace("http://", "https://")
        with pytest.raises(
            UsageUnavailable, match=verbatim("unexpected error when reading in cluster")
        ):
            await measure(server, ServiceAccountToken(tmp_path))
