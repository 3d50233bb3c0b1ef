"""Clients of the event stream: most read all they get and look for gaps, some never read at all."""

import asyncio
import socket
import sys
import time
from datetime import datetime
from urllib.parse import urlsplit

from bench.measure.numbers import quantiles
from bench.record.task import Results, Task, freeze_gc

_SELECTED_TYPES = ("finding", "decision.evict", "eviction.requested", "eviction.succeeded", "audit")
_IGNORED_TYPES = (
    *("decision.defer", "decision.refuse", "eviction.refused", "eviction.unknown", "policy"),
    *("eviction.dry_run", "journal.lost", "journal.resumed", "leader"),
)
"""What happens meanwhile, and what never does; who asks for some of it still gets everything."""

_TIMEOUT_S = 15.0
_SMALL_BUFFER = 65_536
_CONNECT_BATCH = 20
"""So many connect at a time: the server bounds connections that are no streams yet."""

_HEAD_BYTES = 64
"""An id stands this near to where its frame begins: there may be the size of a chunk before it."""

_ID, _EVENT = b"id: ", b"\nevent: "
_RECORDED = b'"recordedtime":"'


class StreamReader(asyncio.Protocol):
    """Reads everything; keeps the last sequence it saw, and whether one was left out."""

    def __init__(self, query: str = "") -> None:
        self.seq = 0
        self.records = 0
        self.gaps = 0
        self.late_ms: list[float] = []
        self.began = asyncio.Event()
        self.moved = asyncio.Event()
        self._rest = b""
        self._query = query

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for events."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(_request(self._query))

    def data_received(self, data: bytes) -> None:
        """Look at every frame that is whole."""
        *frames, self._rest = (self._rest + data).split(b"\n\n")
        latest = b""
        for frame in frames:
            if self._handle_frame(frame):
                latest = frame
        if latest:
            self.late_ms.append((time.time() - _recorded_time_s(latest)) * 1e3)
        self.moved.set()

    def _handle_frame(self, frame: bytes) -> bool:
        """Take in one frame; say whether it is a record."""
        if (at := frame.find(_ID, 0, _HEAD_BYTES)) < 0:
            return False  # how soon to try again, or the last words
        end = frame.index(b"\n", at)
        seq, is_record = int(frame[at:end].rpartition(b".")[2]), True
        if frame.startswith((_EVENT + b"heartbeat\n", _EVENT + b"reset\n"), end):
            is_record = False
            if not self.began.is_set():
                self.seq = seq
                self.began.set()
        else:
            self.records += 1
        self.gaps += seq != self.seq + is_record
        self.seq = seq
        return is_record

    async def wait_for_seq(self, seq: int) -> None:
        """Return when it has seen this."""
        while self.seq < seq:
            self.moved.clear()
            await self.moved.wait()


class StalledReader(asyncio.Protocol):
    """Asks for events and never reads them; the system takes in little for it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask, and look away; a transport that is not read from lives only if it is held."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(_request())
        transport.pause_reading()
        self._transport = transport


async def read(task: Task) -> Results:
    """Connect, say so on standard output, and read until what standard input names has come."""
    return await _read(task, [StreamReader() for _ in range(task.count)])


async def read_apart(task: Task) -> Results:
    """Do the same with clients that each ask for something else."""
    return await _read(task, [StreamReader(distinct_query(number)) for number in range(task.count)])


def distinct_query(number: int) -> str:
    """Return a query that no other number has, and that leaves out nothing that happens."""
    some = [types for bit, types in enumerate(_IGNORED_TYPES) if number >> bit & 1]
    return f"?type={','.join([*_SELECTED_TYPES, *some])}"


async def _read(task: Task, readers: list[StreamReader]) -> Results:
    silent = [StalledReader() for _ in range(task.silent)]
    every: list[StreamReader | StalledReader] = [*silent, *readers]
    for first in range(0, len(every), _CONNECT_BATCH):
        await asyncio.gather(
            *(_connect(task.address, it) for it in every[first : first + _CONNECT_BATCH])
        )
    freeze_gc()
    sys.stdout.write("connected\n")
    sys.stdout.flush()
    last = int(await asyncio.to_thread(sys.stdin.readline))
    late = await _wait_for_all(readers, last)
    records = {reader.records for reader in readers}
    return {
        "readers": len(readers),
        "behind": late,
        "gaps": sum(reader.gaps for reader in readers),
        "records_each": sorted(records),
        "delivered_ms": quantiles([late for reader in readers for late in reader.late_ms]),
        "cpu_s": round(time.process_time(), 2),
    }


def _request(query: str = "") -> bytes:
    return (
        f"GET /events{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        "User-Agent: bench\r\n\r\n"
    ).encode()


async def _connect(address: str, protocol: StreamReader | StalledReader) -> None:
    index = urlsplit(address)
    sock = socket.socket()
    if isinstance(protocol, StalledReader):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
    sock.setblocking(False)  # noqa: FBT003 -- it takes no keyword
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, (index.hostname, index.port))
    await loop.create_connection(lambda: protocol, sock=sock)
    if isinstance(protocol, StreamReader):
        await asyncio.wait_for(protocol.began.wait(), _TIMEOUT_S)


async def _wait_for_all(readers: list[StreamReader], last: int) -> int:
    """Wait until all have seen this; return how many have not after a while."""
    waiting = [asyncio.create_task(reader.wait_for_seq(last)) for reader in readers]
    _, late = await asyncio.wait(waiting, timeout=_TIMEOUT_S)
    for task in late:
        task.cancel()
    return len(late)


def _recorded_time_s(frame: bytes) -> float:
    """Return when the record of this frame was written, in seconds since 1970."""
    begins = frame.index(_RECORDED) + len(_RECORDED)
    return datetime.fromisoformat(frame[begins : frame.index(b'"', begins)].decode()).timestamp()
