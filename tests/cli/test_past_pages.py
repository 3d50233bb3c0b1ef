"""A running controller answers of an earlier moment, in a process beside it: --at and --server."""

import errno
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import msgspec
import pytest
from anyio.to_thread import run_sync

from reactive_desched.app import past_answers, past_pages
from reactive_desched.app.past_pages import (
    ANSWERED,
    MIN_BYTES,
    NO_MEMORY,
    PastPages,
    PastRequest,
    RecordedPlaces,
    free_memory,
)
from reactive_desched.cli import main, recorded_controller
from reactive_desched.errors import NotAnswered, NotRecorded
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.recording.coverage import summarize_recording
from reactive_desched.recording.reader import state_at
from reactive_desched.text.times import format_second
from reactive_desched.web.health import Health
from reactive_desched.web.operator import DebugPage, Operator
from reactive_desched.web.server import Served, serve
from tests.support.recorded_cluster import fail_on_damage

pytestmark = pytest.mark.anyio

NOW = {"now": True}
BESIDE = {**os.environ, **past_pages._NO_BACKTRACE}
FORKED = """
import os, sys
from reactive_desched.app.past_answers import main

for text in sys.argv[1:]:
    if not (child := os.fork()):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(main(text))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
PLENTY = 2**32


def places(journal: Path) -> RecordedPlaces:
    return RecordedPlaces(journal / "recording", journal)


def no_places() -> RecordedPlaces:
    raise NotRecorded("this controller records nothing")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer than users do: the process gives way to all else, which here is six workers."""
    monkeypatch.setattr(past_pages, "TIMEOUT_S", 280.0)
    monkeypatch.setattr(recorded_controller, "PAST_TIMEOUT_S", 280.0)


@asynccontextmanager
async def controller(
    find: Callable[[], RecordedPlaces], free_bytes: int = PLENTY
) -> AsyncIterator[str]:
    """Serve the pages of a controller that has a recording; yield its URL."""
    past = PastPages(find, lambda: free_bytes)
    now = [
        past.with_past(DebugPage(name, "", lambda _: NOW))
        for name in ("status", "pending", "nodes", "why")
    ]
    served = Served(Health(lambda: 0.0), operator=Operator((*now, *past.pages)))
    async with serve(ListenAddress("127.0.0.1", 0), served) as url:
        yield url


def middle(journal: Path) -> str:
    found = summarize_recording(journal / "recording")
    return format_second((found.first_s + found.last_s) / 2)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Return a way to run a command beside the event loop."""

    def run(*words: str) -> tuple[int, str, str]:
        status = main(list(words))
        return status, *capsys.readouterr()

    return lambda *words: run_sync(partial(run, *words))


@pytest.fixture
def answered_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer in this process, with what the process beside it runs: most of that is its imports."""

    async def answer(request: PastRequest) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(await run_sync(past_answers._answer, request)))

    monkeypatch.setattr(past_pages, "_answer_of", answer)


@pytest.mark.parametrize("page", ["status", "pending"])
@pytest.mark.usefixtures("answered_here")
async def test_a_running_controller_answers_as_its_recording_does(
    page: str, journal: Path, ask: Callable[..., Any]
) -> None:
    words = (page, "--at", middle(journal))
    async with controller(partial(places, journal)) as url:
        await answers_as_here(journal, ask, url, *words)
        _, table, _ = await ask(*words, "--server", url)

    assert table.startswith(f"as of {middle(journal)}: cluster")
    assert url in table


async def test_the_process_beside_a_controller_answers_as_its_recording_does(
    journal: Path, ask: Callable[..., Any]
) -> None:
    when = datetime.fromisoformat(middle(journal)).timestamp()
    nodes = state_at(journal / "recording", when, fail_on_damage)[0].objects["nodes"]
    words = ("why", "--node", next(iter(nodes)), "--at", middle(journal))
    async with controller(partial(places, journal)) as url:
        await answers_as_here(journal, ask, url, *words)


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--all", "--nodes", "--horizon", "30m"),
        ("plan", "--as", "once"),
        ("nodes",),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("answered_here")
async def test_a_running_controller_previews_a_moment_as_its_recording_does(
    words: tuple[str, ...], journal: Path, ask: Callable[..., Any]
) -> None:
    asked = (*words, "--at", middle(journal))
    async with controller(partial(places, journal)) as url:
        status, there, _ = await ask(*asked, "--server", url, "-o", "json")
        _, table_there, _ = await ask(*asked, "--server", url)
    _, here, _ = await ask(*asked, "--recording", str(journal / "recording"), "-o", "json")
    _, table, _ = await ask(*asked, "--recording", str(journal / "recording"))

    assert status == 0
    assert json.loads(there) == json.loads(here)
    assert json.loads(there)["lookedAt"]["recording"] == str(journal / "recording")
    assert table_there == table


async def test_flags_that_say_where_else_a_cluster_is_mean_nothing_with_a_server(
    journal: Path, ask: Callable[..., Any]
) -> None:
    at = ("--at", middle(journal), "--server", "http://127.0.0.1:1")
    for flags in (("--policy", "p.yaml"), ("--recording", "r"), ("--now", "x"), ("-f", "f")):
        status, _, said = await ask("plan", *at, *flags)

        assert status == 2
        assert flags[0] in said
        assert "--server" in said
    status, _, said = await ask("nodes", "--policy", "p.yaml", "--server", "http://127.0.0.1:1")
    assert status == 2
    assert "--at" in said


@pytest.mark.usefixtures("answered_here")
async def test_a_preview_that_cannot_be_made_is_refused_with_a_sentence(
    journal: Path, ask: Callable[..., Any]
) -> None:
    async with (
        controller(partial(places, journal)) as url,
        aiohttp.ClientSession(url) as session,
    ):
        for preview in ("{", "[]", '{"files": ["/etc/passwd"]}', '{"mode": "all"}'):
            query = {"at": middle(journal), "preview": preview}
            async with session.get("/debug/plan", params=query) as answer:
                assert (answer.status, "preview" in await answer.text()) == (400, True)
        status, _, said = await ask(
            "nodes", "--at", middle(journal), "--server", url, "--profile", "no-such"
        )
    assert status == 2
    assert "no-such" in said


async def answers_as_here(journal: Path, ask: Callable[..., Any], url: str, *words: str) -> None:
    status, there, _ = await ask(*words, "--server", url, "-o", "json")
    _, here, _ = await ask(*words, "--journal", str(journal), "-o", "json")

    assert status == 0
    assert json.loads(there) == json.loads(here)


@pytest.mark.usefixtures("answered_here")
async def test_one_answer_has_what_the_live_page_shows_of_a_moment(journal: Path) -> None:
    at = {"at": middle(journal)}
    async with (
        controller(partial(places, journal)) as url,
        aiohttp.ClientSession(url) as session,
    ):

        async def read(page: str, query: dict[str, str]) -> Any:
            async with session.get(f"/debug/{page}", params=query) as answer:
                assert answer.status == 200
                return await answer.json()

        moment = await read("moment", at)
        for page in ("status", "pending", "nodes"):
            assert moment[page] == await read(page, at)
            assert await read(page, {}) == NOW
        times = await read("recording", {})

    assert moment["at"] == at["at"]
    assert moment["lastChange"] <= moment["at"]
    assert moment["nodes"]["nodes"]
    [covered] = times["times"]
    assert covered["since"] < moment["at"] < covered["until"]


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("at=1970-01-02", 422, "name a time from"),
        ("at=noon", 400, "2h ago"),
        ("at=", 400, "2h ago"),
        ("at={middle}&colour=blue", 400, "colour"),
    ],
)
async def test_what_cannot_be_answered_is_refused_with_a_sentence(
    query: str, status: int, words: str, journal: Path
) -> None:
    async with (
        controller(partial(places, journal)) as url,
        aiohttp.ClientSession(url) as session,
        session.get(f"/debug/nodes?{query.format(middle=middle(journal))}") as answer,
    ):
        assert answer.status == status
        assert words in await answer.text()


async def test_a_controller_that_records_nothing_says_so(ask: Callable[..., Any]) -> None:
    async with controller(no_places) as url:
        status, _, err = await ask("status", "--at", "2h", "--server", url)
    assert (status, "records nothing" in err) == (1, True)


async def test_a_question_is_refused_while_too_many_wait_and_one_that_is_given_up_frees_its_place(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, asked = anyio.Event(), 0

    async def hang(_: str) -> None:
        nonlocal asked
        asked += 1
        began.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(past_pages, "_answer_of", hang)
    past = PastPages(partial(places, journal), lambda: PLENTY)
    page = past.with_past(DebugPage("status", "", lambda _: NOW))

    async def read() -> None:
        await page.read({"at": "2h"})  # type: ignore[misc]  # it awaits

    async with anyio.create_task_group() as tasks:
        for _ in range(1 + past_pages.MAX_WAITING):
            tasks.start_soon(read)
        await began.wait()
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(NotAnswered, match="ask again"):
            await read()
        assert asked == 1
        tasks.cancel_scope.cancel()

    monkeypatch.setattr(past_pages, "WAIT_S", 0.0)
    began = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await began.wait()
        with pytest.raises(NotAnswered, match="ask again"):
            await read()
        tasks.cancel_scope.cancel()
    assert asked == 2


async def test_with_little_memory_left_nothing_is_read_beside_the_controller(journal: Path) -> None:
    async with (
        controller(partial(places, journal), MIN_BYTES - 1) as url,
        aiohttp.ClientSession(url) as session,
        session.get("/debug/status", params={"at": middle(journal)}) as answer,
    ):
        assert answer.status == 503
        assert answer.headers["Retry-After"]
        text = await answer.text()
    assert "191 MiB of memory are left" in text
    assert "recording export" in text


async def test_a_process_that_gets_too_little_memory_says_so_wherever_it_lacks(
    journal: Path,
) -> None:
    """Fork each process from one that has loaded what takes a second to load."""
    requests = [
        PastRequest(
            str(journal / "recording"),
            "status",
            datetime.fromisoformat(middle(journal)).timestamp(),
            journal=str(journal),
            memory_bytes=int(MIN_BYTES * spared),
        )
        for spared in (0.001, 0.03, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.2, 0.8)
    ]
    texts = [msgspec.json.encode(each).decode() for each in requests]
    done = await anyio.run_process([sys.executable, "-c", FORKED, *texts], env=BESIDE)
    statuses = [int(line) for line in done.stdout.split()]

    assert (statuses[0], statuses[-1]) == (NO_MEMORY, ANSWERED)
    assert all(status in (NO_MEMORY, ANSWERED) or status < 0 for status in statuses), done.stderr


async def test_the_answer_says_what_to_do_where_the_memory_is_too_little(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_pages, "_SPARED", 0.03)
    async with (
        controller(partial(places, journal), MIN_BYTES) as url,
        aiohttp.ClientSession(url) as session,
        session.get("/debug/status", params={"at": middle(journal)}) as answer,
    ):
        text = await answer.text()
        assert answer.status == 503
        assert answer.headers["Retry-After"]
    assert "left is too little" in text
    assert "recording export" in text


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        pytest.param(SystemError("error return without exception set"), id="C code that lost it"),
    ],
    ids=repr,
)
async def test_a_lack_of_memory_is_the_status_of_the_process(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack(_: PastRequest) -> None:
        raise error

    monkeypatch.setattr(past_answers, "_answer", lack)
    monkeypatch.setattr(past_answers, "_give_way", lambda _: None)
    request = msgspec.json.encode(PastRequest("recording", "status")).decode()
    assert past_answers.main(request) == NO_MEMORY


async def test_an_answer_that_takes_too_long_is_given_up(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_pages, "TIMEOUT_S", 0.0)
    async with (
        controller(partial(places, journal)) as url,
        aiohttp.ClientSession(url) as session,
        session.get("/debug/status", params={"at": middle(journal)}) as answer,
    ):
        assert (answer.status, "no answer within 0 s" in await answer.text()) == (503, True)


def test_the_memory_that_is_left_is_that_of_the_container_without_what_can_be_read_again(
    tmp_path: Path,
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 4000 kB\nMemAvailable:   3000 kB\n", "ascii")
    assert free_memory(tmp_path, meminfo) == 3000 << 10
    for name, text in (
        ("memory.max", "2000000\n"),
        ("memory.current", "1500000\n"),
        ("memory.stat", "anon 900000\ninactive_file 100000\nactive_file 5\n"),
    ):
        (tmp_path / name).write_text(text, "ascii")
    assert free_memory(tmp_path, meminfo) == 600_000
    (tmp_path / "memory.max").write_text("max\n", "ascii")
    assert free_memory(tmp_path, meminfo) == 3000 << 10
