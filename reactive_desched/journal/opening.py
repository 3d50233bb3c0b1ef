"""Taking a directory for a journal: every way this can fail gets an error that says what to do."""

from pathlib import Path

from reactive_desched.errors import JournalError
from reactive_desched.journal.lock import DirectoryLock
from reactive_desched.journal.log import Log
from reactive_desched.journal.recovery import Recovery, recover


def take(directory: Path, log: Log) -> tuple[DirectoryLock, Recovery]:
    """Lock the directory, repair what the last writer left, and let the log go on behind it."""
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        lock = DirectoryLock(directory)
    except OSError as error:
        raise _unusable(directory, error) from error
    try:
        recovery = recover(directory)
        log.resume(recovery)
    except OSError as error:
        lock.close()
        raise _unusable(directory, error) from error
    except JournalError:
        lock.close()
        raise
    return lock, recovery


def _unusable(directory: Path, error: OSError) -> JournalError:
    return JournalError(
        f"{directory}: cannot keep a journal here: {said(error)};"
        " name a directory that this process may write to"
    )


def said(error: OSError) -> str:
    """Return the operating system's words for an error."""
    return error.strerror or str(error)
