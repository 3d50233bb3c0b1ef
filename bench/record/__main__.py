"""Runs one programme of measurements in this process; prints what it found as one line of JSON."""

import argparse
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from bench.measure.sampling import sampling
from bench.record import auditing, kafka, readers, streaming, writing
from bench.record.task import Found, Task

IN_A_LOOP: dict[str, Callable[[Task], Awaitable[Found]]] = {
    "alone": writing.alone,
    "followed": writing.followed,
    "paced": writing.paced,
    "relayed": kafka.relayed,
    "streamed": streaming.streamed,
    "streamed-apart": streaming.streamed_apart,
    "read": readers.read,
    "read-apart": readers.read_apart,
}
PLAIN: dict[str, Callable[[Task], Found]] = {
    "verified": auditing.verified,
    "indexed": auditing.indexed,
    "queried": auditing.queried,
    "compressed": auditing.compressed,
    "mock": kafka.mock,
}


def main() -> None:
    """Read what to measure from the command line."""
    parser = argparse.ArgumentParser(prog="bench.record")
    parser.add_argument("programme", choices=[*IN_A_LOOP, *PLAIN])
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
    with sampling(wanted=profile):
        found = _run(programme, Task(**args | {"topics": tuple(args["topics"])}))
    sys.stdout.write(json.dumps(found) + "\n")


def _run(programme: str, task: Task) -> Found:
    if programme in PLAIN:
        return PLAIN[programme](task)
    return anyio.run(IN_A_LOOP[programme], task)


if __name__ == "__main__":
    main()
