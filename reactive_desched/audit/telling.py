"""The report of `audit verify` for a person to read."""

from collections.abc import Iterator

from reactive_desched.audit.findings import Bad, KeyUse, Report


def lines_of(report: Report) -> Iterator[str]:
    """Yield the lines of the report: the verdict, what was read, who vouches for it, what not."""
    yield from _verdict(report)
    yield from _extent(report)
    yield from _keys(report)
    yield from _kept(report)
    yield from _left_open(report)


def _verdict(report: Report) -> Iterator[str]:
    if report.bad is None:
        yield f"whole: {report.journal}"
        return
    yield f"BAD: {report.journal}"
    yield from _bad(report.bad)


def _bad(bad: Bad) -> Iterator[str]:
    where = f"{bad.file} at byte {bad.offset}" if bad.file else "no file"
    written = f", written {bad.time}" if bad.time else ""
    yield f"  first bad record: {bad.sequence} ({where}{written})"
    yield f"  {bad.reason}"
    if bad.suspects:
        yield f"  changed is one of the records {bad.suspects.first} to {bad.suspects.last}"


def _extent(report: Report) -> Iterator[str]:
    packed = f", {report.compressed} of them compressed" if report.compressed else ""
    before = " before it" if report.bad else ""
    yield f"{_count(report.records)} in {report.segments} files{packed}{before}"
    if report.first and report.last:
        first, last = report.first, report.last
        yield f"  from {first.sequence} of {first.time} to {last.sequence} of {last.time}"
    if report.first and report.first.sequence > 1:
        gone = report.first.sequence - 1
        yield f"  what came before, to {gone}, was removed; a checkpoint stands for it"
    if report.removed:
        yield f"  {report.removed} files were removed by retention meanwhile"


def _keys(report: Report) -> Iterator[str]:
    yield f"keys trusted: {report.keys_from}" + _own_word(report)
    for use in report.verified:
        yield f"  {use.checkpoints} checkpoints verified, {_use(use)}"
    for use in report.unknown:
        yield f"  {use.checkpoints} checkpoints NOT verified, {_use(use)}"
    if report.unknown:
        yield "  if the key was changed then, add the other public key with --key"


def _own_word(report: Report) -> str:
    """Say what a key is worth that lies where the journal does."""
    return "" if report.keys_from == "--key" else " (who can change the journal can change it too)"


def _use(use: KeyUse) -> str:
    return f"in records {use.first} to {use.last}, signed by {use.key}"


def _kept(report: Report) -> Iterator[str]:
    kept = report.kept
    if kept is None:
        return
    signed = f"signed by {kept.key}" if kept.key else "no signature of a trusted key"
    verdict = {True: "agrees", False: "does NOT agree", None: "was not compared"}[kept.agrees]
    yield f"kept checkpoint ({_count(kept.size)}, {kept.root[:12]}, {signed}): {verdict}"


def _count(records: int) -> str:
    return "1 record" if records == 1 else f"{records} records"


def _left_open(report: Report) -> Iterator[str]:
    if report.torn:
        torn = report.torn
        yield (
            f"a torn last line, or one being written: {torn.bytes} bytes in {torn.file} at byte"
            f" {torn.offset}; it is no record"
        )
    if report.bad is None and report.last and report.unsigned:
        first, last = report.signed_to + 1, report.last.sequence
        yield f"not covered by a signature yet: {_count(report.unsigned)}, {first} to {last}"
    if report.bad is None and report.kept is None:
        yield "without a kept checkpoint nobody can tell whether the end was cut off"
