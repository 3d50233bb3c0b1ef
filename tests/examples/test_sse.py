"""The examples that follow the event stream, against the stream as the controller serves it."""

import html.parser
import itertools
import json
import random
import re
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from shutil import which

import anyio
import pytest
import structlog
from anyio.to_thread import run_sync

from reactive_desched.api.event import CHECKPOINT, DATA_TYPES
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.tail import LiveTail
from reactive_desched.model.event_types import short_type
from reactive_desched.policy.settings.server import ServerSettings
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.web.event_stream import EventStream, StreamLimits
from reactive_desched.web.health import Health
from reactive_desched.web.server import Served, serve
from tests.support.example_programs import ExampleProgram, ExamplePrograms
from tests.support.journals import SOURCE, some_events, write_journal
from tests.support.ports import free_port

pytestmark = pytest.mark.anyio


@dataclass
class Controller:
    """What the examples see of a controller: its journal, streamed at a port that stays."""

    folder: Path
    records: list[JournalRecord] = field(init=False)
    tail: LiveTail = field(init=False)
    _port: int = field(init=False)

    def __post_init__(self) -> None:
        self.records = write_journal(self.folder, some_events(200), per_segment=100)
        self.tail = LiveTail(self.folder, SOURCE, 1, 0)
        self._port = free_port()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/events?from=oldest"

    def publish(self, most: int) -> None:
        self.tail.publish(self.records[self.tail.last_seq : self.tail.last_seq + most])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        stream = EventStream(
            StreamLimits(),
            lambda: datetime(2026, 1, 1, tzinfo=UTC),
            structlog.get_logger(),
        )
        listen = ListenAddress("127.0.0.1", self._port)
        async with (
            stream.following(self.tail),
            serve(listen, Served(Health(lambda: 0.0), events=stream)),
        ):
            yield


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    return Controller(tmp_path / "journal")


async def lines_of(program: ExampleProgram, count: int) -> list[str]:
    return await run_sync(lambda: program.wait_for(lambda lines: len(lines) >= count))


def told(entries: Sequence[JournalRecord]) -> list[str]:
    """Return the line that sse_consumer.py prints for each."""
    events = (json.loads(entry.raw) for entry in entries)
    return [f"{event['time']} {event['type']} {event['subject']}" for event in events]


def raw(entries: Sequence[JournalRecord]) -> list[str]:
    """Return the line that sse.sh prints for each."""
    return [entry.raw.decode() for entry in entries]


Shown = Callable[[Sequence[JournalRecord]], list[str]]
NO_CURL = pytest.mark.skipif(which("curl") is None, reason="sse.sh needs curl, which is not here")
FOLLOWERS = pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("sse_consumer.py", told, id="Python"),
        pytest.param("sse.sh", raw, id="curl", marks=NO_CURL),
    ],
)


@FOLLOWERS
async def test_a_follower_outlives_the_controller_and_misses_and_repeats_nothing(
    controller: Controller, programs: ExamplePrograms, tmp_path: Path, name: str, shown: Shown
) -> None:
    follower = programs.start(name, controller.url, str(tmp_path / "place"))
    await anyio.sleep(0.5)  # nobody listens yet
    async with controller.running():
        controller.publish(30)
        await lines_of(follower, 30)
    controller.publish(30)
    async with controller.running():
        await lines_of(follower, 60)
        controller.publish(10)
        assert await lines_of(follower, 70) == shown(controller.records[:70])


@FOLLOWERS
async def test_a_follower_that_is_killed_misses_nothing_and_repeats_one_event_at_most(
    controller: Controller, programs: ExamplePrograms, tmp_path: Path, name: str, shown: Shown
) -> None:
    rng, place, printed = random.Random(3), str(tmp_path / "place"), []
    async with controller.running(), anyio.create_task_group() as group:
        allowed = 0

        async def publish() -> None:
            while controller.tail.last_seq < len(controller.records):
                if controller.tail.last_seq < allowed:
                    controller.publish(2)
                await anyio.sleep(0.02)

        group.start_soon(publish)
        for part in range(1, 5):
            allowed = part * len(controller.records) // 5  # so each has records to come
            follower = programs.start(name, controller.url, place)
            await lines_of(follower, 1)
            await anyio.sleep(rng.random() / 4)
            follower.kill()
            printed.append(follower.printed)
        allowed = len(controller.records)
        last = shown(controller.records)[-1:]
        if printed[-1][-1:] != last:
            follower = programs.start(name, controller.url, place)
            printed.append(await run_sync(follower.wait_for, lambda lines: lines[-1:] == last))

    for before, after in itertools.pairwise(printed):
        if before[-1:] == after[:1]:
            del after[0]
    assert [line for lines in printed for line in lines] == shown(controller.records)


@FOLLOWERS
async def test_a_follower_learns_that_events_were_removed_and_continues(
    controller: Controller, programs: ExamplePrograms, tmp_path: Path, name: str, shown: Shown
) -> None:
    (tmp_path / "place").write_text("an-older-journal.17")
    controller.publish(20)
    async with controller.running():
        follower = programs.start(name, controller.url, str(tmp_path / "place"))
        assert await lines_of(follower, 20) == shown(controller.records[:20])

    assert "events were missed" in follower.stderr_text


async def test_the_shell_follower_ends_with_its_reader(
    controller: Controller, tmp_path: Path, examples: Path
) -> None:
    controller.publish(200)
    command = f"sh {examples / 'sse.sh'} '{controller.url}' {tmp_path / 'place'} | head -n 3"
    async with controller.running():
        with anyio.fail_after(20):
            done = await anyio.run_process(["sh", "-c", command])

    assert done.stdout.decode().splitlines() == raw(controller.records[:3])


@pytest.mark.parametrize("name", ["sse.sh", "sse_consumer.py", "README.md"])
def test_an_address_to_copy_is_where_the_controller_listens(examples: Path, name: str) -> None:
    usual = ServerSettings().listen.rpartition(":")[2]

    assert set(re.findall(r"localhost:(\d+)", (examples / name).read_text())) == {usual}


async def test_the_page_and_its_stream_have_one_origin_and_the_browser_can_resume(
    controller: Controller, programs: ExamplePrograms, examples: Path
) -> None:
    server = programs.start("events_page.py", controller.origin, "0")
    (said,) = await lines_of(server, 1)
    origin = said.removeprefix("open ").rstrip("/")
    controller.publish(20)
    async with controller.running():
        page = await run_sync(lambda: fetch(f"{origin}/"))
        assert page == (examples / "events.html").read_bytes()

        body = await run_sync(lambda: fetch(f"{origin}/events?from=oldest&follow=false"))
        ids = [line.removeprefix(b"id: ") for line in body.splitlines() if line.startswith(b"id: ")]
        seen = ids[11].decode()
        rest = await run_sync(
            lambda: fetch(f"{origin}/events?from=oldest&follow=false", {"Last-Event-ID": seen})
        )
    data = [line.removeprefix(b"data: ") for line in rest.splitlines() if b'"specversion"' in line]
    after = int(seen.rpartition(".")[2])
    assert data == [entry.raw for entry in controller.records[after:20]]


async def test_the_page_says_what_the_controller_refuses(
    controller: Controller, programs: ExamplePrograms
) -> None:
    server = programs.start("events_page.py", controller.origin, "0")
    (said,) = await lines_of(server, 1)
    url = said.removeprefix("open ") + "events?colour=red"
    async with controller.running():
        with pytest.raises(urllib.error.HTTPError) as refused:
            await run_sync(lambda: fetch(url))
    assert refused.value.code == 400
    refused.value.close()


async def test_the_page_shows_that_the_controller_does_not_answer(
    controller: Controller, programs: ExamplePrograms
) -> None:
    server = programs.start("events_page.py", controller.origin, "0")
    (said,) = await lines_of(server, 1)
    url = said.removeprefix("open ") + "events"
    with pytest.raises(urllib.error.HTTPError) as refused:
        await run_sync(lambda: fetch(url))
    with refused.value as answer:
        assert answer.code == 502
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert answer.read().startswith(b"the controller does not answer: ")
    assert "Traceback" not in server.stderr_text


@pytest.mark.parametrize("path", ["", "events"])
async def test_nothing_is_served_under_the_name_of_a_stranger(
    controller: Controller, programs: ExamplePrograms, path: str
) -> None:
    server = programs.start("events_page.py", controller.origin, "0")
    (said,) = await lines_of(server, 1)
    url = said.removeprefix("open ") + path
    with pytest.raises(urllib.error.HTTPError) as refused:
        await run_sync(lambda: fetch(url, {"Host": "evil.example:80"}))
    assert refused.value.code == 421
    refused.value.close()


def fetch(url: str, headers: dict[str, str] | None = None) -> bytes:
    request = urllib.request.Request(url, headers=headers or {})
    with urllib.request.urlopen(request, timeout=20) as answer:
        body: bytes = answer.read()
    return body


class References(html.parser.HTMLParser):
    """Finds what a page would fetch, and what its scripts say."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.script = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script":
            self.script += data


def test_the_page_fetches_nothing_but_the_stream(examples: Path) -> None:
    page = References()
    page.feed((examples / "events.html").read_text())

    assert page.fetched == []
    assert "new EventSource(`events?${" in page.script
    assert "innerHTML" not in page.script


def test_the_page_shows_every_kind_of_event_but_checkpoints(examples: Path) -> None:
    page = References()
    page.feed((examples / "events.html").read_text())
    kinds = page.script.partition("KINDS = [")[2].partition("]")[0]

    listed = {word.strip().strip('"') for word in kinds.split(",") if word.strip()}
    assert listed == {short_type(type_) for type_ in DATA_TYPES if type_ != CHECKPOINT}
