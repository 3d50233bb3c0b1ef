"""Asks a process beside the controller how its pages were at an earlier moment: `?at=TIME`.

The event loop only waits for it. There is one such process at a time, for a bounded time, and with
the memory that the controller's container has left: the kernel must not end the controller for it.
A few questions wait for their turn, for a bounded time as well; others are refused.
"""

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import Final

import anyio
import msgspec
from msgspec import Raw, Struct

from reactive_desched.errors import ConfigError, NotAnswered, NotRecorded
from reactive_desched.primitives.hints import refuse_filters
from reactive_desched.primitives.timestamps import parse_flag_moment
from reactive_desched.web.operator import DebugPage

AT: Final = "at"
"""The key of a query that names the moment."""

TIMEOUT_S: Final = 90.0
"""So long an answer may take."""

MIN_BYTES: Final = 192 * 2**20
"""With less memory left nothing of an earlier moment is read."""

WAIT_S: Final = 20.0
MAX_WAITING: Final = 4
"""So many questions wait for their turn, so long."""

_SPARED: Final = 0.8
_NO_BACKTRACE: Final = {"RUST_BACKTRACE": "0"}
"""A backtrace takes memory: where zstd gets none, the process would wait for itself."""
_BUSY: Final = "another question about an earlier moment is being answered; ask again"
_MODULE: Final = "reactive_desched.app.past_answers"
_ELSEWHERE: Final = "`reactive-desched recording export` writes a file to look at elsewhere"

ANSWERED, FAILED, WRONG, NO_MEMORY = 0, 1, 2, 3
"""The exit statuses of the process that answers."""

PLAN_PAGE: Final = "plan"
TABLES_PAGE: Final = "node-tables"
"""The pages that have a preview of a moment."""

TIMES: Final = "times"
"""The page that says which times are recorded."""


class PastRequest(Struct, frozen=True):
    """A question about a moment, in seconds since the epoch, with the query of its page."""

    recording: str
    page: str
    at_s: float = 0.0
    query: Mapping[str, str] = {}
    journal: str = ""
    memory_bytes: int = 0


class RecordedPlaces(Struct, frozen=True):
    """The folders of a controller's recording and journal."""

    recording: Path
    journal: Path


class PastPages:
    """Answers pages as of an earlier moment, from the recording of a running controller.

    `places` returns its folders, and raises NotRecorded where it records nothing. `free_bytes`
    returns how much memory may still be taken.
    """

    def __init__(
        self,
        places: Callable[[], RecordedPlaces],
        free_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._places = places
        self._free_bytes = free_bytes or free_memory
        self._turn, self._asked = anyio.Lock(), 0

    @property
    def pages(self) -> tuple[DebugPage, ...]:
        """The pages about earlier moments alone."""
        return (
            DebugPage("recording", "which times are recorded", self._times),
            DebugPage(
                "moment",
                "the controller as it was, with ?at=TIME",
                partial(self._read_past, "moment"),
            ),
            DebugPage(
                PLAN_PAGE,
                "what would have been evicted from then on, with ?at=TIME",
                partial(self._read_past, PLAN_PAGE),
            ),
            DebugPage(
                TABLES_PAGE,
                "how nodes stood beside the thresholds of the policy, with ?at=TIME",
                partial(self._read_past, TABLES_PAGE),
            ),
        )

    def with_past(self, page: DebugPage) -> DebugPage:
        """Return a page that answers of an earlier moment where its query has one."""

        async def read(query: Mapping[str, str]) -> object:
            if AT in query:
                return await self._read_past(page.name, query)
            answer = page.read(query)
            return await answer if isawaitable(answer) else answer

        return DebugPage(page.name, page.summary, read)

    async def _times(self, query: Mapping[str, str]) -> Raw:
        refuse_filters(query)
        return await self._ask(TIMES, 0.0, {})

    async def _read_past(self, page: str, query: Mapping[str, str]) -> Raw:
        asked = dict(query)
        at = parse_flag_moment(AT, asked.pop(AT, ""), datetime.now(UTC))
        return await self._ask(page, at.timestamp(), asked)

    async def _ask(self, page: str, at_s: float, query: Mapping[str, str]) -> Raw:
        """Ask a process; raises ConfigError, NotRecorded and NotAnswered."""
        places = self._places()
        async with self._in_turn():
            return await self._run(places, page, at_s, query)

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        """Wait until no other question is answered; raises NotAnswered where that takes long."""
        if self._asked > MAX_WAITING:
            raise NotAnswered(_BUSY)
        self._asked += 1
        try:
            await self._acquire_turn()
            try:
                yield
            finally:
                self._turn.release()
        finally:
            self._asked -= 1

    async def _acquire_turn(self) -> None:
        try:
            self._turn.acquire_nowait()
        except anyio.WouldBlock:
            with anyio.move_on_after(WAIT_S) as waiting:
                await self._turn.acquire()
            if waiting.cancelled_caught:
                raise NotAnswered(_BUSY) from None

    async def _run(
        self, places: RecordedPlaces, page: str, at_s: float, query: Mapping[str, str]
    ) -> Raw:
        free = self._free_bytes()
        if free < MIN_BYTES:
            raise NotAnswered(
                f"{free >> 20} MiB of memory are left, which is too little to read a recording"
                f" beside the controller; {_ELSEWHERE}"
            )
        recording, journal = str(places.recording), str(places.journal)
        spared = int(free * _SPARED)
        return await _answer_of(PastRequest(recording, page, at_s, query, journal, spared))


async def _answer_of(request: PastRequest) -> Raw:
    command = [sys.executable, "-m", _MODULE, msgspec.json.encode(request).decode()]
    try:
        with anyio.fail_after(TIMEOUT_S):
            done = await anyio.run_process(
                command, check=False, stderr=None, env={**os.environ, **_NO_BACKTRACE}
            )
    except TimeoutError as error:
        raise NotAnswered(f"there was no answer within {TIMEOUT_S:g} s; {_ELSEWHERE}") from error
    except OSError as error:
        raise NotAnswered(f"no process can be started: {error.strerror}") from error
    if done.returncode == ANSWERED:
        return Raw(done.stdout)
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode == WRONG:
        raise ConfigError(said)
    if done.returncode == NO_MEMORY or done.returncode < 0:
        raise NotAnswered(f"the memory that is left is too little to read that; {_ELSEWHERE}")
    if not said:
        raise NotAnswered(f"the process that reads failed, the log says how; {_ELSEWHERE}")
    raise NotRecorded(said)


_CGROUP: Final = Path("/sys/fs/cgroup")
_MEMINFO: Final = Path("/proc/meminfo")


def free_memory(cgroup: Path = _CGROUP, meminfo: Path = _MEMINFO) -> int:
    """Return how many bytes the container may still take, or the machine where it has no limit."""
    found = [int(line.split()[1]) << 10 for line in _lines(meminfo) if "MemAvailable" in line]
    with suppress(OSError, ValueError):
        limit = int((cgroup / "memory.max").read_text("ascii"))
        current = int((cgroup / "memory.current").read_text("ascii"))
        cached = (line.split() for line in _lines(cgroup / "memory.stat"))
        inactive = next((int(size) for name, size in cached if name == "inactive_file"), 0)
        found.append(limit - current + inactive)
    return max(0, min(found, default=0))


def _lines(file: Path) -> list[str]:
    with suppress(OSError):
        return file.read_text("ascii").splitlines()
    return []
