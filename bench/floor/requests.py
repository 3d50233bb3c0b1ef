"""What the machine and the transport cost by themselves: a client that evicts without thinking.

It reads the same watch over the same TLS with the same library and asks for an eviction as soon
as a line names a pod. What the application adds is its own; what this shows is the machine's.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import anyio
from msgspec import Struct
from msgspec.json import Decoder

from bench.measure.director import Director
from bench.measure.machine import Stopwatch

_PODS = "/api/v1/pods"
_BODY = b'{"apiVersion":"policy/v1","kind":"Eviction"}'
_IDENTITY = {"Accept-Encoding": "identity"}
_TIMEOUT_S = 10.0


class _Metadata(Struct):
    name: str
    namespace: str


class _Object(Struct):
    metadata: _Metadata


class _Line(Struct):
    type: str
    object: _Object


_DECODE = Decoder(_Line).decode


class RequestFloor:
    """A client that evicts every pod that its watch names, until `watching` ends."""

    def __init__(self, director: Director, url: str) -> None:
        self._director, self._url = director, url

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Evict while the block runs."""
        async with anyio.create_task_group() as group:
            opened = anyio.Event()
            group.start_soon(_evict_all, self._director.http, self._url, opened)
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


async def _evict_all(http: aiohttp.ClientSession, url: str, opened: anyio.Event) -> None:
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
            task = asyncio.create_task(_evict(http, path))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


async def _evict(http: aiohttp.ClientSession, path: str) -> None:
    async with http.post(path, data=_BODY) as reply:
        await reply.read()
