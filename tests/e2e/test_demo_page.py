"""`demo --serve` in a real browser; `make picture` writes what it shows into the documentation."""

import os
import re
import sys
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync

from tests.support.browser import browser
from tests.support.component import ChildProcess
from tests.support.control_plane import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.real]

WIDTH, HEIGHT = 1200, 1250
EVICTED = (
    "[...document.querySelectorAll('#feed tr')].filter((row) => /evicted/.test(row.innerText))"
)


async def test_the_page_of_the_demo_shows_the_day(chromium: Path, tmp_path: Path) -> None:
    argv = (sys.executable, "-m", "reactive_desched", "demo", "--serve")
    demo = ChildProcess("demo", argv, tmp_path / "demo.log")
    demo.start()
    try:
        shown = r"The live page is at (http://\S+);"
        found = await run_sync(
            lambda: wait_until(
                lambda: re.search(shown, demo.tail(20)), within_s=60, what="the page"
            )
        )
        async with browser(chromium, tmp_path / "chromium.log") as tab:
            size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
            await tab.send_command("Emulation.setDeviceMetricsOverride", **size)
            await tab.navigate(found.group(1))
            await tab.wait_for("document.querySelectorAll('.node').length >= 6")
            await tab.wait_for(f"{EVICTED}.length >= 6", within_s=60)
            picture = await tab.screenshot()
            assert tab.console_errors == []
    finally:
        demo.kill()

    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000, "an empty page is smaller"
    if target := os.environ.get("PICTURE"):
        await anyio.Path(target).write_bytes(picture)
