"""Clients of the event stream: most read all they get and look for gaps, some never read at all."""

import asyncio
import socket
import sys
import time
from datetime import datetime
from urllib.parse import urlsplit

from bench.measure.numbers import spread
from bench.record.task import Found, Task, keep_collector_away

_WANTED = ("finding", "decision.evict", "eviction.requested", "eviction.succeeded", "audit")
_UNHEARD = (
    *("decision.defer", "decision.refuse", "eviction.refused", "eviction.unknown", "policy"),
    *("eviction.rehearsed", "journal.lost", "journal.resumed", "leader"),
)
"""What happens meanwhile, and what never does; who asks for some of it still gets everything."""

_PATIENCE_S = 15.0
_SMALL_BUFFER = 65_536
_AT_ONCE = 20
"""So many connect at a time: the server bounds connections that are no streams yet."""

_HEAD_BYTES = 64
"""An id stands this near to where its frame begins: there may be the size of a chunk before it."""

_ID, _EVENT = b"id: ", b"\nevent: "
_RECORDED = b'"recordedtime":"'


class Reader(asyncio.Protocol):
    """Reads everything; knows the last sequence it saw, and whether one was left out."""

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
            if self._take(frame):
                latest = frame
        if latest:
            self.late_ms.append((time.time() - _recorded(latest)) * 1e3)
        self.moved.set()

    def _take(self, frame: bytes) -> bool:
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

    async def reach(self, seq: int) -> None:
        """Return when it has seen this."""
        while self.seq < seq:
            self.moved.clear()
            await self.moved.wait()


class Silent(asyncio.Protocol):
    """Asks for events and never reads them; the system takes in little for it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask, and look away; a transport that is not read from lives only if it is held."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(_request())
        transport.pause_reading()
        self._held = transport


async def read(task: Task) -> Found:
    """Connect, say so on standard output, and read until what standard input names has come."""
    return await _read(task, [Reader() for _ in range(task.count)])


async def read_apart(task: Task) -> Found:
    """Do the same with clients that each ask for something else."""
    return await _read(task, [Reader(own_query(number)) for number in range(task.count)])


def own_query(number: int) -> str:
    """Return a query that no other number has, and that leaves out nothing that happens."""
    some = [word for bit, word in enumerate(_UNHEARD) if number >> bit & 1]
    return f"?type={','.join([*_WANTED, *some])}"


async def _read(task: Task, readers: list[Reader]) -> Found:
    silent = [Silent() for _ in range(task.silent)]
    every: list[Reader | Silent] = [*silent, *readers]
    for first in range(0, len(every), _AT_ONCE):
        await asyncio.gather(
            *(_connect(task.address, it) for it in every[first : first + _AT_ONCE])
        )
    keep_collector_away()
    sys.stdout.write("connected\n")
    sys.stdout.flush()
    last = int(await asyncio.to_thread(sys.stdin.readline))
    late = await _reached(readers, last)
    records = {reader.records for reader in readers}
    return {
        "readers": len(readers),
        "behind": late,
        "gaps": sum(reader.gaps for reader in readers),
        "records_each": sorted(records),
        "delivered_ms": spread([late for reader in readers for late in reader.late_ms]),
        "cpu_s": round(time.process_time(), 2),
    }


def _request(query: str = "") -> bytes:
    return (
        f"GET /events{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        "User-Agent: bench\r\n\r\n"
    ).encode()


async def _connect(address: str, protocol: Reader | Silent) -> None:
    place = urlsplit(address)
    sock = socket.socket()
    if isinstance(protocol, Silent):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, (place.hostname, place.port))
    await loop.create_connection(lambda: protocol, sock=sock)
    if isinstance(protocol, Reader):
        await asyncio.wait_for(protocol.began.wait(), _PATIENCE_S)


async def _reached(readers: list[Reader], last: int) -> int:
    """Wait until all have seen this; return how many have not after a while."""
    waiting = [asyncio.create_task(reader.reach(last)) for reader in readers]
    _, late = await asyncio.wait(waiting, timeout=_PATIENCE_S)
    for task in late:
        task.cancel()
    return len(late)


def _recorded(frame: bytes) -> float:
    """Return when the record of this frame was written, in seconds since 1970."""
    begins = frame.index(_RECORDED) + len(_RECORDED)
    return datetime.fromisoformat(frame[begins : frame.index(b'"', begins)].decode()).timestamp()
