"""The texts of a load, to the byte: what a record leaves out comes from the file in use."""

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from reactive_desched.errors import ConfigError, JournalError, ReactiveDeschedError
from reactive_desched.primitives.hints import quote

if TYPE_CHECKING:
    from reactive_desched.audit.policy_loads import FileText, LoadRecord


def named_texts(
    record: "LoadRecord", texts: "Sequence[FileText]", names: Sequence[str]
) -> "list[FileText]":
    """Return the files of a load that are named, or all of them; raises ConfigError."""
    if not texts:
        raise JournalError(
            f"record {record.seq} has no files: an earlier version of reactive-desched wrote it"
        )
    if not names:
        return list(texts)
    found = []
    for name in names:
        of_name = [
            each for each in texts if name in (each.file.name, PurePath(each.file.name).name)
        ]
        if not of_name:
            there_are = ", ".join(each.file.name for each in texts)
            raise ConfigError(f"record {record.seq} has no file {quote(name)}: it has {there_are}")
        found += of_name
    return found


def hidden_places(text: "FileText") -> str:
    """Say where a record left out what may be secret."""
    from reactive_desched.telemetry.logs import REDACTED

    lines = [str(at) for at, line in enumerate(text.text.splitlines(), 1) if REDACTED in line]
    where = f" in line {', '.join(lines)}" if lines else ""
    return f"the record leaves out what may be secret{where}"


def exact_text(text: "FileText", present: bytes | None = None, path: str = "") -> str:
    """Return the text of a file to the byte; what a record leaves out is that of the file now.

    `present` is what the file at `path` holds. Raises JournalError where there is no such text.
    """
    from reactive_desched.audit.policy_loads import with_secrets

    if text.missing:
        raise JournalError(f"there is no text of {text.file.name}: {text.missing}")
    if present is None:
        place = Path(path or text.file.path or text.file.name)
        present = read_if_present(place) if place.is_file() else b""
    whole = with_secrets(text, (present or b"").decode(errors="replace"))
    if whole is None:
        raise JournalError(
            f"{text.file.name}: {hidden_places(text)}, and the file in use does not"
            " have it as it was: write it in by hand, into what `policy show` prints"
        )
    return whole


def read_if_present(path: Path) -> bytes | None:
    """Return what a file holds; None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ReactiveDeschedError(f"{path} cannot be read: {error.strerror}") from error
