"""What the machine and the transport cost by themselves: a client that evicts without thinking.

It reads the same watch over the same TLS with the same library and asks for an eviction as soon
as a line names a pod. What the application adds is its own; what this shows is the machine's.
With a `ChainedFile` it also writes why before it evicts: the least that a durable record costs.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import anyio
import msgspec
from msgspec import Raw, Struct
from msgspec.json import Decoder

from bench.measure.director import Director
from bench.measure.machine import Stopwatch

_PODS = "/api/v1/pods"
_BODY = b'{"apiVersion":"policy/v1","kind":"Eviction"}'
_IDENTITY = {"Accept-Encoding": "identity"}
_TIMEOUT_S = 10.0


_RECORDS = ("finding", "decision", "request")
_NO_LIST, _NO_OBJECT = Raw(b"[]"), Raw(b"{}")


class _Metadata(Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    labels: Raw = _NO_OBJECT
    owner_references: Raw = _NO_LIST


class _Object(Struct):
    metadata: _Metadata


class _Line(Struct):
    type: str
    object: _Object


_DECODE = Decoder(_Line).decode
_Record = Callable[[_Metadata], Awaitable[None]]


class ChainedFile:
    """A file of JSON lines, each with the SHA-256 of the one before; every write is synced."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_DSYNC
        self._descriptor = os.open(path, flags, 0o600)
        self._encode = msgspec.json.Encoder().encode
        self._previous, self._number = "0" * 64, 0
        self._thread = ThreadPoolExecutor(1)

    def write(self, pod: _Metadata) -> None:
        """Write a pod's finding, decision and request in one synced write."""
        now, lines = datetime.now(UTC).isoformat(), list[bytes]()
        for kind in _RECORDS:
            self._number += 1
            line = self._encode(
                {
                    "prev": self._previous,
                    "sequence": self._number,
                    "time": now,
                    "type": kind,
                    "pod": pod,
                }
            )
            self._previous = hashlib.sha256(line).hexdigest()
            lines += line, b"\n"
        os.write(self._descriptor, b"".join(lines))

    async def write_here(self, pod: _Metadata) -> None:
        """Write in the event loop."""
        self.write(pod)

    async def write_in_thread(self, pod: _Metadata) -> None:
        """Write in a thread, as a program must whose disk may be slow."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self.write, pod)


class RequestFloor:
    """A client that evicts every pod that its watch names, until `watching` ends.

    With `record`, that is awaited before each request.
    """

    def __init__(self, director: Director, url: str, record: _Record | None = None) -> None:
        self._director, self._url, self._record = director, url, record

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Evict while the block runs."""
        async with anyio.create_task_group() as group:
            opened = anyio.Event()
            group.start_soon(_evict_all, self._director.http, self._url, self._record, opened)
            await opened.wait()
            yield
            group.cancel_scope.cancel()

    async def react(self, script: str, pace: float, count: int) -> dict[str, object]:
        """Return the time from an event to its eviction request, in microseconds, at a pace."""
        expected = await self._director.prepare(script, count)
        await self._director.play(pace)
        watch = Stopwatch()
        server = await self._director.wait_for_evictions(expected, _TIMEOUT_S)
        cpu_us = watch.cpu_s / max(1, expected) * 1e6
        await self._director.delete_evicted()
        evicted = len(dict(server.evictions))
        return {
            "expected": expected,
            "evicted": evicted,
            "cpu_us_per_change": round(cpu_us, 1),
        } | server.reactions()


async def _evict_all(
    http: aiohttp.ClientSession, url: str, record: _Record | None, opened: anyio.Event
) -> None:
    """Ask for the eviction of every pod that the watch names, each in a task of its own."""
    tasks: set[asyncio.Task[None]] = set()
    timeout = aiohttp.ClientTimeout(total=None)
    async with http.get(f"{url}{_PODS}?watch=true", headers=_IDENTITY, timeout=timeout) as watch:
        opened.set()
        while line := await watch.content.readline():
            event = _DECODE(line)
            if event.type == "DELETED":
                continue
            pod = event.object.metadata
            path = f"{url}/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
            task = asyncio.create_task(_evict(http, path, record, pod))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


async def _evict(
    http: aiohttp.ClientSession, path: str, record: _Record | None, pod: _Metadata
) -> None:
    if record is not None:
        await record(pod)
    async with http.post(path, data=_BODY) as reply:
        await reply.read()
