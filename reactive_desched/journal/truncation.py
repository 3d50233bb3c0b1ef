"""How far a journal once reached, as those who followed it know.

What was cut off at the end leaves no trace in the chain. Whoever went on behind it would use the
same sequences, and the same ids, for other events.
"""

from pathlib import Path

from reactive_desched.journal.cursors import Positions
from reactive_desched.journal.paths import POSITIONS


def reached(directory: Path) -> int:
    """Return the last record that any follower had safely; 0 when nobody says. Blocks."""
    positions = Positions(directory / POSITIONS).all()
    return max((position.seq for position in positions.values()), default=0)


def step_back(directory: Path, last: int, time: str) -> None:
    """Let those who had more than there is go on behind the last record. Blocks; raises OSError.

    They have all that is left, and must not miss what comes under sequences they saw before.
    """
    positions = Positions(directory / POSITIONS)
    for name, position in positions.all().items():
        if position.seq > last:
            positions.keep(name, last, time)
