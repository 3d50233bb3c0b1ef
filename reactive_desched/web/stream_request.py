"""What a client of the event stream asks for, read from its request."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from aiohttp import web
from msgspec import Struct

from reactive_desched.api.event import DATA
from reactive_desched.errors import ConfigError
from reactive_desched.journal.start_position import HOW, NOW, After, Start, parse_id, parse_start
from reactive_desched.journal.summary import Filter, check_types

FILTERS: Final = {
    "namespace": "namespaces",
    "owner": "owners",
    "plugin": "plugins",
    "type": "types",
    "pod": "pods",
    "node": "nodes",
    "outcome": "outcomes",
}
"""The keys of a query that choose events, and the field of a Filter each one fills."""

NDJSON: Final = "application/x-ndjson"
_LOST_PLUS: Final = re.compile(r"[0-9-]{10}[Tt][0-9:.]{8,18} [0-9]{2}:?[0-9]{2}")
_SWITCH: Final = {"": True, "true": True, "1": True, "false": False, "0": False}


class Asked(Struct, frozen=True):
    """Which events, from where on, and whether also those to come; `lines` asks for NDJSON."""

    start: Start
    filter: Filter
    follow: bool
    lines: bool


def asked(request: web.Request, now: datetime) -> Asked:
    """Read a request; raises ConfigError naming what is wrong and what there is."""
    known = [*FILTERS, "from", "follow"]
    for key in request.query:
        if key not in known:
            raise ConfigError(f"{key!r} is nothing to ask for; there are {', '.join(known)}")
    return Asked(_start(request, now), _filter(request), _follow(request), _wants_lines(request))


def _start(request: web.Request, now: datetime) -> Start:
    """Read the place; a header comes from a reconnecting client, and so knows better."""
    if seen := request.headers.get("Last-Event-ID", ""):
        return parse_id(seen) or After(0, epoch=seen)
    places = request.query.getall("from", [NOW])
    if len(places) > 1:
        raise ConfigError(f"there can be only one place to begin from: write {HOW}")
    if _LOST_PLUS.fullmatch(places[0]):
        meant = places[0].replace(" ", "%2B")
        raise ConfigError(f"a + in an address stands for a space: write %2B, as in from={meant}")
    return parse_start(places[0], now)


def _filter(request: web.Request) -> Filter:
    chosen = {field: tuple(_words(request, key)) for key, field in FILTERS.items()}
    check_types(chosen["types"], tuple(DATA))
    return Filter(**chosen)


def _words(request: web.Request, key: str) -> Iterator[str]:
    for value in request.query.getall(key, []):
        words = [word.strip() for word in value.split(",")]
        if not all(words):
            raise ConfigError(f"{key}={value} holds an empty word: leave it out")
        yield from words


def _follow(request: web.Request) -> bool:
    value = request.query.get("follow", "")
    if value not in _SWITCH:
        raise ConfigError(f"follow={value} is neither true nor false")
    return _SWITCH[value]


def _wants_lines(request: web.Request) -> bool:
    accepted = ",".join(request.headers.getall("Accept", []))
    return any(part.split(";")[0].strip().lower() == NDJSON for part in accepted.split(","))
