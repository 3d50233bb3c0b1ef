"""Where in the journal a client of the stream begins."""

from datetime import datetime

from reactive_desched.errors import RecordsGone
from reactive_desched.journal.envelope import epoch_of
from reactive_desched.journal.records import recorded_at
from reactive_desched.journal.start_position import OLDEST, After, Since, Start, checked
from reactive_desched.web.live_buffer import Records


async def place_of(start: Start, records: Records) -> int:
    """Return the sequence behind which a client begins; raises RecordsGone if it is not there."""
    match start:
        case After():
            return checked(start, epoch_of(records.source), records.oldest, records.last)
        case Since(moment=moment):
            return await _before(moment, records)
        case _:
            return records.oldest - 1 if start == OLDEST else records.last


async def _before(moment: datetime, records: Records) -> int:
    """Search by halves: records are written in the order of time, but for a clock set back."""
    low, high = records.oldest - 1, records.last
    while low < high:
        middle = (low + high) // 2
        if await _is_earlier(middle + 1, moment, records):
            low = middle + 1
        else:
            high = middle
    return low


async def _is_earlier(seq: int, moment: datetime, records: Records) -> bool:
    try:
        found = await records.after(seq - 1, 1)
    except RecordsGone:
        return True
    written = recorded_at(found[0].raw) if found else None
    return written is not None and written < moment
