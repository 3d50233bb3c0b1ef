"""Hints for a folder that is not writable, by the error of the operating system."""

import errno
from typing import Final

__all__ = ["os_error_hint"]

_HINTS: Final = {
    errno.ENOSPC: "free some space, or keep less of it (journal.retention)",
    errno.EDQUOT: "raise the quota, or keep less of it (journal.retention)",
    errno.EIO: "the disk fails: replace it, or name a directory on another",
}


def os_error_hint(error: OSError, default: str) -> str:
    """Return a hint for a full or failing disk, else the caller's."""
    return _HINTS.get(error.errno or 0, default)
