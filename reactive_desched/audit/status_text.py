"""Formats the status of a journal as text, as `audit status` prints it."""

from collections.abc import Iterator

from reactive_desched.api.event import format_missing
from reactive_desched.audit.status import (
    IndexStatus,
    JournalStatus,
    OpenEviction,
    PolicyStatus,
    RecordTimes,
    SinkStatus,
)
from reactive_desched.primitives.bounded_text import printable
from reactive_desched.text.ages import format_duration
from reactive_desched.text.counts import and_more, format_count
from reactive_desched.text.layout import TextLayout, align, fold

_INDENT = "  "
_UNITS = ("KiB", "MiB", "GiB", "TiB")


def status_lines(status: JournalStatus, layout: TextLayout) -> Iterator[str]:
    """Yield the status line by line."""
    for line in fold(status.journal, layout):
        yield layout.styled("1", line)
    rows = [*_content_rows(status), *_problem_rows(status)]
    yield from align(rows, width=layout.width, indent=_INDENT)
    yield from _open_lines(status, layout)
    yield from _sink_lines(status, layout)


def format_bytes(count: int) -> str:
    """Write a number of bytes in three digits or so."""
    step = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS))
    return f"{count / 1024**step:.1f} {_UNITS[step - 1]}" if step else f"{count} B"


def _content_rows(status: JournalStatus) -> Iterator[tuple[str, str]]:
    files = status.files
    packed = (
        f", {files.compressed} of them compressed ({format_bytes(files.compressed_bytes)})"
        if files.compressed
        else ""
    )
    yield "source", printable(status.source) or "-"
    if (policy := status.policy) is not None:
        uid = (
            f", kube-system has the uid {policy.cluster_uid}"
            if policy.cluster_uid not in ("", policy.cluster)
            else ""
        )
        yield "cluster", printable(f"{policy.cluster}{uid}")
        yield "policy", printable(_policy(policy))
    yield "segments", f"{files.segments}, {format_bytes(files.bytes)}{packed}"
    yield "first", _point(status.first)
    yield "last", _point(status.last)
    checkpoint = status.checkpoint
    if checkpoint is None:
        yield "signed", "never: there is no checkpoint"
    else:
        after = (
            f"{format_count(checkpoint.records_after, 'record')} after it"
            if checkpoint.records_after
            else "the last"
        )
        yield "signed", f"checkpoint in record {checkpoint.sequence} of {checkpoint.time}, {after}"
    if status.retention is not None:
        retention = status.retention
        usual = f"{format_bytes(retention.max_bytes)} or {format_duration(retention.max_age_s)}"
        yield (
            "kept",
            f"{usual}; for a sink that lags, up to {format_bytes(retention.hard_max_bytes)}",
        )
    yield "index", _index(status.index)


def _policy(policy: PolicyStatus) -> str:
    text = f"; its text: audit show {policy.id}" if policy.has_text else ""
    where = f"{policy.source}, {policy.mode}, version {policy.version}"
    since = f"in force since {policy.time} (record {policy.sequence})"
    return f"revision {policy.revision} from {where}, {since}{text}"


def _index(index: IndexStatus) -> str:
    if not index.bytes:
        return "none is kept"
    where = "beside the journal" if index.own else "elsewhere: the folder is not writable"
    return f"to record {index.sequence}, {format_bytes(index.bytes)}, {where}"


def _problem_rows(status: JournalStatus) -> Iterator[tuple[str, str]]:
    checkpoint, files = status.checkpoint, status.files
    yield "open", f"{format_count(status.open_count, 'eviction')} requested and not ended"
    for epoch in status.epochs:
        lost = format_missing(epoch.first_missing, epoch.last_missing)
        yield (
            "epoch",
            f"another began in record {epoch.sequence}: {lost}; {printable(epoch.reason)}",
        )
    if status.damaged_lines:
        yield (
            "damaged",
            f"{format_count(status.damaged_lines, 'line')}: `audit verify` names the first",
        )
    if files.torn_bytes:
        yield (
            "torn",
            f"{format_count(files.torn_bytes, 'byte')} without an end: being written, or cut short",
        )
    if files.set_aside:
        yield "set aside", ", ".join(files.set_aside)
    if checkpoint is not None:
        for count, noun in (
            (checkpoint.verdicts_unrecorded, "decision"),
            (checkpoint.disruptions_unrecorded, "disruption"),
        ):
            if count:
                yield "unrecorded", f"{format_count(count, noun)}, by the bound on their rate"


def _point(point: RecordTimes | None) -> str:
    return f"record {point.sequence} of {printable(point.recorded_time)}" if point else "-"


def _open_lines(status: JournalStatus, layout: TextLayout) -> Iterator[str]:
    if not status.open:
        return
    yield ""
    rows = [("OPEN", "RECORD", "FOR", "NODE", "ID"), *map(_open_row, status.open)]
    yield from align(rows, width=layout.width, indent="")
    if (more := status.open_count - len(status.open)) > 0:
        yield and_more(more)


def _open_row(eviction: OpenEviction) -> tuple[str, ...]:
    return (
        printable(eviction.pod),
        str(eviction.sequence),
        format_duration(max(0.0, eviction.age_s)),
        printable(eviction.node),
        eviction.id,
    )


def _sink_lines(status: JournalStatus, layout: TextLayout) -> Iterator[str]:
    if not status.sinks:
        return
    yield ""
    rows = [("SINK", "AT", "BEHIND", "KEPT", "DEAD LETTERS"), *map(_sink_row, status.sinks)]
    yield from align(rows, width=layout.width, indent="")


def _sink_row(sink: SinkStatus) -> tuple[str, ...]:
    kept = "never" if sink.age_s is None else f"{format_duration(max(0.0, sink.age_s))} ago"
    return sink.name, str(sink.sequence), str(sink.lag), kept, str(sink.dead_letters)
