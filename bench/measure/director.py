"""Asks the load server to send events to the process under test, over a connection of its own."""

import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from bench.measure.numbers import quantiles

_READ_BUFFER = 1 << 21


class ServerStamps(msgspec.Struct):
    """What the server has stamped since it prepared; nanoseconds of the monotonic clock.

    `late` counts the evictions of pods that an earlier script sent; they are in no other figure.
    `overdue` are such pods whose evictions have not come.
    """

    sent: dict[str, int]
    evictions: list[tuple[str, int]]
    late: int
    overdue: tuple[str, ...]

    def reactions(self) -> dict[str, object]:
        """Return how long each change took to its eviction request, and both rates."""
        first = dict(reversed(self.evictions))
        return {
            "sent_per_s": _rate(self.sent.values()),
            "requests_per_s": _rate(first.values()),
            "change_to_request_us": quantiles(
                [(at - self.sent[pod]) / 1e3 for pod, at in first.items()]
            ),
        }


def _rate(stamps_ns: Iterable[int]) -> float:
    """Return how many there were each second, from the first to the last."""
    ordered = sorted(stamps_ns)
    took_ns = ordered[-1] - ordered[0] if ordered else 0
    return round((len(ordered) - 1) / took_ns * 1e9, 1) if took_ns else 0.0


class Director:
    """The load server's control side."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http, self._url = http, url

    async def prepare(self, script: str, count: int, slot: str = "main") -> int:
        """Have events rendered; return how many there are, at most `count`."""
        query = f"script={script}&count={count}&slot={slot}"
        return int(await self._request("POST", f"/bench/prepare?{query}"))

    async def play(self, pace: float = 0, slot: str = "main") -> None:
        """Start to send what was prepared, `pace` per second or flat out."""
        await self._request("POST", f"/bench/play?pace={pace}&slot={slot}")

    async def expire_watches(self, path: str) -> int:
        """Make the watchers of a collection list again; return how many there were."""
        return int(await self._request("POST", f"/bench/expire?path={path}"))

    async def delete_evicted(self) -> int:
        """Have every evicted pod deleted."""
        return int(await self._request("POST", "/bench/delete"))

    async def wait_for_evictions(self, evictions: int = 0, within_s: float = 0) -> ServerStamps:
        """Wait until all is sent and so many evictions came, or for so long; return the stamps.

        The server does the waiting, so that nothing wakes the process under test meanwhile.
        """
        path = f"/stats?evictions={evictions}&within={within_s}"
        return msgspec.convert(await self._request("GET", path), ServerStamps)

    async def _request(self, method: str, path: str) -> Any:  # Any: each answer has its own shape
        async with self.http.request(method, self._url + path) as reply:
            reply.raise_for_status()
            return msgspec.json.decode(await reply.read())


@asynccontextmanager
async def open_director(url: str, ca: str) -> AsyncIterator[Director]:
    """Hold the control connection until the block ends."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca))
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, read_bufsize=_READ_BUFFER
    ) as http:
        yield Director(http, url)
