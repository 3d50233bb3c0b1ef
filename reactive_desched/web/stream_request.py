"""Reads what a client of the event stream asks for."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from aiohttp.web_request import BaseRequest
from msgspec import Struct

from reactive_desched.api.event import DATA_TYPES
from reactive_desched.errors import ConfigError
from reactive_desched.journal.start_position import (
    NOW,
    START_FORMATS_HELP,
    AfterSequence,
    Start,
    parse_id,
    parse_start,
)
from reactive_desched.journal.summary import EventFilter, check_outcomes, check_reasons, check_types

FILTERS: Final = {
    "namespace": "namespaces",
    "owner": "owners",
    "plugin": "plugins",
    "type": "types",
    "pod": "pods",
    "node": "nodes",
    "outcome": "outcomes",
    "reason": "reasons",
}
"""The keys of a query that choose events, and the field of a Filter each one fills."""

NDJSON: Final = "application/x-ndjson"
_TIMESTAMP_WITHOUT_PLUS: Final = re.compile(r"[0-9-]{10}[Tt][0-9:.]{8,18} [0-9]{2}:?[0-9]{2}")
_BOOLEANS: Final = {"": True, "true": True, "1": True, "false": False, "0": False}


class StreamRequest(Struct, frozen=True):
    """A request for events: filter, start, and whether those to come, too; `ndjson` for lines."""

    start: Start
    event_filter: EventFilter
    follow: bool
    ndjson: bool


def parse_stream_request(request: BaseRequest, now: datetime) -> StreamRequest:
    """Read a request; raises ConfigError naming what is wrong and what there is."""
    allowed = [*FILTERS, "from", "follow"]
    for key in request.query:
        if key not in allowed:
            raise ConfigError(f"{key!r} is nothing to ask for; there are {', '.join(allowed)}")
    return StreamRequest(
        _start(request, now), _filter(request), _follow(request), _wants_ndjson(request)
    )


def _start(request: BaseRequest, now: datetime) -> Start:
    """Read the start position; the header counts first: a reconnecting client sends it."""
    if last_event_id := request.headers.get("Last-Event-ID", ""):
        return parse_id(last_event_id) or AfterSequence(0, epoch=last_event_id)
    starts = request.query.getall("from", [NOW])
    if len(starts) > 1:
        raise ConfigError(f"there can be only one place to begin from: write {START_FORMATS_HELP}")
    if _TIMESTAMP_WITHOUT_PLUS.fullmatch(starts[0]):
        meant = starts[0].replace(" ", "%2B")
        raise ConfigError(f"a + in an address stands for a space: write %2B, as in from={meant}")
    return parse_start(starts[0], now)


def _filter(request: BaseRequest) -> EventFilter:
    chosen = {field: tuple(_values(request, key)) for key, field in FILTERS.items()}
    check_types(chosen["types"], tuple(DATA_TYPES))
    check_outcomes(chosen["outcomes"])
    check_reasons(chosen["reasons"])
    return EventFilter(**chosen)


def _values(request: BaseRequest, key: str) -> Iterator[str]:
    for value in request.query.getall(key, []):
        values = [item.strip() for item in value.split(",")]
        if not all(values):
            raise ConfigError(f"{key}={value} holds an empty word: leave it out")
        yield from values


def _follow(request: BaseRequest) -> bool:
    values = request.query.getall("follow", [""])
    if len(values) > 1:
        raise ConfigError("follow is given twice: write follow=true or follow=false")
    if (value := values[0]) not in _BOOLEANS:
        raise ConfigError(f"follow={value} is neither true nor false")
    return _BOOLEANS[value]


def _wants_ndjson(request: BaseRequest) -> bool:
    accepted = ",".join(request.headers.getall("Accept", []))
    return any(part.split(";")[0].strip().lower() == NDJSON for part in accepted.split(","))
