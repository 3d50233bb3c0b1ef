"""A real Chromium without a window, so that our pages are seen as people's browsers see them."""

import asyncio
import base64
import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import aiohttp
import anyio

from tests.support.control_plane import wait_until

__all__ = ["BrowserError", "BrowserTab", "browser"]

# Debugging port 0 is any, on loopback alone; containers have little shared memory.
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-breakpad", "--disable-dev-shm-usage", "--window-size=1100,800"),
    *("--remote-debugging-port=0", "about:blank"),
)
# A page of an earlier moment comes from a process that gives way to every other of a busy machine,
# and has 90 s.
TIMEOUT_S, POLL_INTERVAL_S = 120.0, 0.05
Json: TypeAlias = dict[str, Any]  # see https://chromedevtools.github.io/devtools-protocol/


_NAVIGATING = ("navigated", "context was destroyed", "Cannot find context")


class BrowserError(Exception):
    """The browser did not do what it was asked."""


class BrowserTab:
    """A tab; `console_errors` are the errors in its console and exceptions that were not caught."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.console_errors: list[str] = []
        self._socket, self._ids = socket, itertools.count(1)
        self._asked: dict[int, asyncio.Future[Json]] = {}

    async def send_command(self, method: str, **params: object) -> Any:  # a JSON object
        """Return the result of a command; raises BrowserError when it is refused."""
        number = next(self._ids)
        answered = self._asked[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        answer: Json = await asyncio.wait_for(answered, TIMEOUT_S)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        return answer["result"]

    async def navigate(self, url: str) -> None:
        """Open an address and wait for the page; raises BrowserError when nothing answers."""
        if error := (await self.send_command("Page.navigate", url=url)).get("errorText"):
            raise BrowserError(f"{url}: {error}")
        await self.wait_for("document.readyState === 'complete'")

    async def evaluate(self, expression: str) -> Any:  # any JSON value
        """Return the value of an expression; that of a promise as soon as it has one."""
        how = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        if "exceptionDetails" in (response := await self.send_command("Runtime.evaluate", **how)):
            raise BrowserError(f"{expression}: {_error_text(response['exceptionDetails'])}")
        return response["result"].get("value")

    async def wait_for(self, expression: str, within_s: float = TIMEOUT_S) -> Any:  # any JSON value
        """Return the first true value of an expression; raises TimeoutError with the last one."""
        deadline = anyio.current_time() + within_s
        while not (value := await self._evaluate_if_loaded(expression)):
            if anyio.current_time() > deadline:
                text = await self.evaluate("document.body.innerText.slice(0, 2000)")
                raise TimeoutError(f"{expression} stayed {value!r}; {self.console_errors}; {text}")
            await anyio.sleep(POLL_INTERVAL_S)
        return value

    async def _evaluate_if_loaded(self, expression: str) -> Any:  # any JSON value
        """Return the value; None while another page is loaded, which ends what is under way."""
        try:
            return await self.evaluate(expression)
        except BrowserError as error:
            if any(words in str(error) for words in _NAVIGATING):
                return None
            raise

    async def screenshot(self) -> bytes:
        """Return what it looks like, as a PNG."""
        return base64.b64decode((await self.send_command("Page.captureScreenshot"))["data"])

    async def receive_events(self) -> None:
        """Take what the browser says until it ends; `browser` runs this."""
        async for message in self._socket:
            said: Json = message.json()
            if (asked := self._asked.pop(said.get("id", 0), None)) and not asked.done():
                asked.set_result(said)
            elif error := _console_error(said.get("method", ""), said.get("params", {})):
                self.console_errors.append(error)


def _console_error(event: str, params: Json) -> str | None:
    """Return what somebody would see in red in the console, as `SOURCE: WORDS`."""
    match event:
        case "Runtime.exceptionThrown":
            return f"uncaught: {_error_text(params['exceptionDetails'])}"
        case "Runtime.consoleAPICalled" if params["type"] in ("error", "assert"):
            text = (one.get("value", one.get("description")) for one in params["args"])
            return f"console: {' '.join(map(str, text))}"
        case "Log.entryAdded" if (entry := params["entry"])["level"] == "error":
            return f"{entry['source']}: {entry['text']} {entry.get('url', '')}"
    return None


def _error_text(details: Json) -> str:
    return str(details.get("exception", {}).get("description", details["text"]))


@contextlib.asynccontextmanager
async def browser(program: Path, log: Path) -> AsyncIterator[BrowserTab]:
    """Run a fresh browser and yield its only tab; nothing of it outlives the block."""
    with _running(program, log) as port:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            async with session.put("/json/new") as made:
                tab = (await made.json())["webSocketDebuggerUrl"]
            async with session.ws_connect(tab, max_msg_size=0) as socket:
                page = BrowserTab(socket)
                listening = asyncio.create_task(page.receive_events())
                try:
                    for domain in ("Page", "Runtime", "Log"):
                        await page.send_command(f"{domain}.enable")
                    yield page
                finally:
                    listening.cancel()


@contextlib.contextmanager
def _running(program: Path, log: Path) -> Iterator[str]:
    """Run the program in a home of its own and yield its port as soon as it listens."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as home, log.open("ab") as output:
        process = subprocess.Popen(
            (program, f"--user-data-dir={home}", *OPTIONS),
            env={**os.environ, "HOME": home},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its many processes end with it
        )
        try:
            yield wait_until(lambda: _port(home), within_s=TIMEOUT_S, what=f"a browser (see {log})")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _port(home: str) -> str | None:
    lines = Path(home, "DevToolsActivePort")
    return lines.read_text().partition("\n")[0] if lines.exists() else None
