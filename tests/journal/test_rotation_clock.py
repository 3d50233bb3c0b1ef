"""Files begin anew by age, whatever the clock does meanwhile."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reactive_desched.journal.disk import Disk
from reactive_desched.journal.log import Rotation
from reactive_desched.journal.opened import JournalConfig, open_directory
from reactive_desched.journal.records import encode
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.signing.checkpointer import CheckpointContext
from tests.support.journals import some_events

START = datetime(2026, 3, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("steps_s", "files"),
    [
        pytest.param([60] * 150, 3, id="on time"),
        pytest.param([-60] * 150, 3, id="backwards, minute by minute"),
        pytest.param([-1] * 300, 1, id="backwards, too slowly to matter"),
        pytest.param([40 * 86_400, -40 * 86_400, *[60] * 100], 4, id="far ahead and back"),
    ],
)
def test_a_file_spans_an_hour_at_most_by_whatever_clock(
    tmp_path: Path, steps_s: list[int], files: int
) -> None:
    now = [START]
    log = open_directory(
        tmp_path, Disk(), JournalConfig(Rotation(1 << 24, 3600.0)), lambda: now[0]
    ).writer
    body = encode(some_events(1)[0])
    for step_s in steps_s:
        now[0] += timedelta(seconds=step_s)
        log.commit([body], lambda _: CheckpointContext())

    assert len(list_segments(tmp_path)) == files
