"""The floor of a scrape: the same numbers by the official client library, in a server of aiohttp.

It renders everything in one turn of the event loop, as such programs do.
"""

import argparse

import anyio
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response
from aiohttp.web_runner import ServerRunner, TCPSite
from aiohttp.web_server import Server
from prometheus_client import (
    CollectorRegistry,
    Counter,
    disable_created_metrics,
    generate_latest,
)

from bench.measure.commands import serve_commands
from bench.measure.scraping import PLUGIN, labels, scrape

_LABELS = ("namespace", "node", "profile", "result", "strategy")


def _registry(series: int) -> CollectorRegistry:
    disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotations
    registry = CollectorRegistry(auto_describe=False)
    counter = Counter("evicted", "Evictions.", _LABELS, registry=registry)
    for number in range(series):
        counter.labels(*labels(number), "bench", "success", PLUGIN).inc()
    return registry


async def _run(series: int) -> None:
    registry = _registry(series)

    async def answer(_: BaseRequest) -> Response:
        return Response(body=generate_latest(registry), content_type="text/plain")

    runner = ServerRunner(Server(answer))
    await runner.setup()
    site = TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        await serve_commands(
            {}, {"scrape": lambda: scrape(f"http://127.0.0.1:{port}", "evicted_total")}
        )
    finally:
        await runner.cleanup()


def main() -> None:
    """Read from the command line how many series there are."""
    parser = argparse.ArgumentParser(prog="bench.floor.metrics")
    parser.add_argument("--series", type=int, required=True)
    anyio.run(_run, parser.parse_args().series)


if __name__ == "__main__":
    main()
