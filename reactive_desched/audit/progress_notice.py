"""A word to whoever waits while an index is made: silence looks like a program that hangs."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from reactive_desched.audit.event_lines import counted
from reactive_desched.journal.follower import newest
from reactive_desched.journal.segments import segments

AFTER_S: Final = 1.0
"""Who waits no longer hears nothing."""


class Patience:
    """Says one line, once, when reading takes longer; `clock` counts seconds."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._say = say
        self._clock = clock
        self._due = clock() + AFTER_S
        self._is_said = False

    def look(self, directory: Path, seq: int, *, is_kept: bool) -> None:
        """Say how many records behind `seq` are read, if it is time to and was not said yet."""
        if self._is_said or self._clock() < self._due:
            return
        self._is_said = True
        count = counted(_behind(directory, seq), "record")
        where = "into the index, once" if is_kept else "into memory: no index can be kept"
        self._say(f"reading {count} {where}")


def _behind(directory: Path, seq: int) -> int:
    last = newest(directory, 0, lambda _: False).last
    begin = segments(directory)[0].first_seq - 1
    return last - seq if begin < seq <= last else last - begin
