"""Measures the floor of one figure after the other, as `bench.measure` does the controller's."""

import argparse
import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import anyio
import msgspec
from msgspec import Struct
from msgspec.json import Decoder

from bench.floor.bare import open_bare_watch
from bench.floor.kinds import PODS, WIRE_TYPES, Kept
from bench.floor.pods import PodEvent, PodSharing, PodStore
from bench.floor.requests import ChainedFile, RequestFloor
from bench.measure.commands import serve_commands
from bench.measure.director import Director, open_director
from bench.measure.machine import Stopwatch, peak_rss_bytes, rss_bytes
from bench.measure.numbers import Quantiles

_PAGE_SIZE = 500
_IDENTITY = {"Accept-Encoding": "identity"}
_THREAD = "recorded-requests-in-thread"
_REQUESTS = ("requests", "recorded-requests", _THREAD)
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)


class _ListMetadata(Struct):
    resource_version: str = msgspec.field(name="resourceVersion")
    continue_token: str = msgspec.field(name="continue", default="")


class _Head(Struct):
    metadata: _ListMetadata


class Floor:
    """The least program that lists the cluster and watches its pods."""

    def __init__(self, director: Director, url: str) -> None:
        self._director, self._http, self._url = director, director.http, url
        self._sharing, self._store, self._kept = PodSharing(), PodStore(), Kept()
        self._decode = Decoder(PodEvent).decode
        self._version, self._events = "", 0
        self._target, self._reached = -1, asyncio.Event()

    async def sync(self) -> dict[str, float]:
        """List everything, share what is equal, and keep it; return what that cost."""
        gc.disable()
        before, watch = rss_bytes(), Stopwatch()
        for path, wire in WIRE_TYPES.items():
            await self._list(path, wire)
        cpu_s, wall_s = watch.cpu_s, watch.wall_s
        gc.freeze()
        gc.enable()
        pods = len(self._store.pods)
        return {
            "pods": pods,
            "cpu_s": round(cpu_s, 3),
            "wall_s": round(wall_s, 3),
            "us_per_pod": round(cpu_s / pods * 1e6, 1),
            "rss_mb": round(rss_bytes() / 1e6, 1),
            "peak_rss_mb": round(peak_rss_bytes() / 1e6, 1),
            "bytes_per_pod": round((rss_bytes() - before) / pods),
        }

    async def _list(self, path: str, wire: type[object]) -> None:
        decode = Decoder(msgspec.defstruct("Page", [("items", list[wire])], gc=False)).decode  # type: ignore[valid-type]  # a type held in a variable
        read_head, token = Decoder(_Head).decode, ""
        record, upsert, keep = self._sharing.record, self._store.upsert, self._kept.keep
        while True:
            page = f"{self._url}{path}?limit={_PAGE_SIZE}{token and '&continue=' + token}"
            async with self._http.get(page, headers=_IDENTITY) as reply:
                body = await reply.read()
            items = decode(body).items  # type: ignore[attr-defined]  # defined above
            if path == PODS:
                for item in items:
                    upsert(record(item))
            else:
                for item in items:
                    keep(path, item)
            metadata = read_head(body[: body.index(b'"items":[') + 9] + b"]}").metadata
            if not (token := metadata.continue_token):
                self._version = metadata.resource_version if path == PODS else self._version
                return

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch the pods while the block runs."""
        opened = asyncio.Event()
        task = asyncio.create_task(self._watch(opened))
        try:
            await opened.wait()
            yield
        finally:
            task.cancel()

    @asynccontextmanager
    async def watching_bare(self, ca: str) -> AsyncIterator[None]:
        """Watch the pods while the block runs, without an HTTP library."""
        watch = await open_bare_watch(self._url, self._watch_path, ca, self._apply)
        try:
            yield
        finally:
            watch.close()

    @property
    def _watch_path(self) -> str:
        return f"{PODS}?watch=true&resourceVersion={self._version}"

    async def _watch(self, opened: asyncio.Event) -> None:
        url, apply = self._url + self._watch_path, self._apply
        async with self._http.get(url, headers=_IDENTITY, timeout=_NO_TIMEOUT) as reply:
            opened.set()
            readline = reply.content.readline
            while line := await readline():
                apply(line)

    def _apply(self, line: bytes | memoryview) -> None:
        event = self._decode(line)
        if event.type == "DELETED":
            self._store.remove(event.object.metadata.uid)
        else:
            self._store.upsert(self._sharing.record(event.object))
        self._events += 1
        if self._events == self._target:
            self._reached.set()

    async def events(self, script: str, count: int) -> Quantiles:
        """Read the next events of a script as fast as they come; return what each cost."""
        prepared = await self._director.prepare(script, count)
        self._target, self._reached = self._events + prepared, asyncio.Event()
        watch = Stopwatch()
        await self._director.play()
        await self._reached.wait()
        return watch.per_event(prepared)


async def _run(url: str, ca: str, shape: str, journal: Path | None) -> None:
    async with open_director(url, ca) as director:
        if shape in _REQUESTS:
            record = None
            if journal is not None:
                file = ChainedFile(journal)
                record = file.write_in_thread if shape == _THREAD else file.write_here
            evicting = RequestFloor(director, url, record)
            async with evicting.watching():
                await serve_commands({}, {"react": evicting.react})
        else:
            floor = Floor(director, url)
            started = await floor.sync()
            async with floor.watching_bare(ca) if shape == "bare" else floor.watching():
                await serve_commands(started, {"events": floor.events})


def main() -> None:
    """Read from the command line where the load server is."""
    parser = argparse.ArgumentParser(prog="bench.floor")
    parser.add_argument("--url", required=True)
    parser.add_argument("--ca", required=True)
    parser.add_argument(
        "--shape",
        choices=("whole", "bare", *_REQUESTS),
        default="whole",
        help="bare watches without an HTTP library; requests keeps nothing and only evicts;"
        " recorded-requests writes to the journal first, in the loop or in a thread",
    )
    parser.add_argument("--journal", type=Path, help="the file of recorded requests")
    parser.add_argument("--uvloop", action="store_true", help="use uvloop, as the controller does")
    args = parser.parse_args()
    options = {"use_uvloop": args.uvloop}
    anyio.run(_run, args.url, args.ca, args.shape, args.journal, backend_options=options)


if __name__ == "__main__":
    main()
