"""Small files that are whole or as before, whenever the power goes."""

import os
from pathlib import Path
from typing import Final

_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
TEMP_SUFFIX: Final = ".tmp"
"""What the name of a file that is still being written ends in."""


def replace(path: Path, content: bytes) -> None:
    """Make these the file's bytes, all or nothing, and durable; blocks, and raises OSError.

    One caller at a time for each path: the unfinished file has one name.
    """
    unfinished = path.with_name(path.name + TEMP_SUFFIX)
    descriptor = os.open(unfinished, _CREATE_FLAGS, 0o640)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    unfinished.replace(path)
    sync_directory(path.parent)


def make_directory(directory: Path) -> None:
    """Make the folder in one that is there, durably, unless it is there; raises OSError."""
    if not directory.is_dir():
        directory.mkdir(mode=0o750, exist_ok=True)
        sync_directory(directory.parent)


def sync_directory(directory: Path) -> None:
    """Make durable which names the folder holds; raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
