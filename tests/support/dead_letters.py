"""What a file of dead letters holds, as a person would read it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.sinks.dead_letters import DeadLetter


def read_dead_letters(path: Path) -> Iterator[DeadLetter]:
    """Yield the letters of a file; lines that a crash tore are left out."""
    with path.open("rb") as file:
        for line in file:
            try:
                yield msgspec.json.decode(line, type=DeadLetter)
            except DECODE_ERRORS:
                continue
