"""Where a journal is when nobody says, so that every command looks in the same folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

CURSORS_DIR: Final = "positions"
"""The folder of the sinks' positions, in the journal's."""
DEAD_LETTERS_DIR: Final = "dead-letters"
"""The folder of what sinks would not take, in the journal's."""


def default_journal_directory(environ: Mapping[str, str]) -> Path:
    """Return where records go when nobody says: the service's state folder, or the user's."""
    if state := environ.get("STATE_DIRECTORY"):
        return Path(state) / "journal"
    home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "/var/lib")) / ".local/state"
    return Path(home) / "reactive-desched" / "journal"
