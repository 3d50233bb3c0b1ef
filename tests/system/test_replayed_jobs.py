"""What a controller decides about migration jobs is recorded, and a replay decides it again."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import MIGRATION_CARRIED_OUT
from reactive_desched.cli import main
from reactive_desched.journal.events import read_events
from tests.support.limits import UNLIMITED
from tests.system.conftest import wait_until

JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
NODE = "node-1"
MODES = {
    "EvictDirectly": "defaultJobMode: EvictDirectly",
    "ReservationFirst": "defaultJobMode: ReservationFirst, placeholder: {}",
}


@pytest.fixture(params=MODES)
def settings(request: pytest.FixtureRequest) -> str:
    gates = "maxMigratingPerNode: 1, skipEvictionGates: [ExpectedReplicas]"
    migration = f"migration: {{{MODES[request.param]}, {gates}}}\n"
    job_settings = f"evictions: {{evictor: migration}}\n{migration}"
    return f"recording: {{enabled: true}}\n{job_settings}{UNLIMITED}"


@pytest.fixture
def journal(cluster: Any, controller: Callable[..., Any], settings: str, tmp_path: Path) -> Path:
    """The journal of a controller that moved the pods of a node by jobs."""
    program = controller("--log-format", "json")
    program.wait_for("what the controller sees is recorded")
    cluster.taint(NODE, "gpu")
    wait_until(lambda: _succeeded(cluster) >= 3 or None, program)
    assert program.stop() == 0
    return tmp_path / "journal"


def _succeeded(cluster: Any) -> int:
    jobs = cluster.call("GET", JOBS)["items"]
    return sum(job.get("status", {}).get("phase") == "Succeeded" for job in jobs)


def test_the_jobs_of_a_recording_are_decided_again(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [each for each in read_events(journal) if each.type == MIGRATION_CARRIED_OUT]
    capsys.readouterr()

    status = main(["replay", "--journal", str(journal)])

    printed = capsys.readouterr().out
    assert status == 0, printed
    assert {each.data.action for each in made} >= {"create", "end"}
    equal = re.match(r"(\d+) decisions, all equal\n", printed)
    assert equal is not None, printed
    assert int(equal[1]) > len(made)
    assert "not compared" not in printed
