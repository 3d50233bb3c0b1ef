"""What is said of the policy that was in force is what it did."""

from pathlib import Path

import pytest

from tests.policy_diff.fidelity import draw, live_story, what_is_said, what_was_done
from tests.safety import story
from tests.safety.story import read_policy


@pytest.fixture(autouse=True)
def no_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw stories in which no pods move as sets: see the known flaws."""
    monkeypatch.setattr(story, "SETS_AT", -1)


@pytest.mark.parametrize("seed", [12, 119])
def test_a_request_is_sent_before_what_comes_until_its_answer(seed: int, tmp_path: Path) -> None:
    policy = read_policy(draw(seed)[0])
    live_story(seed, policy, tmp_path)

    done = what_was_done(tmp_path)

    assert done
    assert what_is_said(tmp_path, policy) == done


def test_a_pod_that_stays_has_not_the_condition_of_the_recorded_eviction(tmp_path: Path) -> None:
    """The API server sets it before the pod ends: a change, by which a pod would lose its turn."""
    policies = [read_policy(text) for text in draw(320)]
    folders = [tmp_path / name for name in "ab"]
    for policy, folder in zip(policies, folders, strict=True):
        folder.mkdir()
        live_story(320, policy, folder)

    said = what_is_said(folders[0], policies[1])

    assert said == what_was_done(folders[1])
    assert said.total() > 1


def test_a_pod_of_a_stateful_set_that_leaves_seconds_earlier_has_the_recorded_replacement(
    tmp_path: Path,
) -> None:
    """That comes when the pod is gone: where the scheduler would put it before says nothing."""
    policy = read_policy(draw(25)[0])
    live_story(25, policy, tmp_path)

    assert what_is_said(tmp_path, policy) == what_was_done(tmp_path)
