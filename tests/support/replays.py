"""Replays what the controllers of an end-to-end test recorded: they must decide so again.

What does not is kept, journal and recording, in `KEPT`: the next who looks can replay it.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from reactive_desched.errors import NotRecorded
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.replay.replaying import NO_FIRST_PICTURE, ReplayOptions, replay_recording
from reactive_desched.replay.text import report_lines

NOT_EQUAL: Final[dict[str, str]] = {
    "test_journal.py::test_an_end_that_was_cut_off": "the test cuts decisions off the journal",
    "test_outages.py::test_a_controller_without_any_right": "nothing is read, so none is recorded",
}
"""How tests begin whose recordings cannot be replayed whole and equal, and why."""


KEPT: Final = Path("build/unequal-replays")
"""Where the journals are kept whose recordings do not replay equal."""
MAX_KEPT: Final = 10
"""So many are kept; the one that was kept first goes first."""


class _Replay(Struct, frozen=True):
    """A recording that was replayed: whether it is whole and equal, and the report.

    `journal` is its journal's folder, if there is one to keep.
    """

    is_equal: bool
    text: str
    journal: Path | None = None


def replay_objections(folder: Path, test: str, kept: Path = KEPT) -> Iterator[str]:
    """Replay each recording of the controllers that ran below a folder; yield what is not equal.

    `test` is the file and the name, such as `test_leader.py::test_one_leads`. One in NOT_EQUAL may
    differ.
    """
    if any(test.startswith(each) for each in NOT_EQUAL):
        return
    recordings = sorted(folder.rglob(f"journal/{RECORDING_FOLDER}"))
    if not recordings and not any(folder.rglob("controller.log")):
        return
    replays = [_replay(each) for each in recordings] or [_Replay(False, "nothing was recorded")]
    for each in replays:
        if not each.is_equal:
            yield each.text if each.journal is None else _kept(each.text, each.journal, test, kept)


def _kept(text: str, journal: Path, test: str, kept: Path) -> str:
    """Keep a journal and its recording; say where."""
    name = "".join(each if each.isalnum() else "-" for each in test)[:80]
    while len(before := sorted(kept.glob("*"), key=lambda each: each.stat().st_ctime)) >= MAX_KEPT:
        shutil.rmtree(before[0])
    place = kept / f"{name}-{time.time_ns()}"
    shutil.copytree(journal, place)
    return f"{text}\nkept in {place.resolve()}: reactive-desched replay --journal {place}"


def _replay(recording: Path) -> _Replay:
    """Replay a recording; of a process that was killed soon there may be nothing to compare."""
    options = ReplayOptions(recording=recording, journal=recording.parent)
    try:
        report = replay_recording(options, plugin_registry())
    except NotRecorded as error:
        return _Replay(False, str(error), recording.parent)
    has_time = bool(report.lives) or not _was_stopped(recording.parent.parent / "controller.log")
    left_out = [each for each in report.not_compared if NO_FIRST_PICTURE not in each]
    is_whole = has_time and not left_out and not report.is_damaged
    text = "\n".join((f"{recording}:", *report_lines(report)))
    return _Replay(is_whole and not report.differences, text, recording.parent)


def _was_stopped(log: Path) -> bool:
    """Say whether a process ended in order: its recording has its end then."""
    return log.exists() and '"the controller is stopping"' in log.read_text(errors="replace")
