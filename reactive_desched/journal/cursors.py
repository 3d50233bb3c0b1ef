"""Cursor files: the last sequence that each sink acknowledged, kept across restarts."""

import re
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.journal import atomic_files
from reactive_desched.journal.paths import CURSORS_DIR
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.primitives.shortage import lacking

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_SUFFIX: Final = ".json"


class Cursor(Struct, frozen=True, gc=False):
    """The last sequence that is safely with a follower, and when that was kept."""

    seq: int
    time: str


_decoder: Final = msgspec.json.Decoder(Cursor)


class Cursors:
    """Durable positions by the follower's name, each in a small file of its own.

    The folder lies in the journal's, and is made with the first position. One writer per name.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._write_lock = Lock()

    def read(self, name: str) -> Cursor | None:
        """Return the position; None when none was kept, or its file cannot be read. Blocks.

        Raises OSError where this process lacks what it takes to read it.
        """
        try:
            found = _decoder.decode(self._path(name).read_bytes())
        except (OSError, *DECODE_ERRORS) as error:
            if lacking(error):
                raise
            return None
        return found if found.seq >= 0 else None

    def exists(self, name: str) -> bool:
        """Say whether a position was kept, even if its file cannot be read. Blocks."""
        return self._path(name).exists()

    def save(self, name: str, seq: int, time: str) -> None:
        """Make this the position, durably; blocks, and raises OSError: then the old one stays."""
        path = self._path(name)
        with (
            self._write_lock
        ):  # else who was given up on while it waited for the disk is in the way
            atomic_files.make_directory(self._directory)
            atomic_files.replace(path, msgspec.json.encode(Cursor(seq, time)))

    def all(self) -> dict[str, Cursor]:
        """Return every position that can be read, by name in order; raises as `read`. Blocks."""
        try:
            names = sorted(path.name for path in self._directory.iterdir())
        except OSError as error:
            if lacking(error):
                raise
            return {}
        stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        read = {stem: self.read(stem) for stem in stems if _NAME.fullmatch(stem)}
        return {stem: position for stem, position in read.items() if position is not None}

    def _path(self, name: str) -> Path:
        return follower_file(self._directory, name)


def follower_file(directory: Path, name: str) -> Path:
    """Return the file kept for a follower of this name; ConfigError when it cannot be one."""
    if not _NAME.fullmatch(name):
        message = f"{name!r} cannot be the name of a follower of the journal"
        raise ConfigError(f"{message}: use lower-case letters, digits and dashes")
    return directory / (name + _SUFFIX)


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
