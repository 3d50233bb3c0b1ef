import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from anyio.to_thread import run_sync

from reactive_desched.errors import SinkUnavailable
from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import WebhookSettings
from reactive_desched.sinks.webhook.signing import signature
from reactive_desched.sinks.webhook.sink import WebhookSink
from tests.support.example_programs import ExampleProgram, ExamplePrograms
from tests.support.golden import Golden
from tests.support.journals import some_events, write_journal
from tests.support.loaded_module import load_module

pytestmark = pytest.mark.anyio

IN_BASE64 = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass
class Hook:
    """A receiver that runs, and the files both sides read their secrets from."""

    program: ExampleProgram
    url: str
    theirs: Path
    ours: Path

    def sink(self, wall: Callable[[], float] = time.time) -> WebhookSink:
        settings = WebhookSettings(url=self.url, secret_file=str(self.ours))
        return WebhookSink(settings, wall=wall, clock=lambda: 0.0)

    def connect(self) -> socket.socket:
        at = urlsplit(self.url)
        assert at.hostname
        assert at.port
        return socket.create_connection((at.hostname, at.port), timeout=20)

    def post(self, body: bytes, headers: dict[str, str]) -> int:
        request = urllib.request.Request(self.url, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                status: int = answer.status
                return status
        except urllib.error.HTTPError as error:
            with error:
                return error.code


def signed(body: bytes) -> dict[str, str]:
    now = str(int(time.time()))
    return {
        "webhook-id": "an-id",
        "webhook-timestamp": now,
        "webhook-signature": signature(b"a-secret", f"an-id.{now}.".encode() + body),
    }


@pytest.fixture
def entries(tmp_path: Path) -> list[JournalRecord]:
    return write_journal(tmp_path / "journal", some_events(20))


@pytest.fixture
async def hook(programs: ExamplePrograms, tmp_path: Path) -> Hook:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for file in (theirs, ours):
        file.write_text("a secret\n".replace(" ", "-"))
    arguments = ("127.0.0.1", "0", str(theirs), str(tmp_path / "seen.db"))
    program = programs.start("webhook_receiver.py", *arguments)
    (said,) = await run_sync(lambda: program.wait_for(lambda lines: len(lines) == 1))
    return Hook(program, f"http://127.0.0.1:{said.rpartition(' ')[2]}/", theirs, ours)


def told(entry: JournalRecord) -> str:
    event = json.loads(entry.raw)
    return f"{event['time']} {event['type']} {event['subject']}"


async def test_signed_events_are_taken_in_order_and_once(
    hook: Hook, entries: list[JournalRecord]
) -> None:
    sink = hook.sink()
    assert await sink.deliver(entries[:8]) == 8
    assert await sink.deliver(entries[4:]) == len(entries) - 4
    await sink.close()

    assert hook.program.printed[1:] == [told(entry) for entry in entries]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (IN_BASE64, IN_BASE64),
        ("old-secret\nnew-secret\n", "new-secret\n"),
        ("new-secret\n", "old-secret\nnew-secret\n"),
        ("whsec_YQ", "whsec_YQ=="),
        ("two words\n", " two words \n"),
    ],
    ids=[
        "a secret in base64",
        "the receiver has the new one already",
        "the sender signs with both",
        "base64 without its padding",
        "a secret with a space in it",
    ],
)
async def test_secrets_that_agree(
    hook: Hook, entries: list[JournalRecord], theirs: str, ours: str
) -> None:
    hook.theirs.write_text(theirs)
    hook.ours.write_text(ours)
    sink = hook.sink()

    assert await sink.deliver(entries[:1]) == 1

    await sink.close()


async def test_an_event_signed_with_another_secret_is_not_taken(
    hook: Hook, entries: list[JournalRecord], golden: Golden
) -> None:
    hook.ours.write_text("another-secret\n")
    sink = hook.sink()
    with pytest.raises(SinkUnavailable, match="401"):
        await sink.deliver(entries[:1])
    await sink.close()

    assert hook.program.printed[1:] == []
    assert golden() in hook.program.stderr_text


@pytest.mark.parametrize("off_s", [-400, 400], ids=["from long ago", "from the future"])
async def test_a_request_of_another_time_is_not_taken(
    hook: Hook, entries: list[JournalRecord], off_s: int
) -> None:
    sink = hook.sink(wall=lambda: time.time() + off_s)
    with pytest.raises(SinkUnavailable, match="401"):
        await sink.deliver(entries[:1])
    await sink.close()

    assert hook.program.printed[1:] == []


async def test_a_body_that_is_not_the_signed_one_is_not_taken(
    hook: Hook, entries: list[JournalRecord]
) -> None:
    headers = signed(entries[0].raw)

    assert await run_sync(lambda: hook.post(entries[0].raw, headers)) == 204
    assert await run_sync(lambda: hook.post(entries[1].raw, headers)) == 401
    assert hook.program.printed[1:] == [told(entries[0])]


async def test_a_client_that_sends_nothing_holds_up_nothing(
    hook: Hook, entries: list[JournalRecord]
) -> None:
    raw = entries[0].raw
    with hook.connect(), hook.connect() as half:
        half.sendall(b"POST / HTTP/1.1\r\nContent-Length: 50\r\n\r\nhalf of")

        assert await run_sync(lambda: hook.post(raw, signed(raw))) == 204


async def test_an_event_that_comes_on_many_connections_at_once_is_taken_once(
    hook: Hook, entries: list[JournalRecord]
) -> None:
    def post(number: int) -> int:
        raw = entries[number % 4].raw
        return hook.post(raw, signed(raw))

    with ThreadPoolExecutor(8) as pool:
        statuses = await run_sync(lambda: list(pool.map(post, range(32))))

    assert statuses == [204] * 32
    assert sorted(hook.program.printed[1:]) == sorted(told(entry) for entry in entries[:4])


@pytest.mark.parametrize(
    ("length", "status"),
    [
        ("-1", 411),
        ("many", 411),
        ("", 411),
        (str((1 << 20) + 1), 413),
        ("9" * 5000, 413),
    ],
    ids=["below nothing", "no number", "none", "too large", "beyond all numbers"],
)
async def test_a_body_with_an_impossible_length_is_not_read(
    hook: Hook, length: str, status: int
) -> None:
    def ask() -> bytes:
        with hook.connect() as link:
            link.sendall(f"POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
            return b"".join(iter(lambda: link.recv(4096), b""))

    answer = await run_sync(ask)

    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert "Traceback" not in hook.program.stderr_text


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("webhook-signature", "v1,\xe9"),
        ("webhook-timestamp", "9" * 400),
        ("webhook-timestamp", "9" * 5000),
        ("webhook-timestamp", "\xb2"),
    ],
    ids=[
        "signs beyond ASCII",
        "a time beyond all",
        "a time of 5000 digits",
        "a digit that is none",
    ],
)
async def test_a_proof_that_is_odd_is_refused_like_any_other(
    hook: Hook, entries: list[JournalRecord], header: str, value: str
) -> None:
    raw = entries[0].raw
    headers = {**signed(raw), header: value}

    assert await run_sync(lambda: hook.post(raw, headers)) == 401
    assert "Traceback" not in hook.program.stderr_text


def test_a_connection_that_stays_silent_is_closed(examples: Path) -> None:
    receiver = load_module("receiver", examples / "webhook_receiver.py")
    assert receiver.Receiver.timeout == receiver.SILENCE_S
    receiver.Receiver.timeout = 0.05
    with ThreadingHTTPServer(("127.0.0.1", 0), receiver.Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as link:
            assert link.recv(1) == b""
        server.shutdown()
        thread.join()
