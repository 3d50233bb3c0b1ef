"""Recognizes that this process lacks memory or open files: an error then says nothing of a file.

What cannot be read for that may be there, and whole: no file counts as missing or damaged, no
cluster as unknown, and no policy as wrong for such an error.
"""

import errno
from collections.abc import Mapping
from typing import Final

MEMORY: Final = "memory"

_OPEN_FILES: Final = "open files"
_LACKING: Final[Mapping[int | None, str]] = {
    errno.ENOMEM: MEMORY,
    errno.EMFILE: _OPEN_FILES,
    errno.ENFILE: _OPEN_FILES,
}
_REMEDIES: Final = {
    MEMORY: "give it more memory, or end what takes it",
    _OPEN_FILES: "raise the limit of open files (`ulimit -n`), or end what holds them",
}


def lacking(error: BaseException | None) -> str:
    """Return what the process lacks by an error, or by what that was raised from; else nothing."""
    while error is not None:
        if isinstance(error, MemoryError):
            return MEMORY
        if isinstance(error, OSError) and error.errno in _LACKING:
            return _LACKING[error.errno]
        error = error.__cause__ or error.__context__
    return ""


def shortage_remedy(error: BaseException) -> str:
    """Say what to do where the process lacks memory or open files; empty where it does not."""
    what = lacking(error)
    return f"this process lacks {what}: {_REMEDIES[what]}" if what else ""
