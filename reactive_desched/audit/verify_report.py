"""The report of `audit verify` for a person to read."""

from collections.abc import Iterator

from reactive_desched.api.event import format_missing
from reactive_desched.audit.findings import BadRecord, EpochChange, KeyUse, VerifyReport
from reactive_desched.primitives.bounded_text import printable
from reactive_desched.text.counts import format_count


def report_lines(report: VerifyReport) -> Iterator[str]:
    """Yield the lines of the report: the result, the records read, the keys, unsigned records."""
    yield from _summary(report)
    yield from map(_epoch, report.epochs)
    yield from _extent(report)
    yield from _keys(report)
    yield from _pinned_checkpoint(report)
    yield from _unproven(report)


def _summary(report: VerifyReport) -> Iterator[str]:
    if report.bad is None:
        yield f"{'whole' if report.ok else 'RECORDS MISSING'}: {report.journal}"
        return
    yield f"BAD: {report.journal}"
    yield from _bad(report.bad)


def _bad(bad: BadRecord) -> Iterator[str]:
    where = f"{bad.file} at byte {bad.offset}" if bad.file else "no file"
    written = f", written {bad.time}" if bad.time else ""
    yield f"  first bad record: {bad.sequence} ({where}{written})"
    yield f"  {bad.reason}"
    if bad.suspects:
        yield f"  changed is one of the records {bad.suspects.first} to {bad.suspects.last}"


def _epoch(epoch: EpochChange) -> str:
    lost = (
        f"{format_missing(epoch.first_missing, epoch.last_missing)}: " if epoch.is_recorded else ""
    )
    return (
        f"another epoch begins in record {epoch.sequence} of {epoch.time}:"
        f" {lost}{printable(epoch.reason)}; it is {printable(epoch.source)},"
        f" before it {printable(epoch.previous) or 'unknown'}"
    )


def _extent(report: VerifyReport) -> Iterator[str]:
    packed = f", {report.compressed} of them compressed" if report.compressed else ""
    before = " before it" if report.bad else ""
    files = format_count(report.segments, "file")
    yield f"{format_count(report.records, 'record')} in {files}{packed}{before}"
    if report.first and report.last:
        first, last = report.first, report.last
        yield f"  from {first.sequence} of {first.time} to {last.sequence} of {last.time}"
    if report.first and report.first.sequence > 1:
        gone = report.first.sequence - 1
        yield f"  what came before, to {gone}, was removed; a checkpoint stands for it"
    if report.removed:
        files = format_count(report.removed, "file", "was", "were")
        yield f"  {files} removed by retention meanwhile"


def _keys(report: VerifyReport) -> Iterator[str]:
    yield f"keys trusted: {report.keys_from}" + _trust_remark(report)
    for use in report.verified:
        yield f"  {format_count(use.checkpoints, 'checkpoint')} verified, {_use(use)}"
    for use in report.unknown:
        yield f"  {format_count(use.checkpoints, 'checkpoint')} NOT verified, {_use(use)}"
    if report.unknown:
        yield "  if the key was changed then, add the other public key with --key"


def _trust_remark(report: VerifyReport) -> str:
    """Say that a key beside the journal proves little: who can change one can change both."""
    return "" if report.keys_from == "--key" else " (who can change the journal can change it too)"


def _use(use: KeyUse) -> str:
    where = f"records {use.first} to {use.last}" if use.last > use.first else f"record {use.first}"
    return f"in {where}, signed by {use.key}"


def _pinned_checkpoint(report: VerifyReport) -> Iterator[str]:
    kept = report.kept
    if kept is None:
        return
    signed = f"signed by {kept.key}" if kept.key else "no signature of a trusted key"
    agreement = {True: "agrees", False: "does NOT agree", None: "was not compared"}[kept.agrees]
    yield (
        f"kept checkpoint ({format_count(kept.size, 'record')}, {kept.root[:12]}, "
        f"{signed}): {agreement}"
    )


def _unproven(report: VerifyReport) -> Iterator[str]:
    if report.torn:
        torn = report.torn
        yield (
            f"a torn last line, or one being written: {format_count(torn.bytes, 'byte')} in "
            f"{torn.file}"
            f" at byte {torn.offset}; it is not a record"
        )
    if report.bad is None and report.last and report.unsigned:
        first, last = report.signed_to + 1, report.last.sequence
        span = f"{first} to {last}" if last > first else f"the last, {last}"
        yield f"not covered by a signature yet: {format_count(report.unsigned, 'record')}, {span}"
    if report.bad is None and report.kept is None:
        yield "without a kept checkpoint this cannot show whether the end was cut off"
