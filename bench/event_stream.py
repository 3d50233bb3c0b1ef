"""200 clients of the event stream, 20 of which do not read: `python -m bench.event_stream`.

Prints how late the server's event loop ran its timers, and what became of the clients, as JSON.
"""

import argparse
import asyncio
import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import anyio

from reactive_desched.journal.records import Entry
from reactive_desched.journal.tail import Tail
from reactive_desched.model.addresses import Listen
from reactive_desched.testing.journals import SOURCE, some_events, write_journal
from reactive_desched.web.event_stream import EventStream, StreamLimits
from reactive_desched.web.health import Health
from reactive_desched.web.server import serve

_TICK_S = 0.005
_COMMIT_S = 0.01
_READ_BYTES = 1 << 18
_STALLED_AFTER_S = 5.0


class _Quiet:
    """Writes no log."""

    def info(self, event: str, **values: Any) -> None:  # Any: as a logger takes them
        """Write nothing."""

    warning = info


class _TimedLoop(asyncio.SelectorEventLoop):
    """Notes the CPU time of each of its turns, whatever else the machine does."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[float] = []

    def _run_once(self) -> None:
        began = time.thread_time()
        super()._run_once()  # type: ignore[misc]  # asyncio's own, and nothing else tells turns apart
        self.turns.append(time.thread_time() - began)


def main() -> int:
    """Measure, or be the clients of what measures."""
    parser = argparse.ArgumentParser(prog="bench.event_stream", description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--lazy", type=int, default=20)
    parser.add_argument("--per-second", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--filters", action="store_true", help="each client has its own filter")
    parser.add_argument("--connect", metavar="HOST:PORT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.connect:
        asyncio.run(_be_clients(args))
    else:
        with asyncio.Runner(loop_factory=_TimedLoop) as runner:
            found = runner.run(_measure(args))
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0


async def _measure(args: argparse.Namespace) -> dict[str, Any]:  # Any: numbers and tables by name
    with tempfile.TemporaryDirectory(prefix="reactive-desched-bench-") as folder:
        records = write_journal(Path(folder), some_events(args.per_second * args.seconds))
        tail = Tail(Path(folder), SOURCE, 1, 1)
        stream = EventStream(
            tail,
            StreamLimits(stalled_after_s=_STALLED_AFTER_S),
            lambda: datetime.now(UTC),
            _Quiet(),
        )
        async with serve(Listen("127.0.0.1", 0), Health(time.monotonic), None, stream) as url:
            clients = _start_clients(args, url.removeprefix("http://"))
            numbers = stream.clients.numbers
            while numbers.clients < args.clients:  # noqa: ASYNC110  # they are another process
                await anyio.sleep(_TICK_S)
            found = await _run(args, tail, stream, records[1:])
            with anyio.move_on_after(3 * _STALLED_AFTER_S):
                while numbers.cut < args.lazy:  # noqa: ASYNC110  # as above
                    await anyio.sleep(_TICK_S)
            await anyio.sleep(1)  # the last events are on their way
            found["cut"], found["sent"] = numbers.cut, numbers.sent
        output, _ = await asyncio.to_thread(clients.communicate)
    found["clients"] = json.loads(output)
    found["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return found


async def _run(
    args: argparse.Namespace, tail: Tail, stream: EventStream, records: list[Entry]
) -> dict[str, Any]:
    """Publish at the rate asked for, as group commits do, and look how late timers run."""
    late: list[float] = []
    held = [0]
    turns = cast("_TimedLoop", asyncio.get_running_loop()).turns
    turns.clear()
    began, used = time.monotonic(), time.process_time()
    async with anyio.create_task_group() as group:
        group.start_soon(_watch, late, stream, held)
        per_commit = max(1, round(args.per_second * _COMMIT_S))
        for number in range(0, len(records), per_commit):
            tail.published(records[number : number + per_commit])
            await anyio.sleep(max(0.0, began + number / args.per_second - time.monotonic()))
        group.cancel_scope.cancel()
    took, used = time.monotonic() - began, time.process_time() - used
    late.sort()
    turns.sort()
    return {
        "late_p50_ms": round(1000 * late[len(late) // 2], 2),
        "late_p99_ms": round(1000 * late[len(late) * 99 // 100], 2),
        "late_max_ms": round(1000 * late[-1], 2),
        "turn_p99_cpu_ms": round(1000 * turns[len(turns) * 99 // 100], 2),
        "turn_max_cpu_ms": round(1000 * turns[-1], 2),
        "most_held_for_a_client_kb": held[0] // 1024,
        "events_per_s": round(len(records) / took),
        "cpu_percent": round(100 * used / took),
    }


async def _watch(late: list[float], stream: EventStream, held: list[int]) -> None:
    """Note how late a timer runs, and the most that waits in our memory for a client."""
    while True:
        due = time.monotonic() + _TICK_S
        await anyio.sleep(_TICK_S)
        late.append(time.monotonic() - due)
        for connection in stream.clients.connections:
            if (transport := getattr(connection, "transport", None)) is not None:
                held[0] = max(held[0], transport.get_write_buffer_size())


def _start_clients(args: argparse.Namespace, address: str) -> "subprocess.Popen[str]":
    options = [f"--clients={args.clients}", f"--lazy={args.lazy}", f"--connect={address}"]
    options += ["--filters"] if args.filters else []
    return subprocess.Popen(  # noqa: S603  # our own module
        [sys.executable, "-m", "bench.event_stream", *options], stdout=subprocess.PIPE, text=True
    )


async def _be_clients(args: argparse.Namespace) -> None:
    """Open all connections; count the events that each gets until the server ends them."""
    host, _, port = args.connect.rpartition(":")
    opened = []
    for number in range(args.clients):
        query = (
            f"?type=finding,decision,eviction&namespace=shop,bank,{number}" if args.filters else ""
        )
        opened.append(await _asking(host, int(port), query))
        await asyncio.sleep(0.005)
    reading = opened[args.lazy :]
    counts = await asyncio.gather(*(_count(one) for one in reading))
    sys.stdout.write(json.dumps({"fewest_events": min(counts), "most_events": max(counts)}))


async def _asking(host: str, port: int, query: str) -> socket.socket:
    one = socket.socket()
    one.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(one, (host, port))
    await loop.sock_sendall(one, f"GET /events{query} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    return one


async def _count(one: socket.socket) -> int:
    events, rest = 0, b""
    while chunk := await asyncio.get_running_loop().sock_recv(one, _READ_BYTES):
        text = rest + chunk
        events += text.count(b'"specversion"')
        rest = text[-len(b'"specversion"') + 1 :]
    return events


if __name__ == "__main__":
    sys.exit(main())
