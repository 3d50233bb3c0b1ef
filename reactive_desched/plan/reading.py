"""From the names of files to a picture."""

from collections.abc import Iterable
from functools import partial

from reactive_desched.plan.files import named_files, open_text
from reactive_desched.plan.input_objects import objects
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.snapshot import Gathering, Picture

__all__ = ["read_files"]


def read_files(names: Iterable[str], progress: Progress) -> Picture:
    """Read everything in the files and folders named, and nothing else.

    Raises ConfigError where a file cannot be read, CannotLook where there is no room to.
    """
    gathering = Gathering()
    for name in named_files(names):
        _read(name, gathering, progress)
    return gathering.picture()


def _read(name: str, gathering: Gathering, progress: Progress) -> None:
    text = open_text(name, lambda what, at, of: progress.tell(f"converting {what}", at, of))
    what, size = f"reading {text.name}", len(text)
    try:
        for given in objects(text, partial(_page, gathering, text.name)):
            gathering.take(given, text.name)
            progress.tell(what, text.at, size)
    except RecursionError:  # lists in lists in lists
        raise text.wrong("it is nested too deeply") from None


def _page(gathering: Gathering, source: str, kind: str, lacking: int | None) -> None:
    rest = f"{lacking} more objects" if lacking else "more objects"
    gathering.page(f"{source}: a {kind} is one page of several; {rest} are not in it")
