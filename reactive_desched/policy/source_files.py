"""Reads one file of a policy, of settings or of a scheduler; what cannot be read is a problem."""

import errno
import os
import select
import stat
from pathlib import Path
from typing import Final

from reactive_desched.api.rules import Rule
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.yaml.diagnostics import Diagnostic, DiagnosticList
from reactive_desched.policy.yaml.text import MAX_TEXT_BYTES
from reactive_desched.primitives.shortage import lacking

PIPE_TIMEOUT_S: Final = 10.0
"""How long to wait for another process to write a policy to a named pipe, in seconds."""


def read_source(path: Path | str, diagnostics: DiagnosticList) -> SourceText | None:
    """Read one file, at most one byte more than is allowed; add an error if it cannot be read.

    Raises OSError where this process lacks what it takes to read it.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                _wait_for_writer(file.fileno())
            return SourceText(file.read(MAX_TEXT_BYTES + 1), str(path))
    except (OSError, ValueError) as error:
        if lacking(error):
            raise
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        diagnostics.add(
            Diagnostic(
                str(path),
                0,
                0,
                "",
                f"cannot be read: {reason}",
                _unreadable_hint(error),
                rule=Rule.UNREADABLE_FILE,
            )
        )
        return None


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting: a named pipe would wait for another process to write to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _wait_for_writer(pipe: int) -> None:
    """Wait until a pipe has something to read; raises TimeoutError when nothing comes."""
    if not select.select([pipe], [], [], PIPE_TIMEOUT_S)[0]:
        message = f"nothing was written to this pipe within {PIPE_TIMEOUT_S:g} s"
        raise TimeoutError(errno.ETIMEDOUT, message)
    os.set_blocking(pipe, True)


def _unreadable_hint(error: Exception) -> str:
    """Say what to do about a file that cannot be read."""
    match error:
        case FileNotFoundError():
            return "check the path"
        case PermissionError():
            return "let the user this runs as read it"
        case IsADirectoryError():
            return "name the file inside"
        case TimeoutError():
            return "name a regular file"
        case _:
            return "name a readable file"
