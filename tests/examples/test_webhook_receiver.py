import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from reactive_desched.errors import SinkUnavailable
from reactive_desched.journal.records import Entry
from reactive_desched.policy.recording import Webhook
from reactive_desched.sinks.proofs import signature
from reactive_desched.sinks.webhook import WebhookSink
from reactive_desched.testing.example_programs import ExampleProgram, ExamplePrograms
from reactive_desched.testing.journals import some_events, write_journal

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
        settings = Webhook(url=self.url, secret_file=str(self.ours))
        return WebhookSink(settings, wall=wall, clock=time.monotonic)


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    return write_journal(tmp_path / "journal", some_events(20))


@pytest.fixture
async def hook(programs: ExamplePrograms, tmp_path: Path) -> Hook:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for file in (theirs, ours):
        file.write_text("a secret\n".replace(" ", "-"))
    arguments = ("127.0.0.1", "0", str(theirs), str(tmp_path / "seen.db"))
    program = programs.start("webhook_receiver.py", *arguments)
    (said,) = await run_sync(lambda: program.until(lambda lines: len(lines) == 1))
    return Hook(program, f"http://127.0.0.1:{said.rpartition(' ')[2]}/", theirs, ours)


def told(entry: Entry) -> str:
    event = json.loads(entry.raw)
    return f"{event['time']} {event['type']} {event['subject']}"


async def test_signed_events_are_taken_in_order_and_once(hook: Hook, entries: list[Entry]) -> None:
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
    ],
    ids=[
        "a secret in base64",
        "the receiver has the new one already",
        "the sender signs with both",
    ],
)
async def test_secrets_that_agree(hook: Hook, entries: list[Entry], theirs: str, ours: str) -> None:
    hook.theirs.write_text(theirs)
    hook.ours.write_text(ours)
    sink = hook.sink()

    assert await sink.deliver(entries[:1]) == 1

    await sink.close()


async def test_an_event_signed_with_another_secret_is_not_taken(
    hook: Hook, entries: list[Entry]
) -> None:
    hook.ours.write_text("another-secret\n")
    sink = hook.sink()
    with pytest.raises(SinkUnavailable, match="401"):
        await sink.deliver(entries[:1])
    await sink.close()

    assert hook.program.printed[1:] == []
    assert "none of the signatures is right" in hook.program.complaints


@pytest.mark.parametrize("off_s", [-400, 400], ids=["from long ago", "from the future"])
async def test_a_request_of_another_time_is_not_taken(
    hook: Hook, entries: list[Entry], off_s: int
) -> None:
    sink = hook.sink(wall=lambda: time.time() + off_s)
    with pytest.raises(SinkUnavailable, match="401"):
        await sink.deliver(entries[:1])
    await sink.close()

    assert hook.program.printed[1:] == []


async def test_a_body_that_is_not_the_signed_one_is_not_taken(
    hook: Hook, entries: list[Entry]
) -> None:
    now = str(int(time.time()))
    signed = f"an-id.{now}.".encode() + entries[0].raw
    headers = {
        "webhook-id": "an-id",
        "webhook-timestamp": now,
        "webhook-signature": signature(b"a-secret", signed),
    }

    def post(body: bytes) -> int:
        request = urllib.request.Request(hook.url, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                status: int = answer.status
                return status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    assert await run_sync(lambda: post(entries[0].raw)) == 204
    assert await run_sync(lambda: post(entries[1].raw)) == 401
    assert hook.program.printed[1:] == [told(entries[0])]
