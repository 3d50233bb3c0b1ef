"""What an answer about an earlier moment says of what the recording does not have."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from reactive_desched.plan.recorded_moment import read_moment
from reactive_desched.recording.items import (
    Instant,
    Item,
    ObjectChanged,
    ObjectFound,
    PictureBegun,
    PictureEnded,
    Verb,
)
from reactive_desched.recording.recording_file import write_file
from reactive_desched.state.resources import NODES
from reactive_desched.testing.builders import node

BEGAN_S = datetime(2026, 5, 1, 3, tzinfo=UTC).timestamp()


def at(after_s: float) -> Instant:
    return Instant(BEGAN_S + after_s, after_s)


def life(began_s: float) -> list[Item]:
    """Return a picture of one node, and another node that comes ten seconds later."""
    return [
        PictureBegun(at(began_s)),
        ObjectFound(at(began_s), NODES, node("n1")),
        PictureEnded(at(began_s + 1), {NODES: 1}),
        ObjectChanged(at(began_s + 10), NODES, Verb.ADDED, node("n2")),
    ]


@pytest.mark.parametrize(
    ("after_s", "recorded_s"),
    [
        pytest.param(5, 5, id="before a change"),
        pytest.param(10, 10, id="at the last change before a crash"),
        pytest.param(30, 10, id="after it"),
        pytest.param(125, 110, id="not written yet"),
    ],
)
def test_an_answer_says_from_when_on_nothing_is_recorded(
    after_s: float, recorded_s: float, tmp_path: Path
) -> None:
    write_file([*life(0), *life(100)], tmp_path / "two-lives")

    moment = read_moment(tmp_path / "two-lives", BEGAN_S + after_s)

    assert moment.recorded_s - BEGAN_S == recorded_s
    said = [note for note in moment.notes() if "is not recorded" in note]
    assert [f"03:0{recorded_s // 60}:{recorded_s % 60:02}Z" in note for note in said] == (
        [] if recorded_s == after_s else [True]
    )
