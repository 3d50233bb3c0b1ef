"""The page of `audit report` in a real browser: readable for all, at any width, in any light."""

from pathlib import Path
from random import Random

import pytest

from reactive_desched.cli import main
from tests.support.browser import browser
from tests.support.eviction_story import HOSTILE, Story, moved, who

pytestmark = [pytest.mark.anyio, pytest.mark.real]

SERIOUS = {"serious", "critical"}
RESULTS = ("evicted", "evicted", "evicted", "pdb_refused", "open", "dry_run")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report on two days, one of whose workloads has a name that tries to be a script."""
    folder = tmp_path_factory.mktemp("report")
    rng, story = Random(1), Story()
    for number in range(60):
        name = HOSTILE if number % 7 == 0 else f"workload-with-a-rather-long-name-{number % 9}"
        story.eviction(
            rng.random() * 170_000,
            rng.choice(RESULTS),
            pod=who(number % 9, name=name),
            waits=[("EvictionRateLimit", 60.0)] if number % 3 else [],
            follow_up=moved(rng.randrange(1000, 90_000), holds=number % 5 == 0),
        )
    story.write(folder / "journal")
    told = (
        "--since=2026-05-01",
        "--until=2026-05-03",
        "-o=html",
        f"--out={folder / 'report.html'}",
    )
    assert main(["audit", "report", "--journal", str(folder / "journal"), *told]) == 0
    return folder / "report.html"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
async def test_no_serious_accessibility_fault_nothing_refused_and_nothing_wider_than_the_screen(
    page: Path, chromium: Path, axe_script: str, tmp_path: Path, width: int, theme: str
) -> None:
    async with browser(chromium, tmp_path / "chromium.log") as tab:
        scheme = [{"name": "prefers-color-scheme", "value": theme}]
        await tab.send_command("Emulation.setEmulatedMedia", features=scheme)
        await tab.send_command(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=800, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        await tab.navigate(page.as_uri())
        await tab.wait_for("document.querySelector('footer') !== null")
        await tab.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")

        assert await tab.evaluate("document.documentElement.scrollWidth") <= width
        assert await tab.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(16, 22, 28)" if theme == "dark" else "rgb(255, 255, 255)"
        )
        assert await tab.evaluate("document.scripts.length") == 0
        widths = "[...document.querySelectorAll('svg')].map((svg) => svg.clientWidth)"
        assert min(await tab.evaluate(widths)) > 0
        assert tab.console_errors == []
        await tab.evaluate(axe_script + "; 0")
        found = await tab.evaluate("axe.run().then((result) => result.violations)")
        faults = [
            (each["id"], each["help"], [node["html"][:200] for node in each["nodes"][:3]])
            for each in found
            if each["impact"] in SERIOUS
        ]
        assert faults == []
