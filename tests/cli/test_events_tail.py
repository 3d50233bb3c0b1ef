import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from aiohttp import web
from anyio import to_thread

from reactive_desched.cli import main
from reactive_desched.cli.events_table import HEADINGS, Table
from reactive_desched.cli.sse import SseReader
from reactive_desched.journal.envelope import epoch_of
from reactive_desched.journal.records import Entry
from reactive_desched.journal.segments import segment
from reactive_desched.journal.summary import summary
from reactive_desched.journal.tail import Tail
from reactive_desched.model.addresses import Listen, parse_listen
from reactive_desched.testing.journals import SOURCE, some_events, write_journal
from reactive_desched.web.event_stream import EventStream, StreamLimits
from reactive_desched.web.health import Health
from reactive_desched.web.server import serve

EPOCH = epoch_of(SOURCE)


class Quiet:
    def info(self, event: str, **values: Any) -> None:
        """Write nothing."""

    warning = info


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def records(folder: Path) -> list[Entry]:
    """A journal of several files, all but the last compressed."""
    return write_journal(folder, some_events(120), per_segment=50, compress=True)


@pytest.fixture
def shown(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., list[bytes]]:
    """Return a way to run `events tail -o json` that returns the lines it wrote."""

    def run(*flags: str, status: int = 0) -> list[bytes]:
        assert main(["events", "tail", "-o", "json", *flags]) == status
        return capfdbinary.readouterr().out.splitlines()

    return run


Shown = Callable[..., list[bytes]]


def raw(records: list[Entry]) -> list[bytes]:
    return [record.raw for record in records]


def of_type(records: list[Entry], family: str) -> list[Entry]:
    found = ((one, summary(one.raw)) for one in records)
    return [one for one, line in found if line is not None and line.kind.startswith(family)]


@asynccontextmanager
async def controller(folder: Path, tail: Tail, listen: Listen, **limits: Any) -> AsyncIterator[str]:
    """Serve a journal as the controller does."""
    stream = EventStream(tail, StreamLimits(**limits), lambda: datetime.now(UTC), Quiet())
    async with serve(listen, Health(lambda: 0.0), None, stream) as url:
        yield url


ANYWHERE = Listen("127.0.0.1", 0)


# --- from a folder ----------------------------------------------------------------------------


def test_the_last_ten_lines_come_as_they_are(
    folder: Path, records: list[Entry], shown: Shown
) -> None:
    assert shown("--journal", str(folder)) == raw(records[-10:])


@pytest.mark.parametrize("count", ["0", "1", "60", "1000"])
def test_as_many_as_are_asked_for_come_from_as_many_files_as_it_takes(
    folder: Path, records: list[Entry], shown: Shown, count: str
) -> None:
    expected = records[max(0, len(records) - int(count)) :]
    assert shown("--journal", str(folder), "-n", count) == raw(expected)


def test_the_last_of_those_wanted_are_found_wherever_they_are(
    folder: Path, records: list[Entry], shown: Shown
) -> None:
    chosen = shown("--journal", str(folder), "-n", "30", "--type", "eviction", "--node", "n1,n2")

    wanted = [one for one in of_type(records, "eviction.") if b'"node":"n3"' not in one.raw]
    assert chosen == raw(wanted[-30:])


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("oldest", 1),
        ("now", 124),
        ("0", 1),
        ("57", 58),
        (f"{EPOCH}.57", 58),
        ("2026-03-29T01:31:40Z", 100),
        ("2026-03-29", 1),
        ("2026-03-30", 124),
        ("876000h", 1),
    ],
)
def test_a_place_to_begin_is_behind_what_it_names(
    folder: Path, records: list[Entry], shown: Shown, start: str, first: int
) -> None:
    assert len(records) == 123
    assert shown("--journal", str(folder), "--from", start) == raw(records[first - 1 :])


@pytest.mark.parametrize(
    ("flags", "status", "told"),
    [
        (["--from", "sometime"], 2, "oldest, now"),
        (["--from", "3d"], 2, "72h"),
        (["--from", "2026-13-01"], 2, "'2026-13-01' is no place to begin from: write a sequence,"),
        (["--type", "evicton"], 2, "eviction.succeeded"),
        (["--pod", "a,,b"], 2, "empty word"),
    ],
)
def test_what_is_wrong_is_named_with_what_there_is(
    folder: Path,
    records: list[Entry],
    capfd: pytest.CaptureFixture[str],
    flags: list[str],
    status: int,
    told: str,
) -> None:
    assert main(["events", "tail", "--journal", str(folder), *flags]) == status
    captured = capfd.readouterr()
    assert told in captured.err
    assert captured.out == ""


def test_a_wrong_place_is_refused_in_one_sentence(
    folder: Path, records: list[Entry], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["events", "tail", "--journal", str(folder), "--from", "yesterday"]) == 2

    assert capfd.readouterr().err == (
        "'yesterday' is no place to begin from: write a sequence, an id of the stream, oldest, now,"
        " a day such as 2026-05-01 (UTC), an RFC 3339 time such as 2026-05-01T12:00:00Z, or how"
        " long ago in h, m or s, such as 72h or 10m\n"
    )


@pytest.fixture
def without_the_first(folder: Path, records: list[Entry]) -> None:
    """Retention removes the first file, with records 1 to 51."""
    min(folder.glob("journal-*")).unlink()


@pytest.mark.anyio
@pytest.mark.usefixtures("without_the_first")
@pytest.mark.parametrize("where", ["folder", "server"])
@pytest.mark.parametrize(
    ("start", "told"),
    [
        ("9999999", "there is no record 9999999 yet; going on with record 52"),
        (f"{EPOCH}.124", "there is no record 124 yet; going on with record 52"),
        ("another.3", "that is an id of another journal; going on with record 52"),
        ("another.100", "that is an id of another journal; going on with record 52"),
        ("20", "record 21 was removed; going on with record 52"),
        (f"{EPOCH}.51", ""),
        ("2026-03-29T03:30:00+02:00", ""),
        ("2026-03-29", ""),
        ("2026-03-28", ""),
    ],
)
async def test_a_place_that_is_not_there_is_told_and_everything_there_is_follows(
    folder: Path,
    records: list[Entry],
    capfdbinary: pytest.CaptureFixture[bytes],
    where: str,
    start: str,
    told: str,
) -> None:
    async with controller(folder, Tail(folder, SOURCE, 52, 123), ANYWHERE) as url:
        place = ("--journal", str(folder)) if where == "folder" else ("--server", url)
        words = ["events", "tail", "-o", "json", *place, "--from", start]
        assert await to_thread.run_sync(main, words) == 0

    captured = capfdbinary.readouterr()
    assert captured.out.splitlines() == raw(records[51:])
    assert captured.err.decode() == (f"reactive-desched: {told}\n" if told else "")


def test_a_folder_that_is_not_there_is_named_with_both_ways_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["events", "tail", "--journal", str(tmp_path / "none")]) == 2
    told = capfd.readouterr().err
    assert str(tmp_path / "none") in told
    assert "--journal" in told
    assert "--server" in told


def test_a_folder_without_a_journal_is_named_as_one_that_is_not_there(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "readme.txt").write_text("hello")
    assert main(["events", "tail", "--journal", str(tmp_path)]) == 2
    assert f"{tmp_path}: there is no journal here" in capfd.readouterr().err


def test_following_a_folder_without_a_journal_waits_for_one_and_says_so(
    folder: Path, started: "Callable[..., subprocess.Popen[bytes]]"
) -> None:
    folder.mkdir()
    tail = started("-f", "--journal", str(folder), "-o", "json")
    assert tail.stdout is not None
    assert tail.stderr is not None

    said = tail.stderr.readline().decode()
    records = write_journal(folder, some_events(5))

    assert said.endswith(f"{folder}: there is no journal here yet; waiting for it\n")
    assert [tail.stdout.readline().rstrip(b"\n") for _ in records] == raw(records)


def test_without_a_place_the_journal_of_the_controller_is_read(
    tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    records = write_journal(tmp_path / "journal", some_events(5))

    assert shown() == raw(records[-10:])


def test_records_that_are_gone_are_told_beside_those_that_are_there(
    folder: Path, records: list[Entry], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    first, *_ = sorted(folder.glob("journal-*"))
    first.unlink()

    assert main(["events", "tail", "-o", "json", "--journal", str(folder), "--from", "20"]) == 0
    captured = capfdbinary.readouterr()
    assert captured.out.splitlines() == raw(records[51:])
    assert captured.err == b"reactive-desched: record 21 was removed; going on with record 52\n"


def test_records_that_are_damaged_are_told_where_they_are_missing(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    records = write_journal(folder, some_events(20), per_segment=50)
    (path,) = folder.glob("journal-*")
    path.write_bytes(path.read_bytes().replace(records[7].raw, b"damage"))

    words = ["events", "tail", "-o", "json", "--journal", str(folder), "--from", "5"]
    assert main(words) == 0
    captured = capfdbinary.readouterr()
    assert captured.out.splitlines() == raw(records[5:7] + records[8:])
    assert b"record 8 is missing here: removed, or damaged" in captured.err


# --- following a folder that another process writes -------------------------------------------


@pytest.fixture
def started() -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Return a way to run `events tail` as a process of its own."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*flags: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "reactive_desched", "events", "tail", *flags]
        one = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        running.append(one)
        return one

    yield start
    for one in running:
        one.kill()
        one.communicate()


Started = Callable[..., "subprocess.Popen[bytes]"]


def write_on(folder: Path, records: list[Entry], rng: Random) -> None:
    """Write records in torn pieces, begin new files, and compress and remove closed ones."""
    path = segment(folder, records[0].seq).path
    for number, record in enumerate(records, 1):
        line = record.raw + b"\n"
        cut = rng.randrange(len(line))
        for piece in (line[:cut], line[cut:]):
            with path.open("ab") as file:
                file.write(piece)
            if rng.random() < 0.1:
                time.sleep(0.01)
        if number % 30 == 0 and number < len(records):
            closed, path = path, segment(folder, record.seq + 1).path
            path.touch()
            time.sleep(0.02)
            packed = closed.with_name(closed.name + ".gz")
            packed.write_bytes(gzip.compress(closed.read_bytes()))
            closed.unlink()


def test_following_shows_every_line_once_while_files_are_torn_begun_and_compressed(
    tmp_path: Path, folder: Path, started: Started
) -> None:
    records = write_journal(tmp_path / "elsewhere", some_events(200), per_segment=500)
    folder.mkdir()
    segment(folder, 1).path.touch()
    tail = started("-f", "--journal", str(folder), "--from", "oldest", "-o", "json")
    assert tail.stdout is not None

    write_on(folder, records, Random(7))
    lines = [tail.stdout.readline() for _ in records]
    tail.send_signal(signal.SIGINT)
    rest, complaints = tail.communicate(timeout=20)

    assert lines == [record.raw + b"\n" for record in records]
    assert (rest, complaints, tail.returncode) == (b"", b"", 130)


def test_following_goes_on_behind_the_last_ones_shown(
    tmp_path: Path, folder: Path, started: Started
) -> None:
    records = write_journal(tmp_path / "elsewhere", some_events(30), per_segment=500)
    folder.mkdir()
    write_on(folder, records[:20], Random(1))
    tail = started("-f", "--journal", str(folder), "-n", "3", "-o", "json")
    assert tail.stdout is not None
    first = [tail.stdout.readline() for _ in range(3)]

    with segment(folder, 1).path.open("ab") as file:
        file.writelines(record.raw + b"\n" for record in records[20:])
    then = [tail.stdout.readline() for _ in records[20:]]

    assert first + then == [record.raw + b"\n" for record in records[17:]]


@pytest.mark.parametrize("output", ["json", "table"])
def test_a_reader_that_has_gone_ends_it_without_a_word(
    tmp_path: Path, folder: Path, started: Started, output: str
) -> None:
    records = write_journal(tmp_path / "elsewhere", some_events(30), per_segment=500)
    folder.mkdir()
    write_on(folder, records[:20], Random(1))
    tail = started("-f", "--journal", str(folder), "-n", "3", "-o", output)
    assert tail.stdout is not None
    tail.stdout.readline()
    tail.stdout.close()
    with segment(folder, 1).path.open("ab") as file:
        file.write(records[20].raw + b"\n")
    assert tail.stderr is not None

    assert (tail.stderr.read(), tail.wait(20)) == (b"", 141)


# --- from a server ----------------------------------------------------------------------------


async def run_on(url: str, *flags: str) -> int:
    """Run `events tail` on a server, beside its event loop."""
    words = ["events", "tail", "-o", "json", "--server", url, *flags]
    return await to_thread.run_sync(main, words)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("flags", "family", "last"),
    [
        (["--from", "oldest"], "", 200),
        (["--from", f"{EPOCH}.100"], "", 23),
        ([], "", 10),
        (["-n", "0"], "", 0),
        (["-n", "500"], "", 200),
        (["-n", "3", "--type", "eviction"], "eviction.", 3),
        (["-n", "500", "--type", "eviction"], "eviction.", 500),
        (["--from", "oldest", "--type", "policy,leader"], ("policy.", "leader."), 500),
    ],
)
async def test_a_server_shows_the_same_as_the_folder(
    folder: Path,
    records: list[Entry],
    capfdbinary: pytest.CaptureFixture[bytes],
    flags: list[str],
    family: str,
    last: int,
) -> None:
    wanted = of_type(records, family)
    async with controller(folder, Tail(folder, SOURCE, 1, 123), ANYWHERE) as url:
        assert await run_on(url, *flags) == 0

    captured = capfdbinary.readouterr()
    assert captured.out.splitlines() == raw(wanted[max(0, len(wanted) - last) :])
    assert captured.err == b""


@pytest.mark.anyio
async def test_the_last_ones_wanted_are_looked_for_further_and_further_back(
    folder: Path,
    records: list[Entry],
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reactive_desched.cli.events_server.FIRST_LOOK", 4)
    flags = ("-n", "5", "--type", "eviction", "--node", "n2")
    wanted = [one for one in of_type(records, "eviction.") if b'"node":"n2"' in one.raw]
    async with controller(folder, Tail(folder, SOURCE, 1, 123), ANYWHERE) as url:
        assert await run_on(url, *flags) == 0

    assert capfdbinary.readouterr().out.splitlines() == raw(wanted[-5:])


@pytest.mark.anyio
async def test_what_the_server_has_no_more_is_told_on_standard_error(
    folder: Path, records: list[Entry], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async with controller(folder, Tail(folder, SOURCE, 101, 123), ANYWHERE) as url:
        assert await run_on(url, "--from", "5") == 0

    captured = capfdbinary.readouterr()
    assert captured.out.splitlines() == raw(records[100:])
    assert b"record 6 was removed; going on with record 101" in captured.err


@pytest.mark.anyio
async def test_following_a_server_goes_on_where_it_was_when_the_server_comes_back(
    folder: Path, records: list[Entry], started: Started
) -> None:
    tail = Tail(folder, SOURCE, 1, 100)
    async with controller(folder, tail, ANYWHERE) as url:
        process = started("-f", "--server", url, "-n", "2", "-o", "json")
        assert process.stdout is not None
        lines = [await to_thread.run_sync(process.stdout.readline) for _ in range(2)]
        tail.published(records[100:102])
        lines += [await to_thread.run_sync(process.stdout.readline) for _ in range(2)]
    tail.published(records[102:104])
    async with controller(folder, tail, parse_listen(url.removeprefix("http://"))):
        tail.published(records[104:106])
        lines += [await to_thread.run_sync(process.stdout.readline) for _ in range(4)]
        process.send_signal(signal.SIGINT)
        rest, complaints = await to_thread.run_sync(process.communicate)

    assert lines == [record.raw + b"\n" for record in records[98:106]]
    assert (rest, process.returncode) == (b"", 130)
    assert complaints.decode().count("trying again") == 1


@pytest.mark.anyio
async def test_nothing_is_lost_if_the_server_goes_before_anything_wanted_came(
    folder: Path, records: list[Entry], started: Started
) -> None:
    tail = Tail(folder, SOURCE, 1, 100)
    async with controller(folder, tail, ANYWHERE) as url:
        process = started("-f", "--server", url, "--from", "now", "-o", "json")
        with anyio.fail_after(20):
            while not _has_connection(process.pid, url):  # noqa: ASYNC110  # it is another process
                await anyio.sleep(0.05)
            await anyio.sleep(0.5)
    tail.published(records[100:101])
    async with controller(folder, tail, parse_listen(url.removeprefix("http://"))):
        assert process.stdout is not None
        line = await to_thread.run_sync(process.stdout.readline)

    assert line == records[100].raw + b"\n"


def _has_connection(pid: int, url: str) -> bool:
    """Say whether a process has a connection to a server."""
    port = f":{int(url.rpartition(':')[2]):04X}"
    lines = Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return any(line.split()[2].endswith(port) and line.split()[3] == "01" for line in lines)


def test_an_address_where_nobody_answers_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    for flags in ([], ["-f"], ["--from", "oldest"]):
        assert main(["events", "tail", "--server", "127.0.0.1:1", *flags]) == 1
        told = capfd.readouterr().err
        assert "nobody answers at http://127.0.0.1:1/events: Connection refused" in told
        assert told.count("\n") == 1


@pytest.mark.parametrize("address", ["ftp://host", "http://", "host:port:x/?a=b"])
def test_an_address_that_is_none_is_refused(
    address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["events", "tail", "--server", address]) == 2
    assert "http://HOST:10258" in capfd.readouterr().err


@pytest.mark.anyio
async def test_a_server_without_a_stream_or_without_room_is_told_apart(
    folder: Path, records: list[Entry], capfd: pytest.CaptureFixture[str]
) -> None:
    async with serve(ANYWHERE, Health(lambda: 0.0), None) as url:
        assert await run_on(url) == 1
    assert "404 Not Found, which is no stream of events" in capfd.readouterr().err
    async with controller(folder, Tail(folder, SOURCE, 1, 123), ANYWHERE, max_clients=0) as url:
        assert await run_on(url, "-f") == 1
    assert "all places are taken" in capfd.readouterr().err


@pytest.mark.anyio
async def test_what_an_older_server_does_not_take_is_told_in_its_words(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=400, text="'outcome' is nothing to ask for\n")

    app = web.Application()
    app.router.add_get("/events", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        assert await run_on(f"http://{host}:{port}", "--outcome", "gone") == 2
    finally:
        await runner.cleanup()

    assert capfd.readouterr().err == "'outcome' is nothing to ask for\n"


# --- how it looks -----------------------------------------------------------------------------


def laid_out(records: list[Entry], width: int | None, portion: int = 1000) -> list[str]:
    into = io.StringIO()
    table = Table(into, width)
    for begin in range(0, len(records), portion):
        table.show(records[begin : begin + portion])
    return into.getvalue().splitlines()


def test_a_table_has_a_line_for_each_record_and_columns_below_each_other(
    records: list[Entry],
) -> None:
    heading, *lines = laid_out(records, None)

    assert heading.split("  ")[0] == HEADINGS[0]
    assert len(lines) == len(records)
    starts = [heading.index(name) for name in HEADINGS if name != "CASE"]
    for record, line in zip(records, lines, strict=True):
        seen = summary(record.raw)
        assert seen is not None
        cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
        assert cells[1] == seen.kind
        assert cells[0].replace(" ", "T") == seen.time[:19]
        if seen.data.who.uid:
            assert cells[2] == f"{seen.data.who.namespace}/{seen.data.who.name}"
            assert cells[3:5] == [seen.data.who.node, seen.data.why.plugin]
        if seen.data.outcome.result:
            assert cells[5].startswith(seen.data.outcome.result)
        if seen.data.decision.gate:
            assert cells[5].startswith(f"{seen.data.decision.gate}: {seen.data.decision.reason}")


def test_on_a_terminal_of_a_hundred_columns_nothing_is_wider_and_every_pod_is_whole(
    records: list[Entry],
) -> None:
    lines = laid_out(records, 100)

    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    for record in records:
        seen = summary(record.raw)
        assert seen is not None
        assert f"{seen.kind} " in text
        assert seen.data.who.name in text
        assert seen.data.outcome.result in text
        assert seen.data.decision.reason in text
    assert "…NodeTaints" in text


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_names_too_long_for_any_column_are_folded_and_stay_whole(
    records: list[Entry], width: int
) -> None:
    pod, node = "p" * 110, f"ip-10-0-0-1.{'n' * 50}"
    raws = [
        one.raw.replace(b"web-6d4b75cb6d-00000", pod.encode()).replace(
            b'"node":"n1"', f'"node":"{node}"'.encode()
        )
        for one in records
    ]
    lines = laid_out([Entry(seq, one) for seq, one in enumerate(raws, 1)], width)

    assert max(map(len, lines)) <= width
    together = "".join("".join(lines).split())
    assert f"shop/{pod}" in together
    assert node in together


def test_a_table_that_grows_keeps_its_columns(records: list[Entry]) -> None:
    assert sorted(laid_out(records[60:], None, portion=1)[-5:]) == sorted(
        laid_out(records[60:], None)[-5:]
    )
    assert laid_out(records[60:], None, portion=1).count(laid_out(records[60:], None)[0]) <= 1


def test_no_record_can_command_the_terminal(records: list[Entry]) -> None:
    evil = records[1].raw.replace(b'"policy.yaml"', rb'"\u001b[2Jpolicy\nyaml"')
    assert evil != records[1].raw

    _, line = laid_out([Entry(2, evil)], None)

    assert line.isprintable()


def test_a_record_of_a_later_version_has_a_row_too(records: list[Entry]) -> None:
    later = json.loads(records[3].raw)
    later["type"] = "io.reactive-desched.descheduler.eviction.dreamt.v7"
    unknown = json.dumps(later).encode()

    _, *lines = laid_out([Entry(4, unknown), Entry(5, b"{}")], None)

    assert "eviction.dreamt" in lines[0]
    assert "unreadable" in lines[1]


def test_a_stream_reads_the_same_however_it_is_cut_into_pieces() -> None:
    text = (
        b'retry: 3000\r\n\r\n: hello\nid: a.1\nevent: finding.made\ndata: {"x":1}\n\n'
        b"id: a.2\n\ndata:two\ndata: lines\n\nid: bad\0id\nevent: heartbeat\ndata: {}\n\ndata: torn"
    )
    whole = list(SseReader().feed(text))
    reader = SseReader()
    single = [event for byte in text for event in reader.feed(bytes([byte]))]

    assert single == whole
    assert [tuple(event) for event in whole] == [
        ("a.1", "finding.made", b'{"x":1}'),
        ("a.2", "message", b"two\nlines"),
        ("a.2", "heartbeat", b"{}"),
    ]


def test_describing_the_command_loads_nothing_that_it_needs_only_to_run() -> None:
    code = (
        "import sys; from reactive_desched.cli import parser; parser();"
        "print({'aiohttp', 'msgspec', 'asyncio', 'anyio'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout == "set()\n"
