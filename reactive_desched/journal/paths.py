"""The journal's default directory, the same for every command, and the paths below it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

CURSORS_DIR: Final = "positions"
"""The folder of the sinks' positions, in the journal's."""
DEAD_LETTERS_DIR: Final = "dead-letters"
"""The folder of what sinks would not take, in the journal's."""


def default_journal_directory(environ: Mapping[str, str]) -> Path:
    """Return the default directory of records: the service's state directory, or the user's."""
    if state := environ.get("STATE_DIRECTORY"):
        return Path(state) / "journal"
    home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "/var/lib")) / ".local/state"
    return Path(home) / "reactive-desched" / "journal"
