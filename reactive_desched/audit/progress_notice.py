"""Print a progress notice while an index is built: a silent program looks like one that hangs."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from reactive_desched.journal.follower import newest_records
from reactive_desched.journal.segments import list_segments
from reactive_desched.primitives.counts import format_count

NOTICE_AFTER_S: Final = 1.0
"""Print nothing when the index is built sooner than this."""


class ProgressNotice:
    """Says one line, once, when reading takes longer; `clock` counts seconds."""

    def __init__(self, notify: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._notify = notify
        self._clock = clock
        self._due_at = clock() + NOTICE_AFTER_S
        self._is_shown = False

    def update(self, directory: Path, seq: int, *, is_stored: bool) -> None:
        """Say how many records behind `seq` are read, if it is time to and was not said yet."""
        if self._is_shown or self._clock() < self._due_at:
            return
        self._is_shown = True
        count = format_count(_records_behind(directory, seq), "record")
        where = "into the index, once" if is_stored else "into memory: no index can be kept"
        self._notify(f"reading {count} {where}")


def _records_behind(directory: Path, seq: int) -> int:
    last = newest_records(directory, 0, lambda _: False).last_seq
    begin = list_segments(directory)[0].first_seq - 1
    return last - seq if begin < seq <= last else last - begin
