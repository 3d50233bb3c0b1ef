"""Asks one health check now and then, and hands on each answer that differs from the last."""

from collections.abc import Callable
from random import Random
from typing import Final

import anyio
from msgspec import Struct

from reactive_desched.errors import UsageUnavailable
from reactive_desched.kube.client.clock import Clock
from reactive_desched.model.health import HealthAnswer
from reactive_desched.telemetry.logs import Logger
from reactive_desched.usage.health_sources import HealthSource
from reactive_desched.usage.repeated_poll import RepeatedPoll

__all__ = ["HealthPoller", "HealthTimes"]


class HealthTimes(Struct, frozen=True):
    """The interval, the timeout of an answer, and how long it counts after, in seconds."""

    interval_s: float
    timeout_s: float
    keep_answer_s: float


class HealthPoller(RepeatedPoll):
    """Asks until cancelled.

    An error keeps the last answer for `keep_answer_s`; after that, the answer is that it is not
    known. `known` is the answer that counts at the beginning.
    """

    def __init__(
        self,
        known: HealthAnswer,
        source: HealthSource,
        take: Callable[[HealthAnswer], None],
        times: HealthTimes,
        *,
        clock: Clock,
        rng: Random,
        log: Logger,
    ) -> None:
        super().__init__({"ok": 0, "failed": 0}, times.interval_s, clock, rng)
        self.check: Final = known.check
        self._source = source
        self._take = take
        self._times = times
        self._log = log
        self._last = known
        self._answered_at = None if known.problem else clock.now()

    async def poll(self) -> None:
        """Ask once, and hand on what is new."""
        try:
            with anyio.fail_after(self._times.timeout_s):
                answer = await self._source.ask()
        except (UsageUnavailable, TimeoutError) as error:
            problem = str(error) or f"no answer within {self._times.timeout_s:g}s"
            self._report(problem, "failed")
            if not self._counts_still:
                self._hand_on(HealthAnswer(self.check, problem=problem))
            return
        self._answered_at = self._clock.now()
        self._report("", "ok")
        self._hand_on(answer)

    @property
    def _counts_still(self) -> bool:
        """Say whether the last answer is young enough."""
        answered_at = self._answered_at
        return (
            answered_at is not None and self._clock.now() < answered_at + self._times.keep_answer_s
        )

    def _hand_on(self, answer: HealthAnswer) -> None:
        if answer != self._last:
            self._last = answer
            self._take(answer)

    def _report(self, problem: str, result: str) -> None:
        self._results[result] += 1
        if problem == self._problem:
            return
        self._problem = problem
        if problem:
            self._log.warning("a health check has no answer", check=self.check, message=problem)
        else:
            self._log.info("a health check is answered again", check=self.check)
