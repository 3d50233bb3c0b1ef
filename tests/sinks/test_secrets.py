"""Secrets, each a canary, never show up in what we say: whatever fails, and wherever it is told."""

import asyncio
import logging
import struct
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from anyio.testing import wait_all_tasks_blocked

from reactive_desched.errors import ReactiveDeschedError
from reactive_desched.journal.positions import Positions
from reactive_desched.journal.records import Entry
from reactive_desched.journal.tail import Tail
from reactive_desched.kube.events import Event, EventRecorder, Regarding
from reactive_desched.kube.kubeconfig import KubeConfig
from reactive_desched.kube.session import open_session
from reactive_desched.kube.throttle import Rate
from reactive_desched.policy.load import load_settings
from reactive_desched.policy.problems import PolicyErrors
from reactive_desched.policy.recording import Kafka, KafkaTls, Sasl, Webhook
from reactive_desched.sink_metrics import sink_families
from reactive_desched.sinks.dead_letters import DeadLetters
from reactive_desched.sinks.kafka import KafkaSink
from reactive_desched.sinks.relay import Relay
from reactive_desched.sinks.sink import Sink
from reactive_desched.sinks.webhook import WebhookSink
from reactive_desched.testing.authority import Authority
from reactive_desched.testing.entries import evictions

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CANARY = "c4n4ry"
TOKEN, SECRET, PASSWORD = f"{CANARY}-token", f"{CANARY}-secret", f"{CANARY}-password"
LONG_S = 20.0


class Log:
    """Keeps every line, and how a logger would write its values."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def debug(self, event: str, **values: Any) -> None:  # as structlog takes them
        self.lines.append(f"{event} {values!r} {list(map(str, values.values()))}")

    info = warning = debug


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture(autouse=True)
def unredacted(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Keep what anybody logs at any level, before our own log takes out what looks secret."""
    with caplog.at_level(logging.DEBUG):
        yield caplog


def everything_of(error: BaseException | None) -> str:
    """Return all that could be told of an error and of those behind it, hidden or not."""
    if error is None:
        return ""
    trace = "".join(traceback.format_exception(error))
    behind = everything_of(error.__cause__) + everything_of(error.__context__)
    return f"{trace} {error} {error!r} {error.args!r} {vars(error)!r}\n{behind}"


class Watched:
    """A sink whose errors are kept."""

    def __init__(self, sink: Sink) -> None:
        self.errors: list[Exception] = []
        self.failed = anyio.Event()
        self._sink = sink
        self.name = sink.name
        self.from_start = True

    async def deliver(self, entries: Sequence[Entry]) -> int:
        try:
            return await self._sink.deliver(entries)
        except Exception as error:
            self.errors.append(error)
            self.failed.set()
            raise

    async def close(self) -> None:
        await self._sink.close()


def written_in(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.rglob("*.json*")]


def write(path: str, raw: bytes) -> None:
    Path(path).write_bytes(raw)


async def everything_told(
    sink: Sink, folder: Path, log: Log, caplog: pytest.LogCaptureFixture
) -> str:
    """Have a relay drive a sink until it fails, and return whatever was said, shown or written."""
    tail, watched = Tail(folder, "//c/d/i/e", 1, 0), Watched(sink)
    relay = Relay(
        watched,
        tail,
        Positions(folder),
        DeadLetters(folder),
        clock=lambda: 0.0,
        wall=lambda: datetime.now(UTC),
        rng=Random(1),
        log=log,
    )
    tail.published(evictions(2))
    async with anyio.create_task_group() as group:
        group.start_soon(relay.run)
        with anyio.fail_after(LONG_S):
            await watched.failed.wait()
        await wait_all_tasks_blocked()
        shown = [str(list(sink_families({sink.name: relay}))), relay.trouble, repr(vars(relay))]
        group.cancel_scope.cancel()
    assert all(isinstance(error, ReactiveDeschedError) for error in watched.errors)
    shown += [everything_of(error) for error in watched.errors]
    shown += written_in(folder)
    shown += [repr(sink), repr(vars(sink)), *log.lines, caplog.text]
    return "\n".join(shown)


# --- servers that know our secrets and say so ---

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class Parrot:
    """A server that answers each request with the help of what it was sent."""

    def __init__(self, answer: Answer) -> None:
        self.heard = b""
        self._answer = answer

    @asynccontextmanager
    async def serving(self, tls: Any = None) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        async with server:
            host, port = server.sockets[0].getsockname()[:2]
            yield f"{host}:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while some := await reader.read(65_536):
                self.heard += some
                await self._answer(some, writer)
        except OSError:
            pass
        finally:
            writer.close()


def head_of(heard: bytes) -> bytes:
    return heard.partition(b"\r\n\r\n")[0]


def saying(line: bytes, *, more: bytes = b"") -> Answer:
    """Answer with this status, and everything that was heard in phrase, header and body."""

    async def answer(heard: bytes, writer: asyncio.StreamWriter) -> None:
        flat = head_of(heard).replace(b"\r\n", b" ")
        writer.write(
            b"HTTP/1.1 %s %s\r\nX-Heard: %s\r\n%sContent-Length: %d\r\n\r\n%s"
            % (line, flat, flat, more.replace(b"HEARD", TOKEN.encode()), len(heard), heard)
        )
        await writer.drain()

    return answer


async def parroting(heard: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(heard)
    await writer.drain()


async def bad_header(heard: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n" + head_of(heard).replace(b":", b"\0") + b"\r\n\r\n")
    await writer.drain()


async def hanging_up(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def waiting(_: bytes, __: asyncio.StreamWriter) -> None:
    """Say nothing."""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "secrets").mkdir()
    paths = {name: tmp_path / "secrets" / name for name in ("token", "secret", "password")}
    for path, text in zip(paths.values(), (TOKEN, SECRET, PASSWORD), strict=True):
        path.write_text(text)
    return {name: str(path) for name, path in paths.items()}


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    (folder := tmp_path / "journal").mkdir()
    return folder


# --- the webhook ---


def webhook(address: str, files: dict[str, str]) -> WebhookSink:
    settings = Webhook(
        url=f"{address}/in?key={CANARY}",
        secret_file=files["secret"],
        token_file=files["token"],
        timeout_s=0.3,
    )
    return WebhookSink(settings, wall=lambda: 0.0, clock=lambda: 0.0)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(saying(b"401"), id="wrong token"),
        pytest.param(saying(b"403"), id="wrong signature"),
        pytest.param(saying(b"400"), id="refused"),
        pytest.param(saying(b"500"), id="failed"),
        pytest.param(saying(b"503", more=b"Retry-After: HEARD\r\n"), id="busy"),
        pytest.param(saying(b"307", more=b"Location: http://HEARD/\r\n"), id="elsewhere"),
        pytest.param(parroting, id="no HTTP"),
        pytest.param(bad_header, id="broken header"),
        pytest.param(hanging_up, id="cut"),
        pytest.param(waiting, id="no answer"),
    ],
)
async def test_a_webhook_that_repeats_what_it_hears_is_not_quoted(
    answer: Answer,
    files: dict[str, str],
    journal: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    parrot = Parrot(answer)
    async with parrot.serving() as address:
        told = await everything_told(webhook(f"http://{address}", files), journal, log, caplog)

    assert f"Bearer {TOKEN}".encode() in parrot.heard
    assert hidden(told) == []


async def test_a_webhook_that_is_not_trusted_is_told_no_secret_and_none_is_told_of(
    files: dict[str, str],
    tmp_path: Path,
    journal: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    parrot = Parrot(waiting)
    tls = Authority().server_side(tmp_path, "127.0.0.1")
    async with parrot.serving(tls) as address:
        told = await everything_told(webhook(f"https://{address}", files), journal, log, caplog)

    assert parrot.heard == b""
    assert "not to be trusted" in told
    assert hidden(told) == []


@pytest.mark.parametrize("name", ["token", "secret"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"whsec_{CANARY}?\nä{CANARY}\n{CANARY}", id="three odd lines"),
        pytest.param(f"whsec_{CANARY}?ä", id="one odd line"),
        pytest.param(CANARY * 10_000, id="too long"),
    ],
)
async def test_a_file_that_is_not_as_it_should_be_is_not_quoted(
    name: str,
    text: str,
    files: dict[str, str],
    journal: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    write(files[name], text.encode())
    sink = webhook("http://127.0.0.1:9", files)
    told = await everything_told(sink, journal, log, caplog)

    assert files[name] in told
    assert hidden(told) == []


def hidden(told: str) -> list[str]:
    """Return the lines that let a canary out; the URL's own is known to the sink alone."""
    return [line for line in told.splitlines() if CANARY in line and "URL('http" not in line]


# --- Kafka ---

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, AUTHENTICATION_FAILED = 18, 17, 36, 58


def text_of(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


async def wrong_password(heard: bytes, writer: asyncio.StreamWriter) -> None:
    """Be a broker that knows nobody, and says in its words what it was told."""
    kind, _, correlation = struct.unpack(">hhi", heard[4:12])
    body = {
        API_VERSIONS: struct.pack(">hi", 0, 3)
        + b"".join(
            struct.pack(">hhh", key, 0, 1)
            for key in (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)
        ),
        SASL_HANDSHAKE: struct.pack(">hi", 0, 2) + text_of(b"PLAIN") + text_of(b"SCRAM-SHA-256"),
        SASL_AUTHENTICATE: struct.pack(">h", AUTHENTICATION_FAILED)
        + text_of(b"Authentication failed: Invalid username or password")
        + struct.pack(">iq", 0, 0),
    }[kind]
    frame = struct.pack(">i", correlation) + body
    writer.write(struct.pack(">i", len(frame)) + frame)
    await writer.drain()


def kafka(address: str, files: dict[str, str], log: Log, **more: Any) -> KafkaSink:
    sasl = Sasl(
        mechanism=more.pop("mechanism", "PLAIN"), username="us", password_file=files["password"]
    )
    settings = Kafka(brokers=(address,), sasl=sasl, **more)
    return KafkaSink(settings, clock=lambda: 0.0, log=log)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_password_that_kafka_does_not_take_is_not_told(
    mechanism: str,
    files: dict[str, str],
    journal: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    parrot = Parrot(wrong_password)
    async with parrot.serving() as address:
        sink = kafka(address, files, log, mechanism=mechanism)
        told = await everything_told(sink, journal, log, caplog)

    assert (PASSWORD.encode() in parrot.heard) == (mechanism == "PLAIN")
    assert "Invalid username or password" in told
    assert hidden(told) == []


@pytest.mark.parametrize(
    "answer",
    [pytest.param(parroting, id="no Kafka"), pytest.param(hanging_up, id="cut")],
)
async def test_a_broker_that_is_none_learns_and_tells_no_password(
    answer: Answer,
    files: dict[str, str],
    journal: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    parrot = Parrot(answer)
    async with parrot.serving() as address:
        told = await everything_told(kafka(address, files, log), journal, log, caplog)

    assert CANARY.encode() not in parrot.heard
    assert hidden(told) == []


async def test_a_broker_that_is_not_trusted_is_told_no_password(
    files: dict[str, str],
    tmp_path: Path,
    journal: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    parrot = Parrot(wrong_password)
    tls = Authority().server_side(tmp_path, "127.0.0.1")
    async with parrot.serving(tls) as address:
        sink = kafka(address, files, log, tls=KafkaTls())
        told = await everything_told(sink, journal, log, caplog)

    assert parrot.heard == b""
    assert hidden(told) == []


async def test_a_password_file_that_is_no_text_is_not_quoted(
    files: dict[str, str], journal: Path, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    write(files["password"], CANARY.encode() + b"\xff")
    told = await everything_told(kafka("127.0.0.1:9", files, log), journal, log, caplog)

    assert files["password"] in told
    assert hidden(told) == []


# --- the API server ---


def kubeconfig(folder: Path, url: str, user: str) -> KubeConfig:
    path = folder / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
        f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
        f"users: [{{name: u, user: {user}}}]\n"
        "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
    )
    return KubeConfig(kubeconfig=str(path))


async def forbidding(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
    await writer.drain()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(forbidding, id="unknown"),
        pytest.param(parroting, id="no HTTP"),
        pytest.param(hanging_up, id="cut"),
    ],
)
async def test_the_token_of_a_kubeconfig_is_not_told_when_a_request_fails(
    answer: Answer, tmp_path: Path, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    parrot = Parrot(answer)
    told: list[str] = []
    async with parrot.serving() as address:
        config = kubeconfig(tmp_path, f"http://{address}", f"{{token: {TOKEN}}}")
        async with open_session(config, rate=Rate(per_s=1000, burst=1000)) as session:
            try:
                told.append(repr(await session.request("GET", "/api/v1/pods")))
            except ReactiveDeschedError as error:
                told.append(everything_of(error))
            told += [repr(config), repr(session)]

    assert f"Bearer {TOKEN}".encode() in parrot.heard
    assert hidden("\n".join([*told, caplog.text])) == []


async def test_an_event_that_cannot_be_written_is_told_without_the_token(
    tmp_path: Path, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    parrot = Parrot(forbidding)
    async with parrot.serving() as address, anyio.create_task_group() as group:
        config = kubeconfig(tmp_path, f"http://{address}", f"{{token: {TOKEN}}}")
        async with open_session(config, rate=Rate(per_s=1000, burst=1000)) as session:
            recorder = EventRecorder(session, "here", log.debug)
            group.start_soon(recorder.run)
            recorder.record(Event(Regarding("Pod", "shop", "web"), "A", "B", "C"))
            await recorder.ended()
            group.cancel_scope.cancel()

    assert "no Event written" in log.lines[0]
    assert hidden("\n".join([*log.lines, caplog.text])) == []


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(f"{{token: {TOKEN}", id="no end"),
        pytest.param(f"{{token: [{TOKEN}]}}", id="a list"),
        pytest.param(f"{{password: {PASSWORD}, username: {{}}}}", id="half a password"),
        pytest.param(f"{{client-certificate-data: {TOKEN}, client-key-data: ä}}", id="a key"),
        pytest.param(f"{{exec: {{command: {TOKEN}-none, apiVersion: x}}}}", id="a plugin"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_not_quoted(
    user: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = ""
    try:
        async with open_session(kubeconfig(tmp_path, "http://127.0.0.1:9", user)):
            pass
    except ReactiveDeschedError as error:
        told = everything_of(error)

    assert hidden("\n".join([told, caplog.text])) == []


# --- what people write ---


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"kafka: {{sasl: {{password: {CANARY}}}}}", id="a password, not a file"),
        pytest.param(f"kafka: {{brokers: [a:9092], sasl: {CANARY}}}", id="no section"),
        pytest.param(f"webhook: {{url: 'https://u:{CANARY}@host/'}}", id="in the URL"),
        pytest.param(f"webhook: {{url: 'ftp://u:{CANARY}@host/'}}", id="in an odd URL"),
        pytest.param(f"webhook: {{secret: {CANARY}}}", id="a secret, not a file"),
    ],
)
def test_a_secret_that_stands_in_the_settings_is_refused_and_not_quoted(text: str) -> None:
    head = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    with pytest.raises(PolicyErrors) as caught:
        load_settings(f"{head}sinks:\n  {text}\n", "s.yaml")

    assert hidden("\n".join(map(str, caught.value.problems))) == []


async def test_settings_know_where_secrets_are_and_not_what_they_are(files: dict[str, str]) -> None:
    sink = webhook("http://127.0.0.1:9", files)
    text = (
        "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\nsinks:\n"
        f"  webhook: {{url: 'https://host', secretFile: {files['secret']}}}\n"
        "  kafka: {brokers: ['a:9092'], sasl: {username: us, passwordFile: "
        f"{files['password']}}}}}\n"
    )
    settings = load_settings(text, "s.yaml")

    assert files["password"] in repr(settings)
    assert hidden(f"{settings!r}\n{settings.model_dump_json()}\n{vars(sink)!r}") == []
