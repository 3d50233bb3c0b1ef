"""What a controller decides about migration jobs is recorded, and a replay decides it again."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.api.event import MIGRATION_CARRIED_OUT
from reactive_desched.cli import main
from reactive_desched.journal.events import read_events
from reactive_desched.migration import state_machine
from reactive_desched.migration.arbitration import Arbitrator
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import (
    Item,
    JobLookedAt,
    JobOrderEnded,
    JobStepEnded,
    ProcessBegan,
)
from reactive_desched.recording.reader import read_items
from reactive_desched.replay.replaying import ReplayOptions, ReplayReport, replay_recording
from tests.support.limits import UNLIMITED
from tests.system.conftest import wait_until

JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
NODE = "node-1"
MODES = {
    "EvictDirectly": "defaultJobMode: EvictDirectly",
    "ReservationFirst": "defaultJobMode: ReservationFirst, placeholder: {}",
}
Alter = Callable[[Item], Item | None]


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


def replayed(journal: Path) -> ReplayReport:
    options = ReplayOptions(recording=journal / RECORDING_FOLDER, journal=journal)
    return replay_recording(options, plugin_registry())


def test_the_jobs_of_a_recording_are_decided_again_and_by_no_other_program_or_answers(
    journal: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [each for each in read_events(journal) if each.type == MIGRATION_CARRIED_OUT]
    capsys.readouterr()

    assert main(["replay", "--journal", str(journal)]) == 0, capsys.readouterr().out
    report = replayed(journal)
    assert {each.data.action for each in made} >= {"create", "end"}
    assert report.equal > len(made)
    assert (report.differences, report.not_compared) == ((), ())

    for name, alter in ALTERED.items():
        with monkeypatch.context() as patched:
            _alter_items(patched, alter)
            assert replayed(journal).differences, name
    for name, change in OTHER_PROGRAMS.items():
        with monkeypatch.context() as patched:
            change(patched)
            assert replayed(journal).differences, name

    with monkeypatch.context() as patched:
        _alter_items(patched, _as_before)
        older = replayed(journal)
    assert older.lives == ()
    (text,) = older.not_compared
    assert "migration jobs" in text
    assert f"{report.equal} decisions" in text


def _alter_items(patched: pytest.MonkeyPatch, alter: Alter) -> None:
    def altered(*arguments: Any) -> Iterator[Item]:
        return filter(None, map(alter, read_items(*arguments)))

    patched.setattr("reactive_desched.replay.replaying.read_items", altered)


def _without(kind: type[Item]) -> Alter:
    return lambda item: None if isinstance(item, kind) else item


def _another_step(item: Item) -> Item:
    is_step = isinstance(item, JobLookedAt) and "Succeeded" in item.step
    return replace(item, step="DeleteJob") if is_step else item


def _refused_order(item: Item) -> Item:
    return replace(item, error="refused") if isinstance(item, JobOrderEnded) else item


def _refused_steps(item: Item) -> Item:
    return replace(item, error="refused") if isinstance(item, JobStepEnded) else item


def _as_before(item: Item) -> Item:
    """Return an item as an earlier version wrote it, without what it did not have."""
    return replace(item, has_job_steps=False) if isinstance(item, ProcessBegan) else item


ALTERED: dict[str, Alter] = {
    "no looks at jobs": _without(JobLookedAt),
    "no ends of orders": _without(JobOrderEnded),
    "no ends of steps": _without(JobStepEnded),
    "another step": _another_step,
    "refused orders": _refused_order,
    "refused steps": _refused_steps,
}
OTHER_PROGRAMS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "arbitration without limits": lambda patched: patched.setattr(
        Arbitrator, "rejects", lambda *_: None
    ),
    "jobs that never end": lambda patched: patched.setattr(
        state_machine, "next_transition", lambda _: None
    ),
}
