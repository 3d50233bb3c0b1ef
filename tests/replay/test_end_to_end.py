"""What an end-to-end test says of the recordings that its controllers leave."""

import shutil
from pathlib import Path

import pytest

from reactive_desched.api.event import DECISION_DEFER, DECISION_EVICT
from reactive_desched.replay.replaying import ReplayReport
from tests.replay.test_earlier_versions import RECORDED
from tests.support import replays
from tests.support.replays import NOT_EQUAL, replay_objections


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The journal of a controller that ran in an end-to-end test."""
    (tmp_path / "controller.log").touch()
    return shutil.copytree(RECORDED / "0.1.0", tmp_path / "journal")


def objections(folder: Path, test: str = "test_leader.py::test_one") -> list[str]:
    return list(replay_objections(folder, test, folder / "kept"))


def test_what_decides_the_same_again_is_no_objection(journal: Path) -> None:
    assert objections(journal.parent) == []


def test_what_decides_otherwise_is_an_objection_with_both_stories(journal: Path) -> None:
    (file,) = journal.glob("journal-*.jsonl")
    evicts, defers = (f'"type":"{each}"' for each in (DECISION_EVICT, DECISION_DEFER))
    file.write_text(file.read_text().replace(evicts, defers, 1))

    (text,) = objections(journal.parent)

    assert "the replay alone has" in text
    (kept,) = (journal.parent / "kept").iterdir()
    assert str(kept) in text
    assert {each.name for each in kept.iterdir()} == {each.name for each in journal.iterdir()}


def test_so_many_are_kept_and_the_first_goes_first(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "MAX_KEPT", 2)
    monkeypatch.setattr(
        replays, "replay_recording", lambda *_: ReplayReport((), not_compared=("x",))
    )
    for test in ("test_one", "test_two", "test_three"):
        objections(journal.parent, test)

    names = sorted(each.name.rpartition("-")[0] for each in (journal.parent / "kept").iterdir())
    assert names == ["test-three", "test-two"]


@pytest.mark.parametrize("missing", ["recording", "recording/*"])
def test_a_controller_that_recorded_nothing_is_an_objection(journal: Path, missing: str) -> None:
    for each in journal.glob(missing):
        shutil.rmtree(each) if each.is_dir() else each.unlink()

    (text,) = objections(journal.parent)

    assert "recorded" in text or "no recording" in text


def test_a_damaged_recording_is_an_objection(journal: Path) -> None:
    (segment,) = (journal / "recording").glob("*.rdrec")
    data = bytearray(segment.read_bytes())
    data[-9] ^= 1
    segment.write_bytes(data)

    (text,) = objections(journal.parent)

    assert "damaged: " in text


@pytest.mark.parametrize("was_stopped", [False, True], ids=["was killed", "was stopped"])
def test_nothing_to_compare_is_an_objection_where_the_process_ended_in_order(
    journal: Path,
    monkeypatch: pytest.MonkeyPatch,
    was_stopped: bool,  # noqa: FBT001 -- what is compared
) -> None:
    monkeypatch.setattr(replays, "replay_recording", lambda *_: ReplayReport(()))
    if was_stopped:
        (journal.parent / "controller.log").write_text('{"event":"the controller is stopping"}')

    assert bool(objections(journal.parent)) is was_stopped


@pytest.mark.parametrize("was_stopped", [False, True], ids=["was killed", "was stopped"])
def test_so_is_a_segment_in_which_nothing_is_recorded(
    journal: Path,
    was_stopped: bool,  # noqa: FBT001 -- what is compared
) -> None:
    (segment,) = (journal / "recording").glob("*.rdrec")
    segment.write_bytes(b"")
    if was_stopped:
        (journal.parent / "controller.log").write_text('{"event":"the controller is stopping"}')

    assert bool(objections(journal.parent)) is was_stopped


def test_a_test_with_a_reason_may_differ(journal: Path) -> None:
    shutil.rmtree(journal / "recording")

    assert objections(journal.parent, next(iter(NOT_EQUAL))) == []


def test_a_test_without_a_controller_needs_no_recording(tmp_path: Path) -> None:
    assert objections(tmp_path) == []
