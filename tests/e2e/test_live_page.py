"""The live page of a controller, in a real browser, while the controller is killed beneath it."""

import json
import re
import threading
import urllib.request
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from anyio.to_thread import run_sync

from reactive_desched.api.event import (
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    EVICTION_SUCCEEDED,
)
from reactive_desched.journal.events import read_events
from tests.support.browser import BrowserTab, browser
from tests.support.control_plane import wait_until
from tests.support.controller_process import ControllerProcess
from tests.support.golden import Golden
from tests.support.simulator_process import (
    TAINT_POLICY,
    SimulatorProcess,
    simulator,
    taint_settings,
)
from tests.support.syntax import PACKAGE

pytestmark = [pytest.mark.anyio, pytest.mark.real]

SETTINGS = taint_settings("server: {ui: true}")
ROWS = "[...document.querySelectorAll('#feed tr')]"
STREAM = "document.getElementById('stream').textContent"
SERIOUS = {"serious", "critical"}
HOLD_FIRST_FRAME_OF_NEW_ROWS = f"""
{ROWS}.forEach((row) => {{
  row.classList.remove("fresh");
  row.getBoundingClientRect();
  row.style.animationPlayState = "paused";
  row.classList.add("fresh");
}}); document.getAnimations().length"""


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
        await tab.wait_for(f"{STREAM}.startsWith('Connected')")
        await tab.wait_for("document.querySelectorAll('.node').length === 6")
        yield tab


def evicted(controller: ControllerProcess) -> dict[str, str]:
    """Return each case with an accepted eviction, and its pod."""
    return {
        event.correlationid: f"{event.data.who.namespace}/{event.data.who.name}"
        for event in read_events(controller.journal)
        if event.type == EVICTION_SUCCEEDED
    }


async def have_pods_evicted(
    cluster: SimulatorProcess, controller: ControllerProcess, node: str
) -> dict[str, str]:
    """Taint a node, wait until its pods were evicted, and take the taint off again."""
    before = len(evicted(controller))
    await run_sync(cluster.set_taints, node, "gpu")

    def settled() -> bool:
        events = list(read_events(controller.journal))
        asked = sum(event.type == EVICTION_REQUESTED for event in events)
        ended = sum(event.type in EVICTION_OUTCOME_TYPES for event in events)
        return asked == ended and len(evicted(controller)) > before

    await run_sync(lambda: wait_until(settled, within_s=60, what="evictions"))
    await run_sync(cluster.set_taints, node)
    return evicted(controller)


async def cases_shown(page: BrowserTab, count: int) -> dict[str, str]:
    """Return the cases of the table and their pods, once there are so many."""
    shown = f"{ROWS}.filter((row) => row.children[5].textContent === 'evicted')"
    await page.evaluate("document.getElementById('more').click()")
    await page.wait_for(f"{shown}.length >= {count}")
    rows: list[list[str]] = await page.evaluate(
        f"{shown}.map((row) => [row.dataset.case, row.children[1].textContent])"
    )
    assert len(rows) == len({case for case, _ in rows})
    return dict(map(tuple, rows))  # type: ignore[arg-type]  # pairs


async def assert_shows_the_record(page: BrowserTab, controller: ControllerProcess) -> None:
    """Compare the table with the journal; again where one more was recorded in between."""
    recorded: dict[str, str] | None = None
    while recorded != (recorded := evicted(controller)):
        shown = await cases_shown(page, len(recorded))
    assert shown == recorded


class _StillStarts(BaseHTTPRequestHandler):
    """Answers as a controller whose journal is not open yet."""

    asked = threading.Event()

    def do_GET(self) -> None:
        """Refuse, and note that the stream was asked for."""
        self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
        if self.path.startswith("/events"):
            self.asked.set()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


async def test_the_stream_is_opened_again_after_a_controller_that_was_not_ready_refused_it(
    page: BrowserTab, controller: ControllerProcess
) -> None:
    controller.kill()
    with ThreadingHTTPServer(("127.0.0.1", controller._port), _StillStarts) as refusing:
        serving = threading.Thread(target=refusing.serve_forever, daemon=True)
        serving.start()
        assert await run_sync(_StillStarts.asked.wait, 30), "nothing was asked"
        refusing.shutdown()
        serving.join()
    controller.start()

    await page.wait_for(f"{STREAM}.startsWith('Connected')")


async def test_the_page_shows_what_the_journal_records_also_after_the_controller_was_killed(
    page: BrowserTab, cluster: SimulatorProcess, controller: ControllerProcess
) -> None:
    await have_pods_evicted(cluster, controller, "node-1")
    await assert_shows_the_record(page, controller)

    controller.kill()
    await page.wait_for(f"{STREAM}.includes('interrupted')")
    await page.wait_for("document.getElementById('badges').textContent.includes('no answer')")
    controller.start()
    await have_pods_evicted(cluster, controller, "node-2")
    await page.wait_for(f"{STREAM}.startsWith('Connected')")
    await assert_shows_the_record(page, controller)
    await page.wait_for("/evaluating|slowed/.test(document.getElementById('badges').textContent)")
    # The kill broke connections, and a controller that starts has no events yet.
    expected = "ERR_", "503 (Service Unavailable)"
    assert [text for text in page.console_errors if not any(map(text.__contains__, expected))] == []


async def test_a_pod_a_node_and_a_workload_are_explained_by_keyboard_alone(
    page: BrowserTab, cluster: SimulatorProcess
) -> None:
    detail = "document.getElementById('detail-body').textContent"
    await page.evaluate("document.querySelector('.node[tabindex=\"0\"]').focus()")
    first = await page.evaluate("document.activeElement.dataset.ask")
    await press(page, "ArrowRight")
    second = await page.evaluate("document.activeElement.dataset.ask")
    assert second.startswith("node=node-")
    assert second != first
    await press(page, "Enter")
    await page.wait_for(f"{detail}.includes('plugins look at its pods')")
    await page.wait_for("document.querySelectorAll('#detail-body [data-ask^=\"pod=\"]').length > 0")
    pod = await page.evaluate(
        "document.querySelector('#detail-body [data-ask^=\"pod=\"]').textContent"
    )
    await press(page, "Escape")
    await page.wait_for("!document.getElementById('detail').open")
    await page.evaluate(
        f"const query = document.getElementById('query'); query.focus(); query.value = {pod!r}"
    )
    await press(page, "Enter")
    await page.wait_for(f"{detail}.includes('RemovePodsViolatingNodeTaints')")
    assert await page.evaluate("document.querySelector('.state').textContent.startsWith('stays')")


async def press(page: BrowserTab, key: str) -> None:
    text = {"text": "\r"} if key == "Enter" else {}
    code = {"Enter": 13, "Escape": 27, "ArrowRight": 39}[key]
    how: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": code}
    await page.send_command("Input.dispatchKeyEvent", type="keyDown", **how, **text)
    await page.send_command("Input.dispatchKeyEvent", type="keyUp", **how)


async def test_a_reason_leads_to_what_it_means(page: BrowserTab, cluster: SimulatorProcess) -> None:
    await run_sync(cluster.set_taints, "node-4", "gpu")
    links = "[...document.querySelectorAll('#reasons a')]"
    await page.wait_for(f"{links}.length > 0")
    shown = await page.evaluate(f"{links}.map((each) => [each.textContent, each.href])")
    await run_sync(cluster.set_taints, "node-4")
    meanings = await page.evaluate("fetch('ui/reasons.html').then((answer) => answer.text())")
    for reason, address in shown:
        assert address.endswith(f"/ui/reasons.html#{reason}")
        assert f'<dt id="{reason}">' in meanings


async def test_of_a_pod_that_was_evicted_and_is_gone_the_page_says_what_became_of_it(
    page: BrowserTab, cluster: SimulatorProcess, controller: ControllerProcess
) -> None:
    *_, pod = (await have_pods_evicted(cluster, controller, "node-5")).values()
    state = "document.querySelector('.state')?.textContent"
    is_gone = "document.getElementById('detail-body').textContent.startsWith('Gone from node-5')"
    query = "document.getElementById('query')"
    ask = f"({query}.value = {pod!r}, {query}.form.requestSubmit(), false)"
    await page.wait_for(f"{is_gone} || {ask}")  # it may be terminating still
    assert await page.evaluate(
        f"{state}.startsWith('moved: RemovePodsViolatingNodeTaints had it evicted from node-5; ')"
    )
    assert await page.evaluate("document.querySelectorAll('#detail-body h3').length") <= 1


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
async def test_no_serious_accessibility_fault_and_nothing_wider_than_the_screen(
    page: BrowserTab,
    cluster: SimulatorProcess,
    controller: ControllerProcess,
    axe_script: str,
    width: int,
    theme: str,
) -> None:
    recorded = evicted(controller) or await have_pods_evicted(cluster, controller, "node-3")
    await cases_shown(page, len(recorded))
    assert await page.evaluate(HOLD_FIRST_FRAME_OF_NEW_ROWS) >= len(recorded)
    await page.send_command(
        "Emulation.setDeviceMetricsOverride",
        width=width, height=800, deviceScaleFactor=1, mobile=width < 500,
    )  # fmt: skip
    if await page.evaluate("document.documentElement.dataset.theme") != theme:
        await page.evaluate("document.getElementById('theme').click()")
    await page.evaluate("document.getElementById('findings-details').open = true")
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.evaluate("document.querySelector('.node').click()")
    await page.wait_for("document.querySelectorAll('#detail-body table').length > 0")
    for _ in range(2):  # with the dialog, and without
        await page.evaluate(axe_script + "; 0")
        found = await page.evaluate("axe.run().then((result) => result.violations)")
        faults = [
            (each["id"], each["help"], [node["html"][:200] for node in each["nodes"][:3]])
            for each in found
            if each["impact"] in SERIOUS
        ]
        assert faults == []
        await page.evaluate("document.getElementById('detail').close()")


def test_only_browsers_get_the_page_and_it_may_run_nothing_but_its_own_script(
    controller: ControllerProcess,
) -> None:
    url = f"http://127.0.0.1:{controller._port}/"
    request = urllib.request.Request(url, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert answer.read().startswith(b"<!doctype html>")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    with urllib.request.urlopen(url) as answer:
        assert answer.read().startswith(b"reactive-desched\n")


async def test_the_browser_refuses_scripts_that_are_not_in_a_file_of_the_page(
    page: BrowserTab,
) -> None:
    foreign = "Object.assign(document.createElement('script'), {textContent: 'window.foreign = 1'})"
    await page.evaluate(f"document.body.append({foreign})")
    assert await page.evaluate("window.foreign") is None


@pytest.fixture
def guarded(cluster: SimulatorProcess, tmp_path: Path) -> Iterator[ControllerProcess]:
    """Run another controller on the same cluster, one that requires a token of its clients."""
    settings = SETTINGS.replace("{ui: true}", "{ui: true, requireToken: true}")
    with ControllerProcess(tmp_path, cluster.kubeconfig, TAINT_POLICY, settings) as running:
        yield running


def create(cluster: SimulatorProcess, path: str, body: object) -> Any:  # any JSON
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(cluster.url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


async def test_who_has_a_token_logs_in_and_who_has_none_sees_nothing(
    chromium: Path, tmp_path: Path, guarded: ControllerProcess, cluster: SimulatorProcess
) -> None:
    account = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = create(cluster, account, {"spec": {}})["status"]["token"]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"nonResourceURLs": ["/debug/*", "/events"], "verbs": ["get"]}]
    create(cluster, f"{rbac}/clusterroles", {"metadata": {"name": "viewer"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewer"}
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "default"}
    bound = {"metadata": {"name": "viewer"}, "roleRef": role, "subjects": [subject]}
    create(cluster, f"{rbac}/clusterrolebindings", bound)

    async with browser(chromium, tmp_path / "chromium.log") as tab:
        await tab.navigate(f"http://127.0.0.1:{guarded._port}/")
        await tab.wait_for("document.getElementById('login')?.open")
        assert await tab.evaluate("document.querySelectorAll('.node, #feed tr').length") == 0
        assert await tab.evaluate("document.activeElement.id") == "token"

        await log_in(tab, "wrong")
        await tab.wait_for("document.getElementById('login-error').textContent.includes('valid')")
        await log_in(tab, token)
        await tab.wait_for("document.getElementById('login')?.open === false")
        await tab.wait_for("document.querySelectorAll('.node').length === 6")
        await tab.wait_for(f"{STREAM}.startsWith('Connected')")
        assert await tab.evaluate("document.cookie") == "", "no script can read the token"
        assert (
            await tab.evaluate(f"document.documentElement.outerHTML.includes({token!r})") is False
        )

        await tab.evaluate("document.getElementById('log-out').click()")
        await tab.wait_for("document.getElementById('login')?.open")


async def log_in(tab: BrowserTab, token: str) -> None:
    await tab.evaluate(f"document.getElementById('token').value = {token!r}")
    await tab.evaluate("document.getElementById('token').focus()")
    await press(tab, "Enter")


HELD = """(() => {
  const real = window.fetch;
  const at = (now, seconds) => new Date(new Date(now).getTime() + 1000 * seconds).toISOString();
  window.fetch = async (url, ...more) => {
    const answer = await real(url, ...more);
    if (!String(url).includes("debug/status")) return answer;
    const found = await answer.json(), now = found.time;
    const one = { gate: "G", reason: "R", findings: 1, since: now, example: "a/b", message: "m" };
    found.pending.reasons = [
      { ...one, nextTurn: at(now, 100), isLeast: true },
      { ...one, nextTurn: at(now, 100) },
      { ...one, nextUntil: at(now, 3600), isLeast: true },
      { ...one, nextUntil: at(now, -9), isLeast: true },
      { ...one, nextUntil: at(now, 3600) },
      { ...one, nextUntil: at(now, -9) },
      one,
      { ...one, keeps: true },
    ];
    return new Response(JSON.stringify(found), { headers: { "Content-Type": "application/json" } });
  };
})(); 0"""
"""Lets the controller answer that findings of each kind wait."""

NEXTS = "[...document.querySelectorAll('#reasons tr')].map((row) => row.cells[3].textContent)"


async def test_what_is_held_has_its_next_look_after_a_time(page: BrowserTab) -> None:
    await page.evaluate(HELD)
    await page.wait_for("document.querySelectorAll('#reasons tr').length === 8")

    assert await page.evaluate(NEXTS) == [
        "turn after 1m 40s",
        "turn in 1m 40s",
        "after 1h",
        "when it goes on",
        "in 1h",
        "now",
        "at a change",
        "stays",
    ]


async def test_an_eviction_whose_change_names_no_object_has_what_was_found(
    chromium: Path, tmp_path: Path, golden: Golden
) -> None:
    script = (PACKAGE / "web" / "ui" / "app.js").read_text(encoding="utf-8")
    change_of = re.search(r"^function changeOf.*?^}", script, re.MULTILINE | re.DOTALL)
    assert change_of is not None
    found = {"message": "no gpu"}
    changes = ("Resynced", ""), ("MoveEnded", ""), ("NodeTaintsChanged", "node n1")
    evicted = [{"trigger": {"change": a, "object": b}, "why": found} for a, b in changes]

    async with browser(chromium, tmp_path / "chromium.log") as tab:
        shown = await tab.evaluate(f"{json.dumps(evicted)}.map({change_of[0]})")
    assert "\n".join(shown) == golden()
