"""What a scrape of /metrics costs: the event loop's hold and CPU, and the scraper's time."""

import time
from http.client import HTTPConnection
from statistics import median
from urllib.parse import urlsplit

import anyio.to_thread

from bench.measure.loop import watch_loop_turns

PLUGIN = "RemovePodsViolatingNodeTaints"
_ROUNDS = 9
Results = dict[str, object]


def labels(number: int) -> tuple[str, str]:
    """Return the namespace and the node of a series, as a cluster has them."""
    node = f"ip-10-0-{number // 256}-{number % 256}.eu-west-1.compute.internal"
    return f"team-{number % 200}", node


async def scrape(url: str, what: str) -> Results:
    """Scrape the server of this process from another thread, again and again.

    `series` is how many there are of the name `what`. The longest hold of each round counts, and of
    all rounds the middle one; its CPU is that of all turns of the loop together. Only asyncio's own
    loop lets its turns be timed.
    """
    holds_ms, cpu_ms, took_ms, series = [], [], [], 0
    for _ in range(_ROUNDS):
        with watch_loop_turns() as turns:
            ms, text = await anyio.to_thread.run_sync(_get, url)
        holds_ms.append(turns.longest_ns / 1e6)
        cpu_ms.append(turns.busy_ns / 1e6)
        took_ms.append(ms)
        series = sum(line.startswith(f"{what}{{".encode()) for line in text.splitlines())
    return {
        "series": series,
        "bytes": len(text),
        "hold_ms": round(median(holds_ms), 3),
        "longest_hold_ms": round(max(holds_ms), 3),
        "loop_cpu_ms": round(median(cpu_ms), 2),
        "scrape_ms": round(median(took_ms), 2),
    }


def _get(url: str) -> tuple[float, bytes]:
    """Return how many milliseconds an answer took, and the answer."""
    address = urlsplit(url)
    assert address.hostname is not None
    connection, began = HTTPConnection(address.hostname, address.port), time.perf_counter()
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read()
    finally:
        connection.close()
    return (time.perf_counter() - began) * 1e3, text
