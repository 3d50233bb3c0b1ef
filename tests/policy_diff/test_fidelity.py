"""What is said of the policy that was in force is what it did."""

from pathlib import Path

import pytest

from tests.policy_diff.fidelity import draw, live_story, what_is_said, what_was_done
from tests.safety.story import read_policy


@pytest.mark.parametrize("seed", [12, 119])
def test_a_request_is_sent_before_what_comes_until_its_answer(seed: int, tmp_path: Path) -> None:
    policy = read_policy(draw(seed)[0])
    live_story(seed, policy, tmp_path)

    done = what_was_done(tmp_path)

    assert done
    assert what_is_said(tmp_path, policy) == done
