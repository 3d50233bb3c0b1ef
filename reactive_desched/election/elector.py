"""Takes a Lease, renews it and gives it up: the algorithm of client-go's `leaderelection`.

No time of another machine counts: a Lease is free when this process has seen it unchanged for as
long as the Lease says. What differs from client-go errs to the safe side: a term is counted from
when the renewal was *sent*, another holder ends the term at once, a Lease that vanished while it
was held is free only when it would have run out, and a candidate comes back when it runs out.

A client that may write the Lease may write anything into it. A duration counts between this
candidate's own and an hour; times and numbers that the API server would refuse are not written
again; a holder's name is cut and escaped in texts.
"""

import math
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Final

import anyio
from msgspec import Struct

from reactive_desched.election.leadership import NO_LEADER_YET, Leadership
from reactive_desched.election.lease import (
    MAX_TRANSITIONS,
    Lease,
    LeaseClient,
    LeaseRecord,
    is_time,
    micro_time,
)
from reactive_desched.errors import ClusterError, LeadershipLost
from reactive_desched.policy.settings.leader_election import JITTER_FACTOR
from reactive_desched.primitives.bounded_text import bounded_name
from reactive_desched.telemetry.logs import DebugLogger
from reactive_desched.telemetry.metrics import Metric, counter, gauge

DRAIN_SHARE: Final = 0.4
"""So much of the time between renew deadline and lease duration is left to evictions under way."""

KILL_MARGIN: Final = 0.2
"""The process ends so much of the time between renew deadline and lease duration before the end."""

MAX_HELD_S: Final = 3600.0
"""A Lease without renewals is free after so long, whatever duration was written into it."""

_SOON_S: Final = 0.05
"""The least wait between two attempts."""

RENEWALS: Final = counter("lease_renewals", "Attempts to take or renew the Lease.", "result")
TRANSITIONS: Final = gauge("lease_transitions", "The Lease's leaseTransitions, as last read.")
FOLLOWS: Final = gauge(
    "lease_held_by_another",
    "1 while another replica holds the Lease and renews it in time, else 0.",
)


class ElectionTiming(Struct, frozen=True):
    """The times of an election, in seconds; the settings' section `leaderElection` checks them."""

    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    @property
    def request_timeout_s(self) -> float:
        """Return how long one request may take: one that hangs leaves time to renew."""
        return self.renew_deadline_s / 2

    @property
    def drain_s(self) -> float:
        """Return how long evictions under way may take to end after the Lease was lost."""
        return DRAIN_SHARE * (self.lease_duration_s - self.renew_deadline_s)

    @property
    def kill_after_s(self) -> float:
        """Return how long after a renewal was sent the process must have ended."""
        slack_s = self.lease_duration_s - self.renew_deadline_s
        return self.lease_duration_s - KILL_MARGIN * slack_s


class ElectionClock(Struct, frozen=True):
    """The clocks of a candidate, in seconds.

    `now` goes on while the machine sleeps; `wall` is the time of day, which only people read.
    """

    now: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep


class LeaderElector:
    """One candidate for a Lease.

    `end_process_at` is called at each renewal with the time of `clock.now` at
    which this process must have ended, and with infinity when it holds the Lease no more.
    """

    def __init__(
        self,
        client: LeaseClient,
        identity: str,
        timing: ElectionTiming,
        leadership: Leadership,
        *,
        clock: ElectionClock,
        rng: Random,
        log: DebugLogger,
        end_process_at: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.identity = identity
        self.timing = timing
        self.previous_holder = ""
        self._client = client
        self._leadership = leadership
        self._clock = clock
        self._rng = rng
        self._log = log
        self._end_process_at = end_process_at
        self._lease: Lease | None = None
        self._observed_at = -math.inf
        self._sent_at = -math.inf
        self._error = ""
        self._in_term, self._acquired_at = False, -math.inf
        self._results = {"ok": 0, "failed": 0}

    def collect(self) -> Iterator[Metric]:
        """Yield how attempts ended, who holds the Lease, and how often it changed hands."""
        yield RENEWALS.by_label(self._results)
        yield FOLLOWS.value(int(self._is_held_by_another() and not self._has_expired()))
        if self._lease is not None:
            yield TRANSITIONS.value(self.transitions)

    @property
    def is_leader(self) -> bool:
        """Say whether this candidate holds the Lease, and its term has not lapsed."""
        return self._in_term and not self._leadership.has_lapsed()

    @property
    def transitions(self) -> int:
        """The Lease's leaseTransitions, as last read."""
        return 0 if self._lease is None else _transitions(self._lease.record.transitions)

    async def acquire(self) -> None:
        """Return once this candidate holds the Lease; its term has not begun yet."""
        self._stand_by()
        while not (await self._try_acquire_or_renew() and self._clock.now() < self._deadline()):
            self._stand_by()
            await self._clock.sleep(self._wait_s())
        self._leadership.stand_by("elected: the journal is being opened")
        self._in_term, self._acquired_at = True, self._clock.now()
        self._extend()
        self._log.info("acquired the lease", identity=self.identity, before=self.previous_holder)

    def wait_for_journal(self, reason: str) -> bool:
        """Say whether a new leader may wait on: not longer than for the earlier one's Lease."""
        self._leadership.stand_by(f"elected: {reason}")
        waited_s = self._clock.now() - self._acquired_at
        return self.is_leader and waited_s < self.timing.lease_duration_s

    async def begin_term(self) -> None:
        """Read the Lease again, and let this process act if the Lease is still its own.

        Opening a journal may have taken long. Raises LeadershipLost.
        """
        while not self._leadership.has_lapsed():
            with anyio.move_on_after(self._leadership.remaining_s()):
                try:
                    lease = await self._client.get()
                except ClusterError as error:
                    self._error = str(error)
                    await self._clock.sleep(self.timing.retry_period_s)
                    continue
                if lease is None or lease.record.holder != self.identity:
                    self._lease = lease or self._lease
                    break
                if not self._leadership.has_lapsed():
                    self._leadership.begin()
                    return
        raise self._lost()

    async def keep(self) -> None:
        """Renew until the Lease is lost, and then raise LeadershipLost; nothing may act by then."""
        while not self._leadership.has_lapsed():
            await self._clock.sleep(self.timing.retry_period_s)
            if self._leadership.has_lapsed():
                break
            with anyio.move_on_after(self._leadership.remaining_s()):
                if await self._try_acquire_or_renew():
                    self._extend()
                elif not self._is_own():
                    break
        raise self._lost()

    def stand_down(self) -> None:
        """Let the process go on after a lost term: everything that acts has stopped."""
        self._end_process_at(math.inf)

    async def release(self) -> None:
        """Let another candidate take the Lease at once; everything that acts must have stopped."""
        self._leadership.end("the Lease was given up")
        with anyio.move_on_after(self.timing.renew_deadline_s, shield=True):
            try:
                lease = await self._client.get()
                if lease is not None and lease.record.holder == self.identity:
                    await self._client.update(lease, self._released(lease.record))
                    self._log.info("released the lease")
            except ClusterError as error:
                self._log.warning("the lease could not be released", message=str(error))
        self._end_process_at(math.inf)

    async def _try_acquire_or_renew(self) -> bool:
        is_ok = await self._try_once()
        self._results["ok" if is_ok else "failed"] += 1
        return is_ok

    async def _try_once(self) -> bool:
        """Take or renew the Lease if it is free or ours: client-go's tryAcquireOrRenew."""
        known = self._lease
        is_valid = known is not None and self._is_own() and not self._has_expired()
        if is_valid and await self._put(known):
            return True
        try:
            lease = await self._client.get()
        except ClusterError as error:
            self._fail(error)
            return False
        if lease is None:
            return (not self._is_held_by_another() or self._has_expired()) and await self._put(None)
        self._observe(lease)
        if not self._is_own() and (
            self._in_term or (self._is_held_by_another() and not self._has_expired())
        ):
            return False
        return await self._put(lease)

    async def _put(self, lease: Lease | None) -> bool:
        """Write this candidate into the Lease, unless another one has written meanwhile."""
        sent_at = self._clock.now()
        before = LeaseRecord() if lease is None else lease.record
        record = self._own_record(before, is_new=lease is None)
        try:
            if lease is None:
                written = await self._client.create(record)
            else:
                written = await self._client.update(lease, record)
        except ClusterError as error:
            self._fail(error)
            return False
        if before.holder != self.identity:
            self.previous_holder = bounded_name(before.holder)
        self._lease, self._observed_at, self._sent_at, self._error = written, sent_at, sent_at, ""
        return True

    def _own_record(self, before: LeaseRecord, *, is_new: bool) -> LeaseRecord:
        now = micro_time(self._clock.wall())
        is_renewal = before.holder == self.identity
        return LeaseRecord(
            self.identity,
            math.ceil(self.timing.lease_duration_s),
            before.acquire_time if is_renewal and is_time(before.acquire_time) else now,
            now,
            _transitions(before.transitions + (0 if is_renewal or is_new else 1)),
        )

    def _released(self, record: LeaseRecord) -> LeaseRecord:
        now = micro_time(self._clock.wall())
        return LeaseRecord("", 1, now, now, _transitions(record.transitions))

    def _observe(self, lease: Lease) -> None:
        before, self._lease = self._lease, lease
        if before is None or before.record != lease.record:
            self._observed_at = self._clock.now()
        if before is not None and self._is_own() and before.record.holder != self.identity:
            # it was taken by a write of ours that was not answered
            self.previous_holder = bounded_name(before.record.holder)
        if before is None or before.record.holder != lease.record.holder:
            self._log.info("the leader changed", leader=_holder(lease) or "none")

    def _is_own(self) -> bool:
        return self._lease is not None and self._lease.record.holder == self.identity

    def _is_held_by_another(self) -> bool:
        return self._lease is not None and self._lease.record.holder not in ("", self.identity)

    def _has_expired(self) -> bool:
        assert self._lease is not None, "there is a Lease whose time can be over"
        return self._clock.now() >= self._runs_out_at(self._lease)

    def _runs_out_at(self, lease: Lease) -> float:
        """Return when the Lease is free without a renewal, whatever duration it names."""
        named_s = min(lease.record.duration_s, MAX_HELD_S)
        return self._observed_at + max(named_s, self.timing.lease_duration_s)

    def _deadline(self) -> float:
        return self._sent_at + self.timing.renew_deadline_s

    def _extend(self) -> None:
        self._leadership.renew(self._deadline())
        self._end_process_at(self._sent_at + self.timing.kill_after_s)

    def _wait_s(self) -> float:
        """Return how long to wait before the next attempt: not beyond the end of the Lease."""
        retry_s = self.timing.retry_period_s * (1 + JITTER_FACTOR * self._rng.random())
        if self._lease is None or not self._is_held_by_another():
            return retry_s
        left_s = self._runs_out_at(self._lease) - self._clock.now()
        return min(retry_s, max(left_s, _SOON_S)) if left_s > 0 else retry_s

    def _stand_by(self) -> None:
        leader = _holder(self._lease) if self._lease is not None else ""
        if self._error:
            self._leadership.stand_by(f"the Lease cannot be read or written: {self._error}")
        elif leader:
            self._leadership.follow(leader)
        else:
            self._leadership.stand_by(NO_LEADER_YET)

    def _fail(self, error: ClusterError) -> None:
        if str(error) != self._error:
            self._log.warning("the lease cannot be read or written", message=str(error))
        self._error = str(error)

    def _lost(self) -> LeadershipLost:
        if self._lease is not None and not self._is_own():
            reason = f"{_holder(self._lease) or 'no process'} holds the Lease"
        else:
            deadline_s = self.timing.renew_deadline_s
            reason = f"the Lease was not renewed for {deadline_s:g} s"
            reason += f": {self._error}" if self._error else ""
        self._leadership.end(f"no longer the leader: {reason}")
        return LeadershipLost(f"leadership is lost: {reason}")


def _holder(lease: Lease) -> str:
    """Return the holder as texts name it."""
    return bounded_name(lease.record.holder)


def _transitions(number: int) -> int:
    return min(max(number, 0), MAX_TRANSITIONS)
