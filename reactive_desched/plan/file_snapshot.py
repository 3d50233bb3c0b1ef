"""Builds a snapshot from files."""

from collections.abc import Collection, Iterable
from functools import partial

from reactive_desched.plan.files import expand_files, open_text
from reactive_desched.plan.input_objects import read_objects
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.snapshot import SWEEP_RESOURCES, Snapshot, SnapshotBuilder

__all__ = ["read_files"]


def read_files(
    names: Iterable[str],
    progress: Progress,
    resources: Collection[str] = SWEEP_RESOURCES,
    *,
    reads_all: bool = True,
) -> Snapshot:
    """Read these resources in the files and folders named, and nothing else.

    `reads_all` is as in SnapshotBuilder. Raises ConfigError where a file cannot be read,
    SnapshotUnavailable where there is no room to.
    """
    builder = SnapshotBuilder(resources, reads_all=reads_all)
    for name in expand_files(names):
        _read(name, builder, progress)
    return builder.build()


def _read(name: str, builder: SnapshotBuilder, progress: Progress) -> None:
    text = open_text(name, lambda what, at, of: progress.update(f"converting {what}", at, of))
    what, size = f"reading {text.name}", len(text)
    try:
        for item in read_objects(text, partial(_add_partial_list, builder, text.name)):
            builder.add_input(item, text.name)
            progress.update(what, text.at, size)
    except RecursionError:  # lists in lists in lists
        raise text.syntax_error("it is nested too deeply") from None


def _add_partial_list(
    builder: SnapshotBuilder, source: str, kind: str, missing: int | None
) -> None:
    rest = f"{missing} more objects" if missing else "more objects"
    builder.add_partial_list(f"{source}: a {kind} is one page of several; {rest} are not in it")
