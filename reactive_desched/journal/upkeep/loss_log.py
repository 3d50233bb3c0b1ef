"""Which losses were told already, so that a crash while they are told does not tell them twice.

A loss is noted before it is told and again after. Where a crash, or a failing disk, leaves only the
first note, the journal itself shows whether the telling got through.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.api.event import JOURNAL_LOST, JournalLost
from reactive_desched.journal import durable
from reactive_desched.journal.cursors import file_of
from reactive_desched.journal.events import event
from reactive_desched.journal.segments import BROKEN, Segment, lines, segments
from reactive_desched.journal.upkeep.retention import Loss
from reactive_desched.primitives.decode_errors import UNDECODABLE


class _Note(Struct, frozen=True, gc=False):
    """The last loss of a sink; its telling is in the segment that begins at `since`, or later."""

    first: int
    last: int
    since: int
    is_told: bool


_decoder: Final = msgspec.json.Decoder(_Note)


class Losses:
    """The last loss of each sink, durable, in a folder of the journal; every call blocks.

    What belongs to an earlier journal in the same place is forgotten when it is first looked at.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._directory = journal / "losses"

    def told_to(self, sinks: Iterable[str], open_from: int) -> dict[str, int]:
        """Return, for each sink that lost something, the last record it was told to have lost."""
        notes = {sink: self._settled(sink, open_from) for sink in sinks}
        return {sink: note.last for sink, note in notes.items() if note is not None}

    def begin(self, loss: Loss, since: int) -> None:
        """Note that a loss is about to be told; raises OSError."""
        self._keep(loss.sink, _Note(loss.first, loss.last, since, is_told=False))

    def end(self, loss: Loss, since: int) -> None:
        """Note that it was told; raises OSError."""
        self._keep(loss.sink, _Note(loss.first, loss.last, since, is_told=True))

    def _settled(self, sink: str, open_from: int) -> _Note | None:
        """Return what was told for sure; finish or forget what may have been."""
        note = self._read(sink)
        if note is None or note.is_told:
            return None if note is None or note.last >= open_from else note
        loss = Loss(sink, note.first, note.last)
        if loss not in self._recorded(note.since):
            file_of(self._directory, sink).unlink()
            return None
        self.end(loss, note.since)
        return note

    def _recorded(self, since: int) -> Iterator[Loss]:
        """Yield the losses that the journal tells from there on.

        What a damaged file does not give any more counts as not told: better twice than never.
        """
        for one in segments(self._journal):
            if one.first_seq >= since:
                with suppress(*BROKEN):
                    yield from _told_in(one)

    def _read(self, sink: str) -> _Note | None:
        try:
            return _decoder.decode(file_of(self._directory, sink).read_bytes())
        except (FileNotFoundError, *UNDECODABLE):
            return None

    def _keep(self, sink: str, note: _Note) -> None:
        path = file_of(self._directory, sink)
        durable.make_directory(self._directory)
        durable.replace(path, msgspec.json.encode(note))


def _told_in(one: Segment) -> Iterator[Loss]:
    marked = ((line.raw, line.mark) for line in lines(one))
    told = (raw for raw, mark in marked if mark and mark.type == JOURNAL_LOST)
    found = (event(JOURNAL_LOST, raw) for raw in told)
    yield from (_loss(each.data) for each in found if each is not None)


def _loss(data: JournalLost) -> Loss:
    return Loss(data.sink, data.first, data.last)
