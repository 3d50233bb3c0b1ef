"""The folder outside the checkout that keeps the real parts, and how one run at a time fills it."""

import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

STAMP = "finished.json"


class BuildError(Exception):
    """The parts cannot be had; the text says what is missing and what to do."""


def root(env: Mapping[str, str]) -> Path:
    """Return the folder that holds one folder for each set of versions; it need not exist."""
    if chosen := env.get("REACTIVE_DESCHED_REAL_TOOLS"):
        return Path(chosen).absolute()
    cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (cache / "reactive-desched" / "real-tools").absolute()


def chosen_file(env: Mapping[str, str], variable: str) -> Path | None:
    """Return the file that a variable names, None where it is not set; raises BuildError."""
    return _chosen(env, variable, Path.is_file, "file")


def chosen_folder(env: Mapping[str, str], variable: str) -> Path | None:
    """Return the folder that a variable names, None where it is not set; raises BuildError."""
    return _chosen(env, variable, Path.is_dir, "folder")


def _chosen(
    env: Mapping[str, str], variable: str, is_one: Callable[[Path], bool], what: str
) -> Path | None:
    if not (text := env.get(variable)):
        return None
    if not is_one(Path(text)):
        raise BuildError(f"{variable}={text} is not a {what}: correct or unset it.")
    return Path(text).absolute()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder and let one run at a time use it; the next waits and finds it finished."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def stamped(folder: Path) -> set[str]:
    """Return what the stamp vouches for; nothing without a whole stamp."""
    try:
        return set(json.loads((folder / STAMP).read_text()))
    except (FileNotFoundError, json.JSONDecodeError):
        return set()


def write_stamp(folder: Path, names: Iterable[str]) -> None:
    """Vouch for the parts, in one step: a reader sees the old stamp or the new one."""
    draft = folder / f"{STAMP}.{os.getpid()}"
    draft.write_text(json.dumps(sorted(names)) + "\n")
    draft.replace(folder / STAMP)


def log_progress(text: str) -> None:
    """Write a line of progress; standard output is kept for `--where`."""
    sys.stderr.write(f"real-tools: {text}\n")
    sys.stderr.flush()
