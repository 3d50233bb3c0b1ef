"""Secrets, each a canary, never show up in what we say: whatever fails, and wherever it is told."""

import asyncio
import logging
import struct
import traceback
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from reactive_desched.api.sink import Sink
from reactive_desched.errors import ReactiveDeschedError
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.tail import LiveTail
from reactive_desched.policy.settings.recording import (
    KafkaSettings,
    KafkaTlsSettings,
    SaslSettings,
    WebhookSettings,
)
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from reactive_desched.sinks.dead_letters import DeadLetterFiles
from reactive_desched.sinks.kafka.sink import KafkaSink
from reactive_desched.sinks.sink_runner import SinkRunner
from reactive_desched.sinks.webhook.sink import WebhookSink
from tests.support.authority import CertificateAuthority
from tests.support.echo_server import (
    EchoReply,
    EchoServer,
    close_connection,
    echo_as_headers,
    echo_raw,
    never_reply,
    reply_with_status,
)
from tests.support.entries import eviction_entries
from tests.support.policy_texts import load_settings

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CANARY = "c4n4ry"
TOKEN, SECRET, PASSWORD = f"{CANARY}-token", f"{CANARY}-secret", f"{CANARY}-password"
URL_KEY = "k3y-0f-th3-url"
LONG_S = 20.0
"""Longer than anything takes that is not meant to take for ever."""


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
    """Return all that could be told of an error and of those shown behind it."""
    if error is None:
        return ""
    trace = "".join(traceback.format_exception(error))
    context = None if error.__suppress_context__ else error.__context__
    behind = everything_of(error.__cause__ or context)
    return f"{trace} {error} {error!r} {error.args!r} {vars(error)!r}\n{behind}"


def hidden(told: str) -> list[str]:
    """Return the lines that let a secret out."""
    return [line for line in told.splitlines() if CANARY in line or URL_KEY in line]


class Watched:
    """A sink whose errors are kept."""

    def __init__(self, sink: Sink) -> None:
        self.errors: list[Exception] = []
        self.failed = anyio.Event()
        self._sink = sink
        self.name = sink.name
        self.from_start = True

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
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
    tail, watched = LiveTail(folder, "//c/d/i/e", 1, 0), Watched(sink)
    relay = SinkRunner(
        watched,
        tail,
        Cursors(folder),
        DeadLetterFiles(folder),
        clock=lambda: 0.0,
        wall=lambda: datetime.now(UTC),
        rng=Random(1),
        log=log,
    )
    tail.publish(eviction_entries(2))
    async with anyio.create_task_group() as group:
        group.start_soon(relay.run)
        with anyio.fail_after(LONG_S):
            await watched.failed.wait()
        await anyio.wait_all_tasks_blocked()
        shown = [str(list(relay.collect())), relay.error, repr(vars(relay))]
        group.cancel_scope.cancel()
    assert all(isinstance(error, ReactiveDeschedError) for error in watched.errors)
    shown += [everything_of(error) for error in watched.errors]
    shown += written_in(folder)
    assert CANARY not in repr(vars(sink))
    return "\n".join([*shown, repr(sink), *log.lines, caplog.text])


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


def webhook(address: str, files: dict[str, str], timeout_s: float = LONG_S) -> WebhookSink:
    settings = WebhookSettings(
        url=f"{address}/in?key={URL_KEY}",
        secret_file=files["secret"],
        token_file=files["token"],
        timeout_s=timeout_s,
    )
    return WebhookSink(settings, wall=lambda: 0.0, clock=lambda: 0.0)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(reply_with_status(b"401"), id="wrong token"),
        pytest.param(reply_with_status(b"403"), id="wrong signature"),
        pytest.param(reply_with_status(b"400"), id="refused"),
        pytest.param(reply_with_status(b"500"), id="failed"),
        pytest.param(
            reply_with_status(b"503", more=f"Retry-After: {TOKEN}\r\n".encode()), id="busy"
        ),
        pytest.param(
            reply_with_status(b"307", more=f"Location: http://{TOKEN}/\r\n".encode()),
            id="elsewhere",
        ),
        pytest.param(echo_raw, id="no HTTP"),
        pytest.param(echo_as_headers, id="broken header"),
        pytest.param(close_connection, id="cut"),
        pytest.param(never_reply, id="no answer"),
    ],
)
async def test_a_webhook_that_repeats_what_it_receives_is_not_quoted(
    answer: EchoReply,
    files: dict[str, str],
    journal: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    echo = EchoServer(answer)
    async with echo.serving() as address:
        patience_s = 2.0 if answer is never_reply else LONG_S  # for the request to arrive, too
        sink = webhook(f"http://{address}", files, patience_s)
        told = await everything_told(sink, journal, log, caplog)

    assert f"Bearer {TOKEN}".encode() in echo.received
    assert hidden(told) == []


async def test_a_webhook_that_is_not_trusted_receives_no_secret_and_none_is_shown(
    files: dict[str, str],
    tmp_path: Path,
    journal: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    echo = EchoServer(never_reply)
    tls = CertificateAuthority().server_context(tmp_path, "127.0.0.1")
    async with echo.serving(tls) as address:
        told = await everything_told(webhook(f"https://{address}", files), journal, log, caplog)

    assert echo.received == b""
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
    sasl = SaslSettings(
        mechanism=more.pop("mechanism", "PLAIN"), username="us", password_file=files["password"]
    )
    settings = KafkaSettings(brokers=(address,), sasl=sasl, **more)
    return KafkaSink(settings, clock=lambda: 0.0, log=log)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_password_that_kafka_does_not_take_is_not_shown(
    mechanism: str,
    files: dict[str, str],
    journal: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    echo = EchoServer(wrong_password)
    async with echo.serving() as address:
        sink = kafka(address, files, log, mechanism=mechanism)
        told = await everything_told(sink, journal, log, caplog)

    assert (PASSWORD.encode() in echo.received) == (mechanism == "PLAIN")
    assert "Invalid username or password" in told
    assert hidden(told) == []


@pytest.mark.parametrize(
    "answer",
    [pytest.param(echo_raw, id="no Kafka"), pytest.param(close_connection, id="cut")],
)
async def test_a_server_that_is_no_broker_receives_and_shows_no_password(
    answer: EchoReply,
    files: dict[str, str],
    journal: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    echo = EchoServer(answer)
    async with echo.serving() as address:
        told = await everything_told(kafka(address, files, log), journal, log, caplog)

    assert CANARY.encode() not in echo.received
    assert hidden(told) == []


async def test_a_broker_that_is_not_trusted_receives_no_password(
    files: dict[str, str],
    tmp_path: Path,
    journal: Path,
    log: Log,
    caplog: pytest.LogCaptureFixture,
) -> None:
    echo = EchoServer(wrong_password)
    tls = CertificateAuthority().server_context(tmp_path, "127.0.0.1")
    async with echo.serving(tls) as address:
        sink = kafka(address, files, log, tls=KafkaTlsSettings())
        told = await everything_told(sink, journal, log, caplog)

    assert echo.received == b""
    assert hidden(told) == []


async def test_a_password_file_that_is_no_text_is_not_quoted(
    files: dict[str, str], journal: Path, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    write(files["password"], CANARY.encode() + b"\xff")
    told = await everything_told(kafka("127.0.0.1:9", files, log), journal, log, caplog)

    assert files["password"] in told
    assert hidden(told) == []


# --- what people write ---


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"kafka: {{sasl: {{password: {CANARY}}}}}", id="a password, not a file"),
        pytest.param(f"webhook: {{url: 'https://u:{CANARY}@host/'}}", id="in the URL"),
        pytest.param(f"webhook: {{url: 'ftp://u:{CANARY}@host/'}}", id="in an odd URL"),
        pytest.param(f"webhook: {{secret: {CANARY}}}", id="a secret, not a file"),
    ],
)
def test_a_secret_that_stands_in_the_settings_is_refused_and_not_quoted(text: str) -> None:
    head = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    with pytest.raises(PolicyErrors) as caught:
        load_settings(f"{head}sinks:\n  {text}\n", "s.yaml")

    assert hidden("\n".join(map(str, caught.value.diagnostics))) == []


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
    assert hidden(f"{settings!r}\n{settings.model_dump_json()}") == []
    assert CANARY not in repr(vars(sink))
