"""The page that follows the event stream, in a real browser, while everything behind it dies."""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from reactive_desched.api.event import CHECKPOINT, EVICTION_SUCCEEDED, PodData
from reactive_desched.journal.event_builder import journal_epoch
from reactive_desched.journal.events import read_events
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.start_position import format_id
from tests.support.browser import BrowserTab, browser
from tests.support.control_plane import wait_until
from tests.support.controller_process import ControllerProcess
from tests.support.example_programs import ExampleProgram, ExamplePrograms
from tests.support.ports import free_port
from tests.support.simulator_process import (
    TAINT_POLICY,
    SimulatorProcess,
    simulator,
    taint_settings,
)

pytestmark = [pytest.mark.anyio, pytest.mark.real]

SETTINGS = taint_settings("sinks: {stream: {heartbeat: 300ms}}")
ROWS = "[...document.querySelectorAll('tbody tr')]"
STATE = "document.getElementById('state').textContent"
# A minute of silence passes in three seconds.
HASTE = "{ const slow = setTimeout; window.setTimeout = (then, ms) => slow(then, ms / 20); }"
COLOURS = """
[...document.querySelectorAll('h1, p span, th, td')].map((one) => getComputedStyle(one).color)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatorProcess]:
    with simulator(tmp_path_factory.mktemp("cluster"), pods=40) as running:
        yield running


@dataclass
class Stand:
    """A controller, and the example that serves the page; both can be lost and come back."""

    cluster: SimulatorProcess
    controller: ControllerProcess
    _programs: ExamplePrograms
    _port: int = field(default_factory=free_port)
    _server: ExampleProgram | None = None
    _nodes: Iterator[str] = field(default_factory=lambda: cycle(f"node-{n}" for n in range(1, 7)))
    _tainted: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/"

    def serve_page(self) -> None:
        port = str(self._port)
        controller = f"http://127.0.0.1:{self.controller._port}"
        self._server = self._programs.start("events_page.py", controller, port)
        self._server.wait_for(lambda lines: lines == [f"open {self.url}"])

    def lose_page_server(self) -> None:
        assert self._server is not None
        self._server.kill()
        self._server = None

    def mend(self) -> None:
        if not self.controller.alive:
            self.controller.start()
        self.controller.thaw()
        if self._server is None:
            self.serve_page()

    @property
    def faults_of_page_server(self) -> str:
        assert self._server is not None
        return self._server.stderr_text.partition("Traceback")[2]

    def recorded(self) -> list[AnyEvent]:
        return [event for event in read_events(self.controller.journal) if event.type != CHECKPOINT]

    def _taint_next_node(self) -> None:
        """Taint one node after the other, so that the pods of one of them have to leave."""
        if self._tainted:
            self.cluster.set_taints(self._tainted)
        self._tainted = next(self._nodes)
        self.cluster.set_taints(self._tainted, "gpu")

    async def have_pods_evicted(self) -> None:
        """Return when somebody was evicted and it is on record."""

        def evicted() -> int:
            return sum(event.type == EVICTION_SUCCEEDED for event in self.recorded())

        before = evicted()
        await run_sync(self._taint_next_node)
        await run_sync(
            lambda: wait_until(lambda: evicted() > before, within_s=60, what="an eviction")
        )


@pytest.fixture(scope="module")
def stand_of_all(
    cluster: SimulatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stand]:
    folder = tmp_path_factory.mktemp("stand")
    with (
        ControllerProcess(folder, cluster.kubeconfig, TAINT_POLICY, SETTINGS) as controller,
        ExamplePrograms(folder) as programs,
    ):
        yield Stand(cluster, controller, programs)


@pytest.fixture
def stand(stand_of_all: Stand) -> Stand:
    """The one stand, whole again whatever the test before has left of it."""
    stand_of_all.mend()
    return stand_of_all


@pytest.fixture
async def page(chromium: Path, tmp_path: Path) -> AsyncIterator[BrowserTab]:
    async with browser(chromium, tmp_path / "chromium.log") as page:
        yield page


def ids_of(events: list[AnyEvent]) -> list[str]:
    return [format_id(journal_epoch(event.source), int(event.sequence)) for event in events]


async def shown(page: BrowserTab) -> list[str]:
    """Return the ids of the events on the page, the earliest first; "reset" where it says so."""
    found: list[str] = await page.evaluate(f"{ROWS}.map((row) => row.id || row.dataset.kind)")
    return found[::-1]


async def shows_each_once(page: BrowserTab, stand: Stand) -> None:
    """Wait for what is on record now; fail if it is not there in order, or anything comes twice."""
    expected = ids_of(stand.recorded())
    await page.wait_for(f"!!document.getElementById('{expected[-1]}')")
    found = await shown(page)
    assert found[: len(expected)] == expected
    assert len(set(found)) == len(found)


async def test_what_happens_is_on_the_page_at_once(page: BrowserTab, stand: Stand) -> None:
    await page.navigate(stand.url)
    await page.wait_for(f"{STATE} === 'connected'")
    await stand.have_pods_evicted()
    await shows_each_once(page, stand)

    (last,) = [e for e in stand.recorded() if e.type == EVICTION_SUCCEEDED][-1:]
    (row,) = ids_of([last])
    await page.wait_for(f"document.getElementById('{row}') !== null")  # it may be a newer one
    cells = await page.evaluate(
        f"[...document.getElementById('{row}').cells].map((c) => c.innerText)"
    )
    assert isinstance(last.data, PodData)
    when, node = last.time.strftime("%Y-%m-%d %H:%M:%S"), last.data.who.node
    assert cells[:4] == [when, "eviction.succeeded", last.subject, node]
    assert cells[4] == "evicted: EvictionAccepted"
    assert page.console_errors == []


async def test_the_page_outlives_its_controller_and_its_server_and_shows_each_event_once(
    page: BrowserTab, stand: Stand
) -> None:
    await page.navigate(stand.url)
    await stand.have_pods_evicted()
    await shows_each_once(page, stand)
    assert page.console_errors == []

    stand.controller.kill()
    await page.wait_for(f"{STATE}.startsWith('the controller does not answer')")
    assert stand.faults_of_page_server == ""
    await run_sync(stand.controller.start)
    await stand.have_pods_evicted()
    await shows_each_once(page, stand)

    stand.lose_page_server()
    await page.wait_for(f"{STATE}.startsWith('the connection broke')")
    await stand.have_pods_evicted()
    stand.serve_page()
    await shows_each_once(page, stand)
    assert await page.evaluate(STATE) == "connected"
    assert {complaint.partition(":")[0] for complaint in page.console_errors} == {"network"}


async def test_a_page_that_receives_nothing_connects_again_and_misses_nothing(
    page: BrowserTab, stand: Stand
) -> None:
    await page.send_command("Page.addScriptToEvaluateOnNewDocument", source=HASTE)
    await page.navigate(stand.url)
    await stand.have_pods_evicted()
    stand.controller.freeze()
    await page.wait_for(f"{STATE}.startsWith('nothing came')")
    stand.controller.thaw()
    await page.wait_for(f"{STATE} === 'connected'")
    await stand.have_pods_evicted()

    await shows_each_once(page, stand)
    assert page.console_errors == []


async def test_the_page_says_that_events_were_missed_and_continues_with_the_oldest_there_is(
    page: BrowserTab, stand: Stand
) -> None:
    await page.navigate(stand.url)
    await stand.have_pods_evicted()
    await shows_each_once(page, stand)
    stand.controller.kill()
    stand.controller.journal.rename(stand.controller.journal.with_name("lost"))
    before = await shown(page)

    await run_sync(stand.controller.start)
    await stand.have_pods_evicted()
    expected = [*before, "reset", *ids_of(stand.recorded())]
    await page.wait_for(f"!!document.getElementById('{expected[-1]}')")
    assert (await shown(page))[: len(expected)] == expected
    told = await page.evaluate("document.querySelector('[data-kind=reset]').innerText")
    assert re.search(r"events were missed\s+\S.*journal", told)

    await page.navigate(f"{stand.url}?from={before[0]}")
    await page.wait_for(f"!!document.getElementById('{expected[-1]}')")
    assert (await shown(page))[: len(expected) - len(before)] == expected[len(before) :]


async def test_filters_in_the_address_choose_what_the_page_shows(
    page: BrowserTab, stand: Stand
) -> None:
    await stand.have_pods_evicted()
    await page.navigate(f"{stand.url}?type=eviction")
    expected = [e for e in stand.recorded() if "descheduler.eviction." in e.type]
    await page.wait_for(f"!!document.getElementById('{ids_of(expected)[-1]}')")
    assert (await shown(page))[: len(expected)] == ids_of(expected)

    await page.navigate(f"{stand.url}?colour=red")
    await page.wait_for("document.getElementById('state').dataset.is === 'refused'")
    assert "colour" in await page.evaluate(STATE)
    assert await shown(page) == []


async def test_the_page_loads_nothing_but_the_stream_and_can_load_nothing_else(
    page: BrowserTab, stand: Stand
) -> None:
    await page.navigate(stand.url)
    await page.wait_for(f"{STATE} === 'connected'")
    loaded = "performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname)"
    assert set(await page.evaluate(loaded)) <= {"/events"}
    assert page.console_errors == []

    await page.evaluate(
        "void (document.body.append(new Image()), document.images[0].src = '/x.png')"
    )
    await page.evaluate("void document.body.setAttribute('onclick', 'alert(1)')")
    await run_sync(
        lambda: wait_until(lambda: len(page.console_errors) > 1, within_s=60, what="two complaints")
    )
    image, script = page.console_errors
    assert image.startswith("security: ")
    assert "default-src" in image
    assert script.startswith("security: ")
    assert "script-src" in script


async def test_the_page_can_be_read_in_light_and_in_darkness(
    page: BrowserTab, stand: Stand, tmp_path: Path
) -> None:
    await page.navigate(stand.url)
    await stand.have_pods_evicted()
    await shows_each_once(page, stand)
    for scheme in ("light", "dark"):
        preferred = [{"name": "prefers-color-scheme", "value": scheme}]
        await page.send_command("Emulation.setEmulatedMedia", features=preferred)
        (tmp_path / f"{scheme}.png").write_bytes(await page.screenshot())

        ground = brightness(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert (ground > 0.5) == (scheme == "light")
        for colour in set(await page.evaluate(COLOURS)):
            low, high = sorted((ground, brightness(colour)))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (scheme, colour)  # as WCAG asks for


def brightness(colour: str) -> float:
    """Return the relative luminance of `rgb(R, G, B)`, from 0 to 1."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)]
    red, green, blue = (c / 12.92 if c < 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


async def test_what_a_console_shows_in_red_is_a_complaint(page: BrowserTab) -> None:
    script = "console.error('one', 2); console.log('fine'); nobody.knows()"
    await page.navigate(f"data:text/html,<script>{script}</script>")

    first, second = page.console_errors
    assert first == "console: one 2"
    assert second.startswith("uncaught: ReferenceError: nobody is not defined")
