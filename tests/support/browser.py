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

from tests.support.control_plane import eventually

__all__ = ["BrowserError", "Page", "browser"]

# Debugging port 0 is any, on loopback alone; containers have little shared memory.
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-breakpad", "--disable-dev-shm-usage", "--window-size=1100,800"),
    *("--remote-debugging-port=0", "about:blank"),
)
WITHIN_S, LOOK_EVERY_S = 20.0, 0.05
Json: TypeAlias = dict[str, Any]  # see https://chromedevtools.github.io/devtools-protocol/


class BrowserError(Exception):
    """The browser did not do what it was asked."""


class Page:
    """A tab. `complaints` are the errors in its console and the exceptions nobody caught."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        self._socket, self._ids = socket, itertools.count(1)
        self._asked: dict[int, asyncio.Future[Json]] = {}

    async def ask(self, method: str, **params: object) -> Any:  # a JSON object
        """Return the result of a command; raises BrowserError when it is refused."""
        number = next(self._ids)
        answered = self._asked[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        answer: Json = await asyncio.wait_for(answered, WITHIN_S)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        return answer["result"]

    async def go(self, url: str) -> None:
        """Open an address and wait for the page; raises BrowserError when nothing answers."""
        if error := (await self.ask("Page.navigate", url=url)).get("errorText"):
            raise BrowserError(f"{url}: {error}")
        await self.until("document.readyState === 'complete'")

    async def evaluate(self, expression: str) -> Any:  # any JSON value
        """Return the value of an expression; that of a promise as soon as it has one."""
        how = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        if "exceptionDetails" in (said := await self.ask("Runtime.evaluate", **how)):
            raise BrowserError(f"{expression}: {_words(said['exceptionDetails'])}")
        return said["result"].get("value")

    async def until(self, expression: str, within_s: float = WITHIN_S) -> Any:  # any JSON value
        """Return the first true value of an expression; raises TimeoutError with the last one."""
        deadline = anyio.current_time() + within_s
        while not (value := await self.evaluate(expression)):
            if anyio.current_time() > deadline:
                text = await self.evaluate("document.body.innerText.slice(0, 2000)")
                raise TimeoutError(f"{expression} stayed {value!r}; {self.complaints}; {text}")
            await anyio.sleep(LOOK_EVERY_S)
        return value

    async def screenshot(self) -> bytes:
        """Return what it looks like, as a PNG."""
        return base64.b64decode((await self.ask("Page.captureScreenshot"))["data"])

    async def listen(self) -> None:
        """Take what the browser says until it ends; `browser` runs this."""
        async for message in self._socket:
            said: Json = message.json()
            if (asked := self._asked.pop(said.get("id", 0), None)) and not asked.done():
                asked.set_result(said)
            elif complaint := _complaint(said.get("method", ""), said.get("params", {})):
                self.complaints.append(complaint)


def _complaint(event: str, params: Json) -> str | None:
    """Return what somebody would see in red in the console, as `SOURCE: WORDS`."""
    match event:
        case "Runtime.exceptionThrown":
            return f"uncaught: {_words(params['exceptionDetails'])}"
        case "Runtime.consoleAPICalled" if params["type"] in ("error", "assert"):
            said = (one.get("value", one.get("description")) for one in params["args"])
            return f"console: {' '.join(map(str, said))}"
        case "Log.entryAdded" if (entry := params["entry"])["level"] == "error":
            return f"{entry['source']}: {entry['text']} {entry.get('url', '')}"
    return None


def _words(details: Json) -> str:
    return str(details.get("exception", {}).get("description", details["text"]))


@contextlib.asynccontextmanager
async def browser(program: Path, log: Path) -> AsyncIterator[Page]:
    """Run a fresh browser and yield its only tab; nothing of it outlives the block."""
    with _running(program, log) as port:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            async with session.put("/json/new") as made:
                tab = (await made.json())["webSocketDebuggerUrl"]
            async with session.ws_connect(tab, max_msg_size=0) as socket:
                page = Page(socket)
                listening = asyncio.create_task(page.listen())
                try:
                    for domain in ("Page", "Runtime", "Log"):
                        await page.ask(f"{domain}.enable")
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
            yield eventually(lambda: _port(home), within_s=WITHIN_S, what=f"a browser (see {log})")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _port(home: str) -> str | None:
    told = Path(home, "DevToolsActivePort")
    return told.read_text().partition("\n")[0] if told.exists() else None
