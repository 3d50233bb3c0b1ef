"""The token of a kubeconfig, a canary, never shows up in what we say of a failure."""

import asyncio
import traceback
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from reactive_desched.errors import ConfigError, ReactiveDeschedError
from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions
from reactive_desched.kube.client.events import EventRecorder
from reactive_desched.kube.client.rate_limiter import RateLimit
from reactive_desched.kube.client.session import open_session
from reactive_desched.model.kube_events import KubeEvent, Regarding
from tests.support.echo_server import (
    EchoReply,
    EchoServer,
    close_connection,
    echo_as_headers,
    echo_raw,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CANARY = "c4n4ry"
TOKEN, KEY = f"{CANARY}-token", b64encode(CANARY.encode()).decode()


@pytest.fixture(autouse=True)
def unredacted(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Keep what anybody logs at any level, before our own log takes out what looks secret."""
    with caplog.at_level("DEBUG"):
        yield


def hidden(told: str) -> list[str]:
    """Return the lines that let a secret out."""
    return [line for line in told.splitlines() if CANARY in line or KEY in line]


def kubeconfig(folder: Path, url: str, user: str) -> KubeConfigOptions:
    path = folder / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
        f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
        f"users: [{{name: u, user: {user}}}]\n"
        "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
    )
    return KubeConfigOptions(kubeconfig=str(path))


async def forbidding(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
    await writer.drain()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(forbidding, id="unknown"),
        pytest.param(echo_raw, id="no HTTP"),
        pytest.param(echo_as_headers, id="broken headers"),
        pytest.param(close_connection, id="cut"),
    ],
)
async def test_the_token_of_a_kubeconfig_is_not_shown_when_a_request_fails(
    answer: EchoReply, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    echo = EchoServer(answer)
    told: list[str] = []
    async with echo.serving() as address:
        config = kubeconfig(tmp_path, f"http://{address}", f"{{token: {TOKEN}}}")
        async with open_session(config, rate_limit=RateLimit(qps=1000, burst=1000)) as session:
            try:
                told.append(repr(await session.request("GET", "/api/v1/pods")))
            except ReactiveDeschedError as error:
                told += [repr(error), *traceback.format_exception(error)]
            told += [repr(config), repr(session)]

    assert f"Bearer {TOKEN}".encode() in echo.received
    assert hidden("\n".join([*told, caplog.text])) == []


async def test_an_event_that_cannot_be_written_is_reported_without_the_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    echo, lines = EchoServer(forbidding), list[str]()
    async with echo.serving() as address, anyio.create_task_group() as group:
        config = kubeconfig(tmp_path, f"http://{address}", f"{{token: {TOKEN}}}")
        async with open_session(config, rate_limit=RateLimit(qps=1000, burst=1000)) as session:
            recorder = EventRecorder(
                session, "here", lambda event, **values: lines.append(f"{event} {values}")
            )
            group.start_soon(recorder.run)
            recorder.record(KubeEvent(Regarding("Pod", "shop", "web"), "A", "B", "C"))
            await recorder.drained()
            group.cancel_scope.cancel()

    assert "an Event was not written" in lines[0]
    assert hidden("\n".join([*lines, caplog.text])) == []


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(f"{{token: {TOKEN}", id="no end"),
        pytest.param(f"{{token: {TOKEN}, exec: {CANARY}}}", id="no section"),
        pytest.param(f"{{client-certificate-data: {KEY}, client-key-data: {KEY}}}", id="no key"),
        pytest.param(
            "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never,"
            f" command: 'false', env: [{{name: A, value: {TOKEN}}}]}}}}",
            id="a plugin that fails",
        ),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_not_quoted(
    user: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError) as caught:
        async with open_session(kubeconfig(tmp_path, "https://127.0.0.1:9", user)):
            pass

    told = [repr(caught.value), *traceback.format_exception(caught.value), caplog.text]
    assert hidden("\n".join(told)) == []
