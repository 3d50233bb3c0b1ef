"""Checks whether a folder holds a journal, before the audit makes an index of it."""

from pathlib import Path

from reactive_desched.errors import ConfigError, JournalError
from reactive_desched.journal.segments import DAMAGE_ERRORS, Segment, list_segments, read_records


def require_journal(directory: Path) -> list[Segment]:
    """Return the files of the journal in a folder, oldest first.

    Raises ConfigError when there is none, and JournalError when the folder cannot be looked into.
    """
    try:
        found = list_segments(directory)
    except (FileNotFoundError, NotADirectoryError):
        found = []
    except OSError as error:
        raise JournalError(f"{directory}: cannot look here: {error.strerror or error}") from error
    if not found:
        what = "there is no journal here" if directory.is_dir() else "there is no such folder"
        raise ConfigError(f"{directory}: {what}; name the journal's folder with --journal DIR")
    return found


def has_records(files: list[Segment]) -> bool:
    """Say whether there is a whole record, or only the beginning of a journal without a byte.

    Raises JournalError when there is something else, and nothing of it is a record.
    """
    try:
        if any(map(_has_record, files)):
            return True
        unreadable = [one.path for one in files if one.path.stat().st_size]
    except OSError:
        return True  # the reader that follows reports the error
    if unreadable:
        raise JournalError(
            f"{unreadable[0]}: line 1 is not a whole record, nor is any other line here: this is no"
            " journal, or all of it is damaged; --journal DIR names another folder"
        )
    return False


def _has_record(segment: Segment) -> bool:
    try:
        return next(read_records(segment), None) is not None
    except DAMAGE_ERRORS:
        return False
