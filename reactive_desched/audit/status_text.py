"""How a journal stands, in words, as `audit status` prints it."""

from collections.abc import Iterator

from reactive_desched.audit.event_lines import counted, lasting, plain
from reactive_desched.audit.layout import Look, aligned, folded
from reactive_desched.audit.status import Follower, Open, Point, Standing, Status

_INDENT = "  "
_UNITS = ("KiB", "MiB", "GiB", "TiB")


def lines(status: Status, look: Look) -> Iterator[str]:
    """Yield it line by line."""
    for line in folded(status.journal, look):
        yield look.painted("1", line)
    rows = [*_contents(status), *_worries(status)]
    yield from aligned(rows, look, _INDENT)
    yield from _open(status, look)
    yield from _sinks(status, look)


def size(count: int) -> str:
    """Write a number of bytes in three digits or so."""
    step = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS))
    return f"{count / 1024**step:.1f} {_UNITS[step - 1]}" if step else f"{count} B"


def _contents(status: Status) -> Iterator[tuple[str, str]]:
    files = status.files
    packed = (
        f", {files.compressed} of them compressed ({size(files.compressed_bytes)})"
        if files.compressed
        else ""
    )
    yield "source", plain(status.source) or "-"
    yield "segments", f"{files.segments}, {size(files.bytes)}{packed}"
    yield "first", _point(status.first)
    yield "last", _point(status.last)
    sealed = status.checkpoint
    if sealed is None:
        yield "signed", "never: there is no checkpoint"
    else:
        after = (
            f"{counted(sealed.records_after, 'record')} after it"
            if sealed.records_after
            else "the last"
        )
        yield "signed", f"checkpoint in record {sealed.sequence} of {sealed.time}, {after}"
    if status.retention is not None:
        kept = status.retention
        usual = f"{size(kept.max_bytes)} or {lasting(kept.max_age_s)}"
        yield "kept", f"{usual}; for a sink that lags, up to {size(kept.hard_max_bytes)}"
    yield "index", _index(status.index)


def _index(index: Standing) -> str:
    if not index.bytes:
        return "none is kept"
    where = "beside the journal" if index.own else "elsewhere: the folder is not writable"
    return f"to record {index.sequence}, {size(index.bytes)}, {where}"


def _worries(status: Status) -> Iterator[tuple[str, str]]:
    sealed, files = status.checkpoint, status.files
    yield "open", f"{counted(status.open_count, 'eviction')} requested and not ended"
    if status.damaged_lines:
        yield "damaged", f"{counted(status.damaged_lines, 'line')}: `audit verify` names the first"
    if files.torn_bytes:
        yield (
            "torn",
            f"{counted(files.torn_bytes, 'byte')} without an end: being written, or cut short",
        )
    if files.set_aside:
        yield "set aside", ", ".join(files.set_aside)
    if sealed is not None and sealed.verdicts_unrecorded:
        yield (
            "unrecorded",
            f"{counted(sealed.verdicts_unrecorded, 'verdict')}, by the bound on their rate",
        )


def _point(point: Point | None) -> str:
    return f"record {point.sequence} of {plain(point.recorded_time)}" if point else "-"


def _open(status: Status, look: Look) -> Iterator[str]:
    if not status.open:
        return
    yield ""
    rows = [("OPEN", "RECORD", "FOR", "NODE", "ID"), *map(_open_row, status.open)]
    yield from aligned(rows, look)
    if (more := status.open_count - len(status.open)) > 0:
        yield f"and {more} more"


def _open_row(one: Open) -> tuple[str, ...]:
    return plain(one.pod), str(one.sequence), lasting(max(0.0, one.age_s)), plain(one.node), one.id


def _sinks(status: Status, look: Look) -> Iterator[str]:
    if not status.sinks:
        return
    yield ""
    rows = [("SINK", "AT", "BEHIND", "KEPT", "DEAD LETTERS"), *map(_sink_row, status.sinks)]
    yield from aligned(rows, look)


def _sink_row(one: Follower) -> tuple[str, ...]:
    kept = "never" if one.age_s is None else f"{lasting(max(0.0, one.age_s))} ago"
    return one.name, str(one.sequence), str(one.lag), kept, str(one.dead_letters)
