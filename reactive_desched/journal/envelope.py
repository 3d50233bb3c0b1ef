"""Puts what happened into an envelope: the attributes every event has, computed in one place."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from reactive_desched.api.event import DATA_TYPES, Event, dataschema
from reactive_desched.journal.records import AnyEvent

_SCHEMAS: Final[Mapping[str, str]] = {type_: dataschema(type_) for type_ in DATA_TYPES}
_ID_CHARACTERS: Final = 26


class Correlation(Struct, frozen=True, gc=False):
    """The attributes that the events of one case share: id, subject and partition key."""

    id: str
    subject: str
    partition_key: str


def build_event(
    source: str,
    type_: str,
    correlation: Correlation,
    time: datetime,
    data: Any,
    *,
    id_: str,
    causation_id: str,
) -> AnyEvent:
    """Return the event; the journal adds its place when it writes it."""
    return Event(
        id=id_,
        source=source,
        specversion="1.0",
        type=type_,
        datacontenttype="application/json",
        dataschema=_SCHEMAS[type_],
        subject=correlation.subject,
        time=time,
        partitionkey=correlation.partition_key,
        correlationid=correlation.id,
        causationid=causation_id,
        traceparent=traceparent_for(correlation.id, id_),
        data=data,
    )


def journal_event(
    source: str, type_: str, last_seq: int, time: datetime, data: Any, id_suffix: str = ""
) -> AnyEvent:
    """Return an event about the journal itself, made when `last_seq` was its last record."""
    epoch, kind = journal_epoch(source), type_.split(".")[-2]
    id_ = ".".join(part for part in (epoch, kind, id_suffix, str(last_seq)) if part)
    correlation, causation_id = Correlation(epoch, "journal", epoch), f"{epoch}.record.{last_seq}"
    return build_event(source, type_, correlation, time, data, id_=id_, causation_id=causation_id)


def digest_id(*parts: str) -> str:
    """Return an id of 26 hexadecimal digits that follows from these parts alone."""
    text = "\n".join(parts).encode(errors="backslashreplace")
    return hashlib.sha256(text).hexdigest()[:_ID_CHARACTERS]


def journal_epoch(source: str) -> str:
    """Return the part of a source that names one journal's life."""
    return source.rpartition("/")[2]


def traceparent_for(correlation_id: str, id_: str) -> str:
    """Return a W3C traceparent: the case is the trace, the event its span; none is sampled."""
    span = hashlib.sha256(id_.encode()).hexdigest()[:16]
    return f"00-{_trace_id(correlation_id)}-{span}-00"


@lru_cache(maxsize=1024)
def _trace_id(correlation_id: str) -> str:
    """Return the id of a case's trace; a case has several events within milliseconds."""
    return hashlib.sha256(correlation_id.encode()).hexdigest()[:32]
