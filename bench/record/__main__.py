"""Runs one programme of measurements in this process; prints what it found as one line of JSON."""

import argparse
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from bench.measure.sampling import sampling
from bench.record import auditing, kafka, readers, streaming, writing
from bench.record.task import Results, Task

ASYNC_PROGRAMMES: dict[str, Callable[[Task], Awaitable[Results]]] = {
    "alone": writing.write_speed_alone,
    "followed": writing.write_speed_followed,
    "paced": writing.paced_write_latency,
    "relayed": kafka.relay_speed,
    "streamed": streaming.stream_speed,
    "streamed-apart": streaming.stream_speed_filtered,
    "read": readers.read,
    "read-apart": readers.read_apart,
}
SYNC_PROGRAMMES: dict[str, Callable[[Task], Results]] = {
    "verified": auditing.verify_speed,
    "indexed": auditing.index_speed,
    "queried": auditing.query_speed,
    "compressed": auditing.compression_speed,
    "mock": kafka.run_mock_cluster,
}


def main() -> None:
    """Read what to measure from the command line."""
    parser = argparse.ArgumentParser(prog="bench.record")
    parser.add_argument("programme", choices=[*ASYNC_PROGRAMMES, *SYNC_PROGRAMMES])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--address", default="")
    parser.add_argument("--topics", nargs="*", default=[])
    parser.add_argument("--silent", type=int, default=0)
    parser.add_argument("--profile", action="store_true", help="sample the main thread")
    args = vars(parser.parse_args())
    programme, profile = args.pop("programme"), args.pop("profile")
    with sampling(phase=profile):
        results = run(programme, Task(**args | {"topics": tuple(args["topics"])}))
    sys.stdout.write(json.dumps(results) + "\n")


def run(programme: str, task: Task) -> Results:
    """Run one programme in this process; return what it found."""
    if programme in SYNC_PROGRAMMES:
        return SYNC_PROGRAMMES[programme](task)
    return anyio.run(ASYNC_PROGRAMMES[programme], task)


if __name__ == "__main__":
    main()
