"""The live page at an earlier moment, in a real browser, from the recording of its controller."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync

from reactive_desched.api.event import EVICTION_OUTCOME_TYPES, EVICTION_REQUESTED
from reactive_desched.journal.events import read_events
from reactive_desched.text.counts import format_count
from tests.e2e.test_live_page import ROWS, SERIOUS, have_pods_evicted
from tests.support.browser import BrowserTab, browser
from tests.support.controller_process import ControllerProcess
from tests.support.simulator_process import (
    TAINT_POLICY,
    SimulatorProcess,
    simulator,
    taint_settings,
)

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(600)]

SETTINGS = taint_settings("server: {ui: true}", "recording: {enabled: true}")
MOMENT = "document.getElementById('moment').textContent"
NOTES = "document.getElementById('moment-notes').textContent"
BADGES = "document.getElementById('badges').textContent"
SHOWN_MS = f"Date.parse({MOMENT}.match(/as it was at (\\S+Z)/)?.[1])"
IS_PAST = f"{MOMENT}.startsWith('Not now: everything below is as it was at ')"
RESULTS = (
    f"Object.fromEntries({ROWS}.map((row) => [row.dataset.case, row.children[5].textContent]))"
)
IS_RECORDED = (
    "fetch('debug/recording').then(async (it) => it.ok && (await it.json()).times.at(-1)?.until"
    " > {!r})"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatorProcess]:
    with simulator(tmp_path_factory.mktemp("cluster"), pods=60) as running:
        yield running


@pytest.fixture(scope="module")
def controller(
    cluster: SimulatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControllerProcess]:
    folder = tmp_path_factory.mktemp("controller")
    with ControllerProcess(folder, cluster.kubeconfig, TAINT_POLICY, SETTINGS) as running:
        yield running


@pytest.fixture
async def page(
    chromium: Path, tmp_path: Path, controller: ControllerProcess
) -> AsyncIterator[BrowserTab]:
    async with browser(chromium, tmp_path / "chromium.log") as tab:
        await tab.navigate(f"http://127.0.0.1:{controller._port}/")
        await tab.wait_for("document.querySelectorAll('.node').length === 6")
        yield tab


async def press(page: BrowserTab, key: str, code: int) -> None:
    how: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": code}
    text = {"text": "\r"} if key == "Enter" else {}
    await page.send_command("Input.dispatchKeyEvent", type="keyDown", **how, **text)
    await page.send_command("Input.dispatchKeyEvent", type="keyUp", **how)


async def time_of_page(page: BrowserTab) -> str:
    """Return what the controller says is now."""
    now: str = await page.evaluate(
        "fetch('debug/status').then((it) => it.json()).then((it) => it.time)"
    )
    return now


async def look_at(page: BrowserTab, text: str) -> None:
    await page.evaluate(
        "document.getElementById('time-details').open = true;"
        f"document.getElementById('at').value = {text!r};"
        "document.getElementById('time-form').requestSubmit()"
    )


async def test_the_page_shows_an_earlier_moment_and_goes_back_to_now(
    page: BrowserTab, cluster: SimulatorProcess, controller: ControllerProcess
) -> None:
    await have_pods_evicted(cluster, controller, "node-1")
    then, pods, results = await steady(page, controller)
    await have_pods_evicted(cluster, controller, "node-2")
    later, after, _ = await steady(page, controller)
    assert after != pods
    await page.wait_for(IS_RECORDED.format(later))

    await look_at(page, then)
    await page.wait_for(IS_PAST)

    shown = "[...document.querySelectorAll('.node')].map((each) => each.title)"
    titles = await page.evaluate(shown)
    assert {name: format_count(count, "pod") for name, count in pods.items()} == {
        name: facts[0] for name, *facts in (title.split("; ") for title in titles)
    }
    assert await page.evaluate(RESULTS) == results
    assert "not now" in await page.evaluate(BADGES)
    assert then[:19] in await page.evaluate("document.title")
    await page.evaluate("document.querySelector('.node').click()")
    await page.wait_for("document.querySelector('#detail-body table') !== null")
    await page.evaluate("document.getElementById('detail').close()")

    await page.evaluate("document.getElementById('now').click()")
    await page.wait_for(f"{MOMENT} === ''")
    await page.wait_for(f"!{BADGES}.includes('not now')")
    await page.wait_for(f"{ROWS}.length > {len(results)}")
    assert await page.evaluate(shown) != titles
    assert [text for text in page.console_errors if "ERR_" not in text] == []


async def steady(
    page: BrowserTab, controller: ControllerProcess
) -> tuple[str, dict[str, int], dict[str, str]]:
    """Return a moment, how many pods each node had then, and how each eviction had ended by then.

    All that was so from 2 s before it to 2 s after it.
    """
    counts = "Object.fromEntries(answer.nodes.map((each) => [each.name, each.pods]))"
    read = f"fetch('debug/nodes').then((it) => it.json()).then((answer) => {counts})"
    found = await page.evaluate(read), results_in(controller)
    while True:
        await anyio.sleep(2)
        now = await time_of_page(page)
        await anyio.sleep(2)
        before, found = found, (await page.evaluate(read), results_in(controller))
        if before == found:
            return now, *found


def results_in(controller: ControllerProcess) -> dict[str, str]:
    """Return how each eviction ended; some fail, as their taint is taken off before the request."""
    results = {}
    for event in read_events(controller.journal):
        if event.type == EVICTION_REQUESTED:
            results[event.correlationid] = "requested"
        elif event.type in EVICTION_OUTCOME_TYPES:
            results[event.correlationid] = event.data.outcome.result
    return results


async def test_the_slider_is_moved_by_keys_alone(page: BrowserTab) -> None:
    await page.evaluate("document.querySelector('#time-details summary').focus()")
    await press(page, "Enter", 13)
    await page.wait_for("!document.getElementById('slider').disabled")
    await page.evaluate("document.getElementById('slider').focus()")
    await press(page, "Home", 36)
    await page.wait_for(IS_PAST)
    first = await page.evaluate(SHOWN_MS)
    assert first == await page.evaluate("1000 * document.getElementById('slider').min")
    await press(page, "ArrowRight", 39)
    await page.wait_for(f"{SHOWN_MS} > {first}")
    assert await page.evaluate("document.activeElement.id") == "slider"
    await page.evaluate("document.getElementById('now').focus()")
    await press(page, "Enter", 13)
    await page.wait_for(f"{MOMENT} === ''")


async def test_a_moment_that_is_not_recorded_is_refused_with_those_that_are(
    page: BrowserTab,
) -> None:
    await look_at(page, "2026-01-01")
    await page.wait_for(f"{NOTES}.includes('name a time from')")
    assert await page.evaluate(MOMENT) == ""
    await look_at(page, "noon")
    await page.wait_for(f"{NOTES}.includes('2h ago')")
    assert not await page.evaluate("document.body.classList.contains('past')")


async def test_a_time_of_which_nothing_is_recorded_is_shown(
    page: BrowserTab, controller: ControllerProcess
) -> None:
    """It ends the module's process, and begins another."""
    await run_sync(controller.stop)
    await run_sync(controller.start)
    await page.wait_for(
        "fetch('debug/recording').then(async (it) => (await it.json()).times.length === 2)"
    )
    await page.evaluate("document.getElementById('time-details').open = true")
    await page.wait_for("document.querySelectorAll('#gaps i').length === 1")
    assert "; nothing from 20" in await page.evaluate(
        "document.getElementById('times').textContent"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
async def test_no_serious_accessibility_fault_at_an_earlier_moment(
    page: BrowserTab, axe_script: str, width: int, theme: str
) -> None:
    await page.send_command(
        "Emulation.setDeviceMetricsOverride",
        width=width, height=800, deviceScaleFactor=1, mobile=width < 500,
    )  # fmt: skip
    if await page.evaluate("document.documentElement.dataset.theme") != theme:
        await page.evaluate("document.getElementById('theme').click()")
    await page.evaluate("document.getElementById('time-details').open = true")
    await page.wait_for("!document.getElementById('slider').disabled")
    await look_at(
        page,
        await page.evaluate("new Date(1000 * document.getElementById('slider').min).toISOString()"),
    )
    await page.wait_for(IS_PAST)
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.evaluate(axe_script + "; 0")
    found = await page.evaluate("axe.run().then((result) => result.violations)")
    assert [each["id"] for each in found if each["impact"] in SERIOUS] == []


async def test_a_refusal_stays_when_what_is_recorded_is_answered_after_it(page: BrowserTab) -> None:
    await page.evaluate(
        "window.answered = window.fetch;"
        "window.fetch = (url, ...more) => new Promise((go) => setTimeout("
        "() => go(answered(url, ...more)), `${url}`.includes('debug/recording') ? 2000 : 0))"
    )
    await look_at(page, "2026-01-01")
    await page.wait_for("document.getElementById('times').textContent.startsWith('Recorded is')")
    assert await page.evaluate(f"{NOTES}.includes('name a time from')")
