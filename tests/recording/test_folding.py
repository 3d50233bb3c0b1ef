"""The cluster at a moment is the same whether all changes of a pod are read, or the last alone."""

from pathlib import Path
from random import Random

import pytest

from reactive_desched.errors import NotRecorded
from reactive_desched.recording import recorder
from reactive_desched.recording.coverage import summarize_recording
from reactive_desched.recording.reader import items_between, read_items, state_at
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.recording.rows import RowReader
from reactive_desched.recording.segments import recording_paths
from tests.safety.story import STEADY, play_story
from tests.support.recorded_cluster import fail_on_damage, holding

FIELDS = (
    *("samples", "denied", "pauses", "configuration", "brakes", "term", "missing"),
    *("changed_s", "at"),
)


def facts(folder: Path, at_s: float) -> object:
    """Return the state at a moment, in the order of its objects, and the items after it."""
    try:
        state, _ = state_at(folder, at_s, fail_on_damage)
    except NotRecorded as error:
        return str(error)
    later = list(items_between(folder, at_s, None, fail_on_damage))
    return orders(state), {name: getattr(state, name) for name in FIELDS}, later


def orders(state: RecordedState) -> dict[str, list[object]]:
    return {name: [*each.items()] for name, each in holding(state).items()}


@pytest.mark.parametrize("seed", range(4))
def test_the_cluster_at_a_moment_is_the_one_after_every_change_before_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(seed)
    monkeypatch.setattr(recorder, "FRAME_BYTES", 400)  # so a picture has several frames
    play_story(rng, tmp_path, steps=14, records=True, actions=STEADY)
    folder = tmp_path / "recording"
    items = list(read_items(recording_paths(folder), fail_on_damage))
    found = summarize_recording(folder)
    times = [item.at.wall_s for item in rng.sample(items, 20)]
    times += [rng.uniform(found.first_s, found.last_s) for _ in range(10)]
    folded = [facts(folder, at_s) for at_s in times]
    count, fold = 0, RowReader.fold

    def count_folds(self: RowReader, *given: object) -> object:
        nonlocal count
        result = fold(self, *given)  # type: ignore[arg-type]  # as it was called
        count += result is not None
        return result

    with monkeypatch.context() as patch:
        patch.setattr(RowReader, "fold", count_folds)
        assert [facts(folder, at_s) for at_s in times] == folded
    assert count > 5
    with monkeypatch.context() as patch:
        patch.setattr(RowReader, "fold", lambda *_: None)
        assert [facts(folder, at_s) for at_s in times] == folded
