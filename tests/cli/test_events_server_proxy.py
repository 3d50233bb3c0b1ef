"""A proxy that answers while the controller restarts does not end `events tail -f --server`."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from subprocess import Popen

import anyio
import pytest
from aiohttp import web
from anyio import to_thread

from reactive_desched.cli import main
from reactive_desched.journal.records import JournalRecord
from tests.support.golden import Golden
from tests.support.served_journal import to_sse_event

pytestmark = [pytest.mark.anyio, pytest.mark.waits]

Started = Callable[..., Popen[bytes]]
NextLines = Callable[[Popen[bytes], int], list[bytes]]


class Proxy:
    """Answers with a controller's records or, when there is a status in line, with that."""

    def __init__(self, records: list[JournalRecord]) -> None:
        self.script: list[int] = []
        self.asked = 0
        self._records = records

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve on loopback."""
        runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        if self.script:
            return web.Response(status=self.script.pop(0), text="<html>")
        last = request.headers.get("Last-Event-ID", ".0")
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        record = self._records[int(last.rpartition(".")[2])]
        event = to_sse_event(record)
        text = f"id: {event.id}\nevent: {event.type}\ndata: {event.data}\n\n"
        await answer.write(text.encode())
        return answer  # and so the stream ends


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_whatever_a_proxy_says_meanwhile_it_is_tried_again(
    records: list[JournalRecord], started: Started, next_lines: NextLines, status: int
) -> None:
    proxy = Proxy(records)
    async with proxy.serving() as url:
        tail = started("-f", "-o", "json", "--server", url, "--from", "0")
        shown = await to_thread.run_sync(next_lines, tail, 1)
        proxy.script += [status, status]
        with anyio.fail_after(20):
            shown += await to_thread.run_sync(next_lines, tail, 2)

    assert shown == [record.raw for record in records[:3]]


@pytest.mark.parametrize("status", [HTTPStatus.NOT_FOUND, HTTPStatus.BAD_GATEWAY])
async def test_where_no_controller_ever_was_none_is_waited_for(
    records: list[JournalRecord],
    capfd: pytest.CaptureFixture[str],
    status: HTTPStatus,
    golden: Golden,
) -> None:
    proxy = Proxy(records)
    proxy.script += [status]
    async with proxy.serving() as url:
        words = ["events", "tail", "-f", "--server", url, "--from", "0"]
        assert await to_thread.run_sync(main, words) == 1

    assert golden(status=status.value, phrase=status.phrase) in capfd.readouterr().err
    assert proxy.asked == 1
