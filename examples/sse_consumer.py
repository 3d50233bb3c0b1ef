#!/usr/bin/env python3
"""Follows the event stream over HTTP for ever, and goes on where it was after every break.

Needs nothing but Python. The place is kept in a file after an event was handled; a process
that is killed in between sees that one event again, under the same id.

usage: sse_consumer.py URL PLACE-FILE, such as 'http://localhost:10258/events?from=oldest' place
"""

import http.client
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

SILENCE_S = 60  # heartbeats come four times as often: a link that is silent so long is dead


class Frame(NamedTuple):
    """One server-sent event."""

    id: str
    kind: str
    data: str


def frames(lines: Iterable[bytes]) -> Iterator[Frame]:
    """Read server-sent events; a frame that is cut off counts as nothing."""
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        if name:
            found[name] = value.removeprefix(" ")
        elif line.endswith(b"\n") and "data" in found:
            yield Frame(found.get("id", ""), found.get("event", "message"), found["data"])
            found = {}


def follow(url: str, place: Path) -> Iterator[dict[str, Any]]:
    """Yield the events behind the place that is kept, until the connection ends."""
    headers = {"Accept": "text/event-stream"}
    if place.exists():
        headers["Last-Event-ID"] = place.read_text()
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - given by who runs this
    with urllib.request.urlopen(request, timeout=SILENCE_S) as stream:  # noqa: S310 - as above
        for frame in frames(stream):
            if frame.kind == "reset":
                sys.stderr.write(f"events were missed: {frame.data}\n")
            elif frame.kind != "heartbeat":
                yield json.loads(frame.data)
            if frame.id:
                keep(place, frame.id)


def keep(place: Path, id_: str) -> None:
    """Write the place so that it is the old one or the new one, never half of it."""
    draft = place.with_suffix(".new")
    draft.write_text(id_)
    draft.replace(place)


def main(url: str, place: Path) -> None:
    """Print a line for each event, for ever."""
    while True:
        try:
            for event in follow(url, place):
                print(event["time"], event["type"], event["subject"], flush=True)  # noqa: T201 - what it is for
            why = "the server ended the stream"
        except urllib.error.HTTPError as error:
            with error:
                why = f"{error.code} {error.reason}"
        except (OSError, http.client.HTTPException) as error:
            why = str(error)
        sys.stderr.write(f"{why}: trying again\n")
        time.sleep(3)


if __name__ == "__main__":
    if len(sys.argv) != 3:  # noqa: PLR2004 - as the usage says
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]))
