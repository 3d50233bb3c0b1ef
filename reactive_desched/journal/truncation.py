"""Finds how far a journal once reached, from the cursors of its sinks and index.

What was cut off at the end leaves no trace in the chain. A writer that continued would use the
same sequences, and the same ids, for other events.
"""

from pathlib import Path

from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.paths import CURSORS_DIR


def highest_acked(directory: Path) -> int:
    """Return the last record that any follower acknowledged; 0 when none did. Blocks."""
    cursors = Cursors(directory / CURSORS_DIR).all()
    return max((position.seq for position in cursors.values()), default=0)


def rewind(directory: Path, last_seq: int, time: str) -> None:
    """Move cursors beyond the last record back to it. Blocks; raises OSError.

    They have all that is left, and must not miss what comes under sequences they saw before.
    """
    cursors = Cursors(directory / CURSORS_DIR)
    for name, cursor in cursors.all().items():
        if cursor.seq > last_seq:
            cursors.save(name, last_seq, time)
