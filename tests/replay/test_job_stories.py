"""Migration jobs of stories, whose requests are refused and lost, are decided the same again."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.api.event import MIGRATION_CARRIED_OUT
from reactive_desched.cli import main
from reactive_desched.journal.events import read_events
from reactive_desched.journal.history import History
from reactive_desched.migration import state_machine
from reactive_desched.migration.admission import PendingJobs
from reactive_desched.migration.arbitration import Arbitrator
from reactive_desched.migration.placeholders import PlaceAttempts
from reactive_desched.plan.recorded_moment import read_configuration
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import (
    ConfigurationInForce,
    Item,
    JobLookedAt,
    JobOrderEnded,
    JobStepEnded,
    ProcessBegan,
)
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.segments import ignore_damage, recording_paths
from reactive_desched.replay.controller_run import LifeRun
from reactive_desched.replay.lives import lives
from reactive_desched.replay.recorded_decisions import RecordedDecisions
from tests.safety import story
from tests.safety.__main__ import replayed
from tests.safety.referee import Referee
from tests.safety.story import STEADY, UNBROKEN, play_story

MODES = ("EvictDirectly", "ReservationFirst, placeholder: {}")
Alter = Callable[[Item], Item | None]


@pytest.fixture(autouse=True)
def _stories_have_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have findings make jobs; the referee's rules are those of evictions without jobs."""
    written = story.policy_text

    def with_jobs(rng: Random) -> str:
        text = written(rng).replace("evictions: {", "evictions: {evictor: migration, ")
        mode, ttl, limit = rng.choice(MODES), rng.choice(["30s", "5m"]), rng.choice([1, 3])
        more = f"defaultJobTTL: {ttl}, maxMigratingPerNode: {limit}"
        gates = "skipEvictionGates: [ExpectedReplicas]"
        return f"{text}migration: {{defaultJobMode: {mode}, {gates}, {more}}}\n"

    monkeypatch.setattr(story, "policy_text", with_jobs)
    for name in ("check", "check_end", "raise_violations"):
        monkeypatch.setattr(Referee, name, lambda _: None)


def play(seed: int, folder: Path, steps: int, actions: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Play a story, and return what was done for jobs, with its result."""
    play_story(Random(seed), folder, steps=steps, records=True, actions=actions)
    made = (each.data for each in read_events(folder) if each.type == MIGRATION_CARRIED_OUT)
    return {(each.action, each.object.kind, each.result) for each in made}


@pytest.mark.parametrize("seed", [3, 4, 9])
def test_the_jobs_of_a_story_are_decided_the_same_again(seed: int, tmp_path: Path) -> None:
    done = play(seed, tmp_path, 25, UNBROKEN)
    report = replayed(tmp_path)

    assert {each[2] for each in done} >= {"done", "failed", "Succeeded"}
    assert report.equal > 20
    assert (report.differences, report.not_compared, report.damages) == ((), (), ())


def test_jobs_that_restarts_and_crashes_interrupt_are_decided_the_same_again(
    tmp_path: Path,
) -> None:
    equal, different, lives, done = 0, 0, 0, set[tuple[str, ...]]()
    for seed in range(200, 203):
        folder = tmp_path / str(seed)
        folder.mkdir()
        done |= play(seed, folder, 30, STEADY)
        report = replayed(folder)
        equal += report.equal
        different += len(report.differences)
        lives += len(report.lives)

    assert ("create", "Pod", "done") in done
    assert lives > 3
    assert equal > 100
    assert different == 0


def _without(kind: type[Item]) -> Alter:
    return lambda item: None if isinstance(item, kind) else item


def _refused(kind: type[Item]) -> Alter:
    return lambda item: replace(item, error="no") if isinstance(item, kind) else item


def _another_step(item: Item) -> Item:
    is_end = isinstance(item, JobLookedAt) and "Succeeded" in item.step
    return replace(item, step="DeleteJob") if is_end else item


def _as_before(item: Item) -> Item:
    """Return an item as an earlier version wrote it."""
    return replace(item, has_job_steps=False) if isinstance(item, ProcessBegan) else item


ALTERED: dict[str, Alter] = {
    "no look at a job": _without(JobLookedAt),
    "no end of an order": _without(JobOrderEnded),
    "no end of a step": _without(JobStepEnded),
    "every order refused": _refused(JobOrderEnded),
    "every step refused": _refused(JobStepEnded),
    "another step": _another_step,
}


def _alter_items(patched: pytest.MonkeyPatch, alter: Alter) -> None:
    def altered(*arguments: Any) -> Iterator[Item]:
        return filter(None, map(alter, read_items(*arguments)))

    patched.setattr("reactive_desched.replay.replaying.read_items", altered)


def test_other_answers_and_other_steps_are_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(2, tmp_path, 25, UNBROKEN)
    assert replayed(tmp_path).differences == ()

    for name, alter in ALTERED.items():
        with monkeypatch.context() as patched:
            _alter_items(patched, alter)
            assert replayed(tmp_path).differences, name


@pytest.mark.parametrize(
    ("seed", "rules"),
    [
        (
            2,
            {
                "no limits on jobs": (Arbitrator, "rejects", lambda *_: None),
                "jobs that never go on": (state_machine, "next_transition", lambda _: None),
                "a failed place is tried at once": (PlaceAttempts, "get", lambda *_: None),
            },
        ),
        (5, {"a failed job may follow at once": (PendingJobs, "seconds_to_next", lambda *_: 0.0)}),
    ],
)
def test_a_program_with_other_rules_of_jobs_decides_otherwise(
    seed: int,
    rules: dict[str, tuple[object, str, Callable[..., Any]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play(seed, tmp_path, 25, UNBROKEN)

    for name, rule in rules.items():
        with monkeypatch.context() as patched:
            patched.setattr(*rule)
            assert replayed(tmp_path).differences, name


def decided(items: Iterable[Item]) -> list[tuple[float, str, str, str]]:
    """Return what a replay of a recording alone decides, without the names of pods."""
    life = next(lives(items))
    read = partial(read_configuration, registry=plugin_registry())
    (in_force,) = (each for each in life.standing if isinstance(each, ConfigurationInForce))
    recorded = RecordedDecisions((), is_whole=False)
    run = LifeRun(life, read(in_force), lambda _: History(), recorded, read)
    run.run()
    return [(each.monotonic_s, each.verdict, each.gate, each.reason) for each in run.decisions]


@pytest.mark.parametrize("seed", [2, 4])
def test_under_other_names_the_same_is_decided_about_jobs(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_jobs = story.policy_text

    def without_jitter(rng: Random) -> str:  # it goes by the uid of a pod
        return with_jobs(rng).replace("evictions: {", "evictions: {retry: {jitter: 0}, ")

    monkeypatch.setattr(story, "policy_text", without_jitter)
    play(seed, tmp_path, 15, UNBROKEN)
    there = decided(read_items(recording_paths(tmp_path / RECORDING_FOLDER), ignore_damage))
    renamed = tmp_path / "renamed.rdrec"
    named = "--journal", str(tmp_path), "--since", "365d", "--anonymize", str(renamed)
    assert main(["recording", "export", *named]) == 0

    assert decided(read_items([renamed], ignore_damage)) == there
    verdicts = {verdict for _, verdict, _, _ in there}
    assert {"create PodMigrationJob", "end PodMigrationJob"} <= verdicts


def test_a_recording_of_before_leaves_jobs_out_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(2, tmp_path, 10, UNBROKEN)
    _alter_items(monkeypatch, _as_before)
    report = replayed(tmp_path)

    assert report.lives == ()
    (text,) = report.not_compared
    assert "migration jobs" in text
    assert "decisions of the journal" in text
