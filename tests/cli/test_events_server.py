"""`events tail --server`: the same records, from the stream of a controller."""

import gc
import signal
import socket
import ssl
import subprocess
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from aiohttp import web
from anyio import to_thread

from reactive_desched.cli import main
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.tail import LiveTail
from reactive_desched.primitives.listen_address import parse_listen_address
from reactive_desched.web.health import Health
from reactive_desched.web.server import Served, serve
from tests.support.authority import CertificateAuthority
from tests.support.golden import Golden
from tests.support.journals import SOURCE
from tests.support.manual_clock import wait_until
from tests.support.served_journal import ANY_PORT, EPOCH, serve_stream

pytestmark = pytest.mark.anyio

Started = Callable[..., subprocess.Popen[bytes]]
NextLines = Callable[[subprocess.Popen[bytes], int], list[bytes]]
LinesAbout = Callable[..., list[bytes]]


@pytest.fixture
def tail(folder: Path, records: list[JournalRecord]) -> LiveTail:
    """The journal as its writer has it, from the first record to the last."""
    return LiveTail(folder, SOURCE, 1, len(records))


async def run_on(url: str, *flags: str) -> int:
    """Run `events tail` on a server, beside its event loop."""
    words = ["events", "tail", "-o", "json", "--server", url, *flags]
    return await to_thread.run_sync(main, words)


@pytest.mark.parametrize(
    ("flags", "types", "last"),
    [
        (["--from", "oldest"], [""], 200),
        (["--from", f"{EPOCH}.100"], [""], 23),
        ([], [""], 10),
        (["--limit", "0"], [""], 0),
        (["--limit", "500"], [""], 200),
        (["--limit", "3", "--type", "eviction"], ["eviction."], 3),
        (["--limit", "500", "--type", "eviction"], ["eviction."], 500),
        (["--from", "oldest", "--type", "policy,leader"], ["policy.", "leader."], 500),
    ],
)
async def test_a_server_shows_the_same_as_the_folder(
    tail: LiveTail,
    lines_about: LinesAbout,
    capfdbinary: pytest.CaptureFixture[bytes],
    flags: list[str],
    types: list[str],
    last: int,
) -> None:
    wanted = lines_about(*types)
    async with serve_stream(tail) as served:
        assert await run_on(served.url, *flags) == 0

    captured = capfdbinary.readouterr()
    assert captured.out.splitlines() == wanted[max(0, len(wanted) - last) :]
    assert captured.err == b""


async def test_the_last_ones_wanted_are_looked_for_further_and_further_back(
    tail: LiveTail,
    lines_about: LinesAbout,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reactive_desched.cli.events_server.INITIAL_LOOKBACK", 4)
    wanted = [line for line in lines_about("eviction.") if b'"node":"n2"' in line]
    async with serve_stream(tail) as served:
        assert await run_on(served.url, "--limit", "5", "--type", "eviction", "--node", "n2") == 0

    assert capfdbinary.readouterr().out.splitlines() == wanted[-5:]


async def test_following_a_server_continues_where_it_was_when_the_server_comes_back(
    folder: Path, records: list[JournalRecord], started: Started, next_lines: NextLines
) -> None:
    tail = LiveTail(folder, SOURCE, 1, 100)
    async with serve_stream(tail, records) as served:
        process = started("-f", "--server", served.url, "--limit", "2", "-o", "json")
        shown = await to_thread.run_sync(next_lines, process, 2)
        served.publish(2)
        shown += await to_thread.run_sync(next_lines, process, 2)
    served.publish(2)
    async with serve_stream(tail, listen=parse_listen_address(served.url.removeprefix("http://"))):
        served.publish(2)
        shown += await to_thread.run_sync(next_lines, process, 4)
        process.send_signal(signal.SIGINT)
        rest, complaints = await to_thread.run_sync(process.communicate)

    assert shown == [record.raw for record in records[98:106]]
    assert (rest, process.returncode) == (b"", 130)
    assert complaints.decode().count("trying again") == 1


async def test_nothing_is_lost_if_the_server_goes_before_anything_wanted_came(
    folder: Path, records: list[JournalRecord], started: Started, next_lines: NextLines
) -> None:
    tail = LiveTail(folder, SOURCE, 1, 100)
    async with serve_stream(tail, records) as served:
        process = started("-f", "--server", served.url, "--from", "now", "-o", "json")
        await wait_until(lambda: served.stream.clients.counters.clients == 1)
        await anyio.wait_all_tasks_blocked()  # it is told where the stream is
    served.publish()
    async with serve_stream(tail, listen=parse_listen_address(served.url.removeprefix("http://"))):
        (line,) = await to_thread.run_sync(next_lines, process, 1)

    assert line == records[100].raw


@pytest.mark.parametrize(
    "flags", [[], ["-f"], ["--from", "oldest"]], ids=["last", "follow", "from"]
)
def test_an_address_without_a_server_is_named(
    flags: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["events", "tail", "--server", "127.0.0.1:1", *flags]) == 1
    told = capfd.readouterr().err
    assert "no answer at http://127.0.0.1:1/events: Connection refused" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("address", ["ftp://host", "http://", "host:port:x/?a=b"])
def test_an_address_that_is_none_is_refused(
    address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["events", "tail", "--server", address]) == 2
    assert "is not the address of" in capfd.readouterr().err


async def test_a_server_without_a_stream_is_distinguished_from_one_without_room(
    tail: LiveTail, capfd: pytest.CaptureFixture[str], golden: Golden
) -> None:
    async with serve(ANY_PORT, Served(Health(lambda: 0.0))) as url:
        assert await run_on(url) == 1
    assert golden() in capfd.readouterr().err
    async with serve_stream(tail, max_clients=0) as served:
        assert await run_on(served.url, "-f") == 1
    assert "all places are taken" in capfd.readouterr().err


async def test_what_an_older_server_rejects_is_reported_in_its_words(
    capfd: pytest.CaptureFixture[str],
    golden: Golden,
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
        assert await run_on(f"http://{host}:{port}", "--outcome", "failed") == 2
    finally:
        await runner.cleanup()

    assert capfd.readouterr().err == golden() + "\n"


def test_an_answer_over_tls_that_is_not_read_to_its_end_leaves_no_connection_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = CertificateAuthority()
    context = authority.server_context(tmp_path, "localhost")
    trust = str(authority.write(tmp_path / "ca.crt"))
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as server:

        def refuse() -> ssl.SSLSocket:
            connection = context.wrap_socket(listening.accept()[0], server_side=True)
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 10\r\n\r\nno")
            return connection  # open, and without a farewell

        refused = server.submit(refuse)
        url = f"https://localhost:{listening.getsockname()[1]}"
        assert main(["events", "tail", "--server", url, "--certificate-authority", trust]) == 1
        with warnings.catch_warnings(record=True) as left:
            warnings.simplefilter("always")
            gc.collect()
        refused.result().close()

    assert "wants a valid token" in capsys.readouterr().err
    assert not [str(each.message) for each in left if each.category is ResourceWarning]
