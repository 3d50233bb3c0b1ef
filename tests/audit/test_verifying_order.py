"""Whoever verifies a journal that goes on asks in an order in which nothing seems missing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reactive_desched.audit import verification
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.paths import CURSORS_DIR
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.signing.signed_note import parse_key
from tests.support.journals import some_events, write_journal


@pytest.mark.parametrize("asked", ["highest_acked", "list_segments"])
def test_a_file_begun_and_read_by_a_follower_meanwhile_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    records = write_journal(tmp_path, some_events(30), per_segment=10)
    last = list_segments(tmp_path)[-1]
    to_come = last.path.rename(tmp_path / "to-come")
    positions = Cursors(tmp_path / CURSORS_DIR)
    positions.save("kafka", last.first_seq - 1, "2026-03-29T00:00:00Z")
    look: Callable[[Path], object] = getattr(verification, asked)

    def look_late(directory: Path) -> object:
        """Look when the writer has begun a file, and a follower has read it."""
        if to_come.exists():
            to_come.rename(last.path)
            positions.save("kafka", records[-1].seq, "2026-03-29T00:00:01Z")
        return look(directory)

    monkeypatch.setattr(verification, asked, look_late)
    key = parse_key((tmp_path / "checkpoint.pub").read_text())
    report = verification.verify(tmp_path, [key], "", None)

    assert report.bad is None
