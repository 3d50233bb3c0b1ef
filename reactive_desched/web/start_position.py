"""Finds where in the journal a client of the stream begins."""

from datetime import datetime

from reactive_desched.errors import RecordsExpired
from reactive_desched.journal.event_builder import journal_epoch
from reactive_desched.journal.records import recorded_at
from reactive_desched.journal.start_position import (
    OLDEST,
    AfterSequence,
    SinceTime,
    Start,
    validate_position,
)
from reactive_desched.web.live_buffer import RecordSource


async def resolve_start_seq(start: Start, records: RecordSource) -> int:
    """Return the sequence behind which a client begins; raises RecordsExpired if it is gone."""
    match start:
        case AfterSequence():
            return validate_position(
                start, journal_epoch(records.source), records.oldest_seq, records.last_seq
            )
        case SinceTime(moment=moment):
            return await _seq_before(moment, records)
        case _:
            return records.oldest_seq - 1 if start == OLDEST else records.last_seq


async def _seq_before(moment: datetime, records: RecordSource) -> int:
    """Search by halves: records are written in the order of time, but for a clock set back."""
    low, high = records.oldest_seq - 1, records.last_seq
    while low < high:
        middle = (low + high) // 2
        if await _is_earlier(middle + 1, moment, records):
            low = middle + 1
        else:
            high = middle
    return low


async def _is_earlier(seq: int, moment: datetime, records: RecordSource) -> bool:
    try:
        found = await records.read_after(seq - 1, 1)
    except RecordsExpired:
        return True
    written = recorded_at(found[0].raw) if found else None
    return written is not None and written < moment
