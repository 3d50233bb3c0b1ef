"""What the machine and the transport cost by themselves: a client that evicts without thinking.

It reads the same watch over the same TLS with the same library and asks for an eviction as soon
as a line names a pod. What the application adds is its own; what this shows is the machine's.
"""

import asyncio

import aiohttp
import anyio
from msgspec import Struct
from msgspec.json import Decoder

from bench.measure.director import Director, open_director
from bench.measure.numbers import Quantiles, quantiles
from bench.measure.target import Target

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
    object: _Object


_DECODE = Decoder(_Line).decode


async def floors(target: Target, count: int, paces: tuple[int, ...]) -> dict[str, Quantiles]:
    """Return the time from an event to its eviction request, in microseconds, at each pace."""
    results: dict[str, Quantiles] = {}
    async with open_director(target.url, target.ca) as director, anyio.create_task_group() as group:
        group.start_soon(_evict_all, director.http, target.url)
        await anyio.sleep(0.5)  # the watch opens
        await _measure_once(director, paces[0], min(count, 100))
        for pace in paces:
            results[f"pods_{pace}"] = await _measure_once(director, pace, count)
        group.cancel_scope.cancel()
    return results


async def _measure_once(director: Director, pace: int, count: int) -> Quantiles:
    expected = await director.prepare("bound", count)
    await director.play(pace)
    stamps = await director.wait_for_evictions(expected, _TIMEOUT_S)
    return quantiles(
        [(at - stamps.sent[pod]) / 1e3 for pod, at in stamps.evictions if pod in stamps.sent]
    )


async def _evict_all(http: aiohttp.ClientSession, url: str) -> None:
    """Ask for the eviction of every pod that the watch names, each in a task of its own."""
    tasks: set[asyncio.Task[None]] = set()
    timeout = aiohttp.ClientTimeout(total=None)
    async with http.get(f"{url}{_PODS}?watch=true", headers=_IDENTITY, timeout=timeout) as watch:
        while line := await watch.content.readline():
            pod = _DECODE(line).object.metadata
            path = f"{url}/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
            task = asyncio.create_task(_evict(http, path))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


async def _evict(http: aiohttp.ClientSession, path: str) -> None:
    async with http.post(path, data=_BODY) as reply:
        await reply.read()
