"""Keeps which losses are recorded already, so that a crash meanwhile does not record them twice.

A loss is noted before and after it is recorded. Where a crash, or a failing disk, leaves only the
first note, the journal itself shows whether the record was written.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.api.event import JOURNAL_LOST, JournalLost
from reactive_desched.journal import atomic_files
from reactive_desched.journal.cursors import follower_file
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.segments import DAMAGE_ERRORS, Segment, list_segments, read_lines
from reactive_desched.journal.upkeep.retention import Loss
from reactive_desched.primitives.decode_errors import DECODE_ERRORS


class _LossState(Struct, frozen=True, gc=False):
    """The last loss of a sink; its record is in the segment that begins at `since`, or later."""

    first: int
    last: int
    since: int
    is_recorded: bool


_decoder: Final = msgspec.json.Decoder(_LossState)


class LossLog:
    """The last loss of each sink, durable, in a folder of the journal; every call blocks.

    What belongs to an earlier journal in the same place is forgotten when it is first looked at.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._directory = journal / "losses"

    def reported_until(self, sinks: Iterable[str], active_first_seq: int) -> dict[str, int]:
        """Return, for each sink that lost records, the last one whose loss is recorded."""
        states = {sink: self._resolve(sink, active_first_seq) for sink in sinks}
        return {sink: note.last for sink, note in states.items() if note is not None}

    def mark_pending(self, loss: Loss, since: int) -> None:
        """Note that a loss is about to be recorded; raises OSError."""
        self._save(loss.sink, _LossState(loss.first, loss.last, since, is_recorded=False))

    def mark_recorded(self, loss: Loss, since: int) -> None:
        """Note that the loss is recorded; raises OSError."""
        self._save(loss.sink, _LossState(loss.first, loss.last, since, is_recorded=True))

    def _resolve(self, sink: str, active_first_seq: int) -> _LossState | None:
        """Return the losses recorded for sure; finish or drop the notes of uncertain ones."""
        state = self._read(sink)
        if state is None or state.is_recorded:
            return None if state is None or state.last >= active_first_seq else state
        loss = Loss(sink, state.first, state.last)
        if loss not in self._recorded_losses(state.since):
            follower_file(self._directory, sink).unlink()
            return None
        self.mark_recorded(loss, state.since)
        return state

    def _recorded_losses(self, since: int) -> Iterator[Loss]:
        """Yield the losses that the journal records from there on.

        What a damaged file does not give any more counts as not recorded: better twice than never.
        """
        for one in list_segments(self._journal):
            if one.first_seq >= since:
                with suppress(*DAMAGE_ERRORS):
                    yield from _losses_in(one)

    def _read(self, sink: str) -> _LossState | None:
        try:
            return _decoder.decode(follower_file(self._directory, sink).read_bytes())
        except (FileNotFoundError, *DECODE_ERRORS):
            return None

    def _save(self, sink: str, state: _LossState) -> None:
        path = follower_file(self._directory, sink)
        atomic_files.make_directory(self._directory)
        atomic_files.replace(path, msgspec.json.encode(state))


def _losses_in(segment: Segment) -> Iterator[Loss]:
    marked = ((line.raw, line.header) for line in read_lines(segment))
    raw_losses = (raw for raw, mark in marked if mark and mark.type == JOURNAL_LOST)
    found = (decode_event(JOURNAL_LOST, raw) for raw in raw_losses)
    yield from (_loss_of(each.data) for each in found if each is not None)


def _loss_of(data: JournalLost) -> Loss:
    return Loss(data.sink, data.first, data.last)
