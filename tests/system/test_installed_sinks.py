"""Sinks of other packages follow the journal; one that raises holds nothing else."""

import json
import re
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.limits import UNLIMITED
from tests.support.packages import write_package

GROUP = "reactive_desched.sinks"
NODE = "node-1"
EXAMPLE = Path(__file__).parents[2] / "examples" / "sink" / "spool_sink.py"
FAILING = """\
from reactive_desched.api import SinkPlugin, SinkSection


class Failing(SinkPlugin[SinkSection]):
    settings = SinkSection

    async def deliver(self, records):
        raise RuntimeError("password=hunter2")
"""


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install both packages for the programs of this test, and name their sinks."""
    site = tmp_path / "site"
    write_package(site, GROUP, {"spool": "SpoolSink"}, EXAMPLE.read_text(), "spool_sink")
    write_package(site, GROUP, {"failing": "Failing"}, FAILING, "failing_sink")
    monkeypatch.setenv("PYTHONPATH", str(site))
    return UNLIMITED + (
        f"sinks:\n  failing: {{}}\n  spool: {{directory: {spool}}}\n"
        f"  additionalSpool: [{{name: loads, directory: {spool}/loads, types: [policy.loaded]}}]\n"
    )


def spooled(folder: Path) -> set[str]:
    return {json.loads(file.read_bytes())["id"] for file in folder.glob("*.json")}


def recorded(journal: Path) -> set[str]:
    lines = [line for file in journal.glob("journal-*") for line in file.read_bytes().splitlines()]
    return {json.loads(line)["id"] for line in lines}


def answer(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as reply:
        return str(reply.read().decode())


@pytest.mark.executed
def test_a_sink_of_another_package_has_every_record_while_another_one_fails(
    cluster: Any, controller: Callable[..., Any], spool: Path, tmp_path: Path
) -> None:
    program = controller()
    program.wait_for("the sink is unavailable")
    movable = {uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"}
    cluster.taint(NODE, "gpu")
    program.wait_for(rf"(?s)(evicted .*){{{len(movable)}}}")
    program.wait_until(lambda: spooled(spool) == recorded(tmp_path / "journal"))
    metrics = answer(f"{program.url}/metrics")
    assert 'sink_up{sink="failing"} 0' in metrics
    assert 'sink_up{sink="spool"} 1' in metrics
    assert 'sink="spool-loads"' in metrics
    origin = re.escape("the sink failing (failing_sink:Failing) of failing_sink 1.0")
    assert re.search(rf"{origin}: deliver: RuntimeError at failing_sink.py:8", program.output)
    assert "hunter2" not in program.output
    assert program.stop() == 0

    (spool / "loads").mkdir()
    before = spooled(spool)
    shutil.rmtree(spool)
    (spool / "loads").mkdir(parents=True)
    again = controller()
    again.wait_until(lambda: spooled(spool) >= recorded(tmp_path / "journal") - before)
    again.wait_until(lambda: len(spooled(spool / "loads")) == 2)
    assert again.stop() == 0
