"""Hands records on: as lines that can still be verified, or as a table for a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from reactive_desched.api.event import (
    DecisionMade,
    DisruptionObserved,
    EventData,
    EvictionCorrected,
    EvictionEnded,
    EvictionFollowedUp,
    EvictionRequested,
    MigrationCarriedOut,
    PodData,
    Who,
)
from reactive_desched.audit.catalogue import IndexCatalogue, filter_records
from reactive_desched.audit.event_lines import describe_event
from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.errors import JournalError
from reactive_desched.journal.atomic_files import TEMP_SUFFIX
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import AnyEvent, JournalRecord
from reactive_desched.journal.summary import parse_summary
from reactive_desched.model.event_types import short_type
from reactive_desched.primitives.bounded_text import printable
from reactive_desched.text.times import format_timestamp

COLUMNS: Final = (
    "sequence",
    "time",
    "recordedtime",
    "event",
    "namespace",
    "pod",
    "pod_uid",
    "node",
    "zone",
    "owners",
    "plugin",
    "profile",
    "mode",
    "finding",
    "numbers",
    "trigger",
    "trigger_object",
    "trigger_resource_version",
    "policy_revision",
    "verdict",
    "gate",
    "attempt",
    "result",
    "reason",
    "message",
    "took_ms",
    "case",
    "id",
    "cause",
    "summary",
)
"""The columns of the table, in order."""

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that begins like this for a formula."""


def matching_records(catalogue: IndexCatalogue, query: RecordQuery) -> Iterator[JournalRecord]:
    """Yield the wanted records in order, however many."""
    found = catalogue.iter_matching(query)
    return found if query.matches_all else filter_records(found, query)


def as_jsonl(entries: Iterable[JournalRecord]) -> Iterator[bytes]:
    """Yield the lines as they are in the journal."""
    for entry in entries:
        yield entry.raw + b"\n"


def as_csv(entries: Iterable[JournalRecord]) -> Iterator[bytes]:
    """Yield the table as RFC 4180 has it, in UTF-8, headings first.

    Cells that a spreadsheet would compute get a ' in front.
    """
    buffer = io.StringIO(newline="")
    write = csv.writer(buffer, lineterminator="\r\n").writerow
    write(COLUMNS)
    for entry in entries:
        seen = parse_summary(entry.raw)
        found = decode_event(seen.type, entry.raw) if seen else None
        if found is not None:
            row = _row(found)
            write([_escape_formula(row.get(column, "")) for column in COLUMNS])
        yield buffer.getvalue().encode(errors="replace")
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode(errors="replace")


def _escape_formula(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _row(found: AnyEvent) -> dict[str, str]:
    row = {
        "sequence": found.sequence.lstrip("0"),
        "time": format_timestamp(found.time),
        "recordedtime": found.recordedtime,
        "event": short_type(found.type),
        "case": found.correlationid,
        "id": found.id,
        "cause": found.causationid,
        "summary": describe_event(found),
    }
    if isinstance(found.data, EventData) and (pod := found.data.pod) is not None:
        row |= _pod_columns(pod) | _own_columns(found.data)
    if isinstance(found.data, PodData):
        row |= _finding_columns(found.data) | _decision_columns(found.data)
    return row


def _pod_columns(who: Who) -> dict[str, str]:
    return {
        "namespace": who.namespace,
        "pod": who.name,
        "pod_uid": who.uid,
        "node": who.node,
        "zone": who.zone,
        "owners": " ".join(f"{one.kind}/{one.name}" for one in who.owners),
    }


def _own_columns(data: object) -> dict[str, str]:
    """Return the columns of events about a pod of which there is no finding."""
    match data:
        case DisruptionObserved(cause=cause, message=message):
            return {"reason": cause, "message": message}
        case MigrationCarriedOut(result=result, job_reason=reason):
            message = printable(data.describe())
            return {"result": result, "reason": reason, "message": message}
        case _:
            return {}


def _finding_columns(data: PodData) -> dict[str, str]:
    why, trigger = data.why, data.trigger
    return {
        "plugin": why.plugin,
        "profile": why.profile,
        "mode": data.mode,
        "finding": why.message,
        "numbers": " ".join(f"{name}={value}" for name, value in why.numbers.items()),
        "trigger": trigger.change,
        "trigger_object": trigger.object,
        "trigger_resource_version": trigger.resource_version,
        "policy_revision": why.policy_revision,
    }


def _decision_columns(data: PodData) -> dict[str, str]:
    match data:
        case DecisionMade(decision=said):
            return {
                "verdict": said.verdict,
                "gate": said.gate,
                "reason": said.reason,
                "message": said.message,
            }
        case EvictionRequested(attempt=attempt):
            return {"attempt": str(attempt)}
        case EvictionEnded(attempt=attempt, outcome=outcome):
            took = "" if outcome.took_ms is None else str(outcome.took_ms)
            return {
                "attempt": str(attempt),
                "result": outcome.result,
                "reason": outcome.reason,
                "message": outcome.message,
                "took_ms": took,
            }
        case EvictionCorrected(attempt=attempt, outcome=outcome):
            return {
                "attempt": str(attempt),
                "result": outcome.result,
                "reason": outcome.reason,
                "message": outcome.message,
            }
        case EvictionFollowedUp(attempt=attempt, follow_up=followed):
            took = "" if followed.ready_ms is None else str(followed.ready_ms)
            return {
                "attempt": str(attempt),
                "result": followed.result,
                "message": printable(followed.describe()),
                "took_ms": took,
            }
        case _:
            return {}


class RecordCounter:
    """Counts what passes by."""

    def __init__(self) -> None:
        self.count = 0

    def count_through(self, entries: Iterable[JournalRecord]) -> Iterator[JournalRecord]:
        """Yield the records."""
        for entry in entries:
            self.count += 1
            yield entry


def write_file(parts: Iterable[bytes], path: Path) -> None:
    """Write a file that is there only when it is whole; raises JournalError."""
    unfinished = path.with_name(path.name + TEMP_SUFFIX)
    try:
        with unfinished.open("wb") as file:
            file.writelines(parts)
        unfinished.replace(path)
    except OSError as error:
        raise JournalError(f"{path}: cannot write it: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
