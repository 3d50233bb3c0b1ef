"""Finds and opens what `-f` names: files, folders, pipes, standard input; JSON or YAML."""

import mmap
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from reactive_desched.errors import ConfigError, SnapshotUnavailable
from reactive_desched.plan.json_text import BYTE_ORDER_MARK, JsonText
from reactive_desched.plan.yaml_text import yaml_to_json

__all__ = ["STDIN", "expand_files", "open_text"]

STDIN: Final = "-"
_ENDINGS: Final = frozenset({".json", ".yaml", ".yml"})
_FIRST_BYTES: Final = 4096
_SPOOL_BUFFER: Final = 2**20
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_GZIP: Final = b"\x1f\x8b"
_PATIENCE_S: Final = 1.0
"""How long a named pipe may be without a writer before we say that we wait for one."""

FileProgress = Callable[[str, int, int], None]
"""Called with the name of what is being read, the bytes read, and the bytes in total."""


def expand_files(names: Iterable[str]) -> Iterator[str]:
    """Yield the files that are meant, those of a folder sorted; raises ConfigError."""
    for name in names:
        if name == STDIN or not Path(name).is_dir():
            yield name
            continue
        inside = sorted(_files_in(Path(name)))
        if not inside:
            raise ConfigError(f"{name}: no file in this folder ends in .json, .yaml or .yml")
        yield from inside


def _files_in(folder: Path) -> Iterator[str]:
    """Yield the files of a folder and of those in it; what begins with a dot is left alone."""
    for directory, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".")]
        for file in files:
            if not file.startswith(".") and Path(file).suffix.lower() in _ENDINGS:
                yield str(Path(directory, file))


def open_text(name: str, progress: FileProgress) -> JsonText:
    """Open one file as JSON, whatever it is written in; raises ConfigError or SnapshotUnavailable.

    What is no plain file, and what is YAML, passes through a temporary file.
    """
    shown = "standard input" if name == STDIN else name
    with _opened(name) as stream, _mappable(stream, shown) as file:
        head = file.read(_FIRST_BYTES)
        file.seek(0)
        if (reason := _unreadable_message(head)) is not None:
            raise ConfigError(f"{shown}: {reason}")
        if head.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] in (b"{", b"["):
            return JsonText(_mapped(file), shown)
        with _temporary(shown) as converted:
            size = os.fstat(file.fileno()).st_size
            yaml_to_json(file, converted, shown, lambda at: progress(shown, at, size))
            return JsonText(_mapped(converted), shown)


def _unreadable_message(head: bytes) -> str | None:
    """Recognise files that are neither JSON nor YAML by how they begin."""
    if not head.strip():
        return "this is empty; write it with kubectl get … -o json"
    if head.startswith(_GZIP):
        return "this is compressed; unpack it first"
    if head.startswith(_UTF16):
        return "this is UTF-16, as PowerShell's > writes it; save it as UTF-8"
    return None


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == STDIN:
        if sys.stdin.isatty():
            sys.stderr.write("reading objects from the terminal; Ctrl-D ends them\n")
        yield sys.stdin.buffer
        return
    try:
        file = _open(name)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        hint = "; check the path" if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"{name}: cannot be read: {reason}{hint}") from error
    with file:
        yield file


def _open(name: str) -> BinaryIO:
    """Open a file; say on standard error that a named pipe waits, which looks like a hang."""
    path = Path(name)
    if not path.is_fifo():
        return path.open("rb")
    waits = f"{name}: waiting for a program to write to this named pipe\n"
    notice = threading.Timer(_PATIENCE_S, sys.stderr.write, [waits])
    notice.daemon = True
    notice.start()
    try:
        return path.open("rb")
    finally:
        notice.cancel()


@contextmanager
def _mappable(stream: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """Return the file if it can be mapped, else a temporary file with its content."""
    if _is_mappable(stream):
        yield stream
        return
    with _temporary(name) as spool:
        while part := stream.read(_SPOOL_BUFFER):
            spool.write(part)
        spool.flush()
        spool.seek(0)
        yield spool


@contextmanager
def _temporary(name: str) -> Iterator[BinaryIO]:
    """Open a temporary file that is gone afterwards; a full disk is SnapshotUnavailable."""
    import tempfile

    try:
        with tempfile.TemporaryFile(prefix="reactive-desched-") as file:
            yield file
    except OSError as error:
        folder, reason = tempfile.gettempdir(), error.strerror or str(error)
        remedy = "make room there, or set TMPDIR to a folder with room"
        raise SnapshotUnavailable(
            f"{name}: cannot be kept in {folder}: {reason}; {remedy}"
        ) from error


def _is_mappable(stream: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and stream.tell() == 0
    except OSError:  # not a file of the system at all
        return False


def _mapped(file: BinaryIO) -> mmap.mmap | bytes:
    """Map a whole file; it may be closed then. Nothing can be mapped of an empty one."""
    file.flush()
    if os.fstat(file.fileno()).st_size == 0:
        return b""
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
