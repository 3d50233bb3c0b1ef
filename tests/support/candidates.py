"""Candidates for one Lease on virtual time: processes that pause, lose their link, and end."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from reactive_desched.election.elector import ElectionClock, ElectionTiming, LeaderElector
from reactive_desched.election.leadership import Leadership
from reactive_desched.election.lease import Lease, LeaseRecord
from reactive_desched.errors import LeadershipLost, RequestRejected, Unreachable

T = TypeVar("T")

TIMING = ElectionTiming(15, 10, 2)
ACT_EVERY_S, WAKING_S = 0.2, 0.3
TIMEOUT_S = TIMING.renew_deadline_s / 2


class QuietLog:
    """Takes what an elector logs."""

    def info(self, event: str, **values: Any) -> None:  # as a logger takes them
        """Take a line."""

    warning = debug = info


class LeaseServer:
    """Keeps one Lease as the API server does: an update must name the version that it changes."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self.version = 0
        self.writes: list[tuple[float, LeaseRecord]] = []

    def get(self) -> Lease | None:
        """Return the Lease."""
        if self.record is None:
            return None
        return Lease(self.record, {"resourceVersion": str(self.version)}, {})

    def create(self, record: LeaseRecord) -> Lease:
        """Create it, unless there is one."""
        if self.record is not None:
            raise RequestRejected("AlreadyExists", retryable=False)
        return self._write(record)

    def update(self, lease: Lease, record: LeaseRecord) -> Lease:
        """Change it, unless it has changed since it was read."""
        if self.record is None:
            raise RequestRejected("NotFound", retryable=False)
        if lease.metadata["resourceVersion"] != str(self.version):
            raise RequestRejected("Conflict", retryable=True)
        return self._write(record)

    def _write(self, record: LeaseRecord) -> Lease:
        self.version += 1
        self.record = record
        self.writes.append((anyio.current_time(), record))
        found = self.get()
        assert found is not None
        return found


class Link:
    """The way of one candidate to the server; `delays_s` are drawn for request and answer."""

    def __init__(self, delays_s: Callable[[], float] = lambda: 0.0) -> None:
        self.cut_until = 0.0
        self.delays_s = delays_s

    async def carry(self, work: Callable[[], T]) -> T:
        """Have the server do the work; what takes too long may be done all the same."""
        if anyio.current_time() < self.cut_until:
            await anyio.sleep(TIMEOUT_S)
            raise Unreachable("PUT", "no answer in time", sent=True)
        there_s, back_s = self.delays_s(), self.delays_s()
        if there_s > TIMEOUT_S:
            await anyio.sleep(TIMEOUT_S)
            raise Unreachable("PUT", "no answer in time", sent=True)
        await anyio.sleep(there_s)
        result = work()
        if there_s + back_s > TIMEOUT_S or anyio.current_time() < self.cut_until:
            await anyio.sleep(TIMEOUT_S - there_s)
            raise Unreachable("PUT", "no answer in time", sent=True)
        await anyio.sleep(back_s)
        return result


class Candidate:
    """One process that stands for leader, and acts five times a second while it may.

    Its clock runs `rate` times as fast as the others'. While it is paused none of its code runs.
    """

    def __init__(
        self,
        server: LeaseServer,
        name: str,
        acts: list[tuple[float, str]],
        *,
        link: Link | None = None,
        rate: float = 1.0,
        rng: Random | None = None,
        has_kill_timer: bool = False,
    ) -> None:
        self.name = name
        self.link = link or Link()
        self.ended: str | None = None
        self.paused_until = 0.0
        self.opening_s = 0.0
        self._server = server
        self._acts = acts
        self._rate = rate
        self._kill_at = float("inf")
        self._has_kill_timer = has_kill_timer
        self._scope = anyio.CancelScope()
        self.leadership = Leadership(self.now)
        self.elector = LeaderElector(
            self,
            name,
            TIMING,
            self.leadership,
            clock=ElectionClock(self.now, anyio.current_time, self._sleep),
            rng=rng or Random(name),
            log=QuietLog(),
            end_process_at=self._set_kill_timer,
        )

    def now(self) -> float:
        """Return its own monotonic time."""
        return anyio.current_time() * self._rate + 1000.0 * self._rate

    def pause(self, seconds: float) -> None:
        """Stop this process, as SIGSTOP does."""
        self.paused_until = max(self.paused_until, anyio.current_time() + seconds)

    def kill(self) -> None:
        """End it as SIGKILL does."""
        self.ended = self.ended or "killed"
        self._scope.cancel()

    async def run(self, group: TaskGroup | None = None) -> None:
        """Stand for leader, lead, and end; a clean stop is `stop`."""
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._act_while_leading)
                tasks.start_soon(self._obey_kill_timer)
                try:
                    await self.elector.acquire()
                    tasks.start_soon(self._keep, tasks.cancel_scope)
                    await self._sleep(self.opening_s)
                    await self.elector.begin_term()
                except LeadershipLost as lost:
                    self.ended = str(lost)
                    tasks.cancel_scope.cancel()

    async def stop(self) -> None:
        """End it as SIGTERM does: what acts has stopped, then the Lease is given up."""
        self.ended = "stopped"
        self._scope.cancel()
        await anyio.lowlevel.checkpoint()
        await self.elector.release()

    # --- its edge: what it awaits lasts until it runs again ---

    async def get(self) -> Lease | None:
        """Read the Lease."""
        return await self._carried(self._server.get)

    async def create(self, record: LeaseRecord) -> Lease:
        """Create the Lease."""
        return await self._carried(lambda: self._server.create(record))

    async def update(self, lease: Lease, record: LeaseRecord) -> Lease:
        """Write the Lease."""
        return await self._carried(lambda: self._server.update(lease, record))

    async def _carried(self, work: Callable[[], T]) -> T:
        await self._until_running()
        try:
            return await self.link.carry(work)
        finally:
            with anyio.CancelScope(shield=True):
                await self._until_running()

    async def _sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds / self._rate)
        await self._until_running()

    async def _until_running(self) -> None:
        """Wait for the end of a pause; the elector's task is not the first to run after it."""
        if anyio.current_time() < self.paused_until:
            await anyio.sleep_until(self.paused_until + WAKING_S)

    async def _keep(self, scope: anyio.CancelScope) -> None:
        try:
            await self.elector.keep()
        except LeadershipLost as lost:
            self.ended = str(lost)
            scope.cancel()

    async def _act_while_leading(self) -> None:
        while True:
            await anyio.sleep_until(self.paused_until)
            if not self.leadership.fault:
                self._acts.append((anyio.current_time(), self.name))
            await anyio.sleep(ACT_EVERY_S)

    def _set_kill_timer(self, at: float) -> None:
        self._kill_at = at

    async def _obey_kill_timer(self) -> None:
        while self._has_kill_timer:
            if self.now() >= self._kill_at:
                self.kill()
            await anyio.sleep(ACT_EVERY_S)


class Replicas:
    """A Deployment of candidates: one that ended is replaced by another process."""

    def __init__(self, acts: list[tuple[float, str]]) -> None:
        self.server = LeaseServer()
        self.acts = acts
        self.running: list[Candidate] = []

    @asynccontextmanager
    async def of(self, *makes: Callable[[str], Candidate]) -> AsyncIterator[None]:
        """Run one candidate for each maker while the block lasts."""
        async with anyio.create_task_group() as group:
            for number, make in enumerate(makes):
                self.running.append(make(f"r{number}.0"))
                group.start_soon(self._replace_for_ever, number, make)
            yield
            group.cancel_scope.cancel()

    async def _replace_for_ever(self, number: int, make: Callable[[str], Candidate]) -> None:
        life = 0
        while True:
            await self.running[number].run()
            await anyio.sleep_until(self.running[number].paused_until)
            await anyio.sleep(1)
            life += 1
            self.running[number] = make(f"r{number}.{life}")


def terms(acts: list[tuple[float, str]]) -> Iterator[tuple[str, float, float]]:
    """Yield who acted, from when to when, for each unbroken run of one candidate's acts."""
    run: list[tuple[float, str]] = []
    for at, name in acts:
        if run and run[-1][1] != name:
            yield run[-1][1], run[0][0], run[-1][0]
            run = []
        run.append((at, name))
    if run:
        yield run[-1][1], run[0][0], run[-1][0]


def held_by(holder: str, duration_s: int = 15, transitions: int = 3) -> LeaseRecord:
    """Return what a Lease says that another process holds."""
    moment = "2026-01-01T00:00:00.000000Z"
    return LeaseRecord(holder, duration_s, moment, moment, transitions)


def renewed(record: LeaseRecord) -> LeaseRecord:
    """Return a record with another time of renewal."""
    return replace(record, renew_time=f"{record.renew_time}'")
