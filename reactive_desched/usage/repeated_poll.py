"""Polls something again and again, a little earlier or later than the interval each time."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from random import Random
from typing import Final

from reactive_desched.kube.client.clock import Clock
from reactive_desched.text.causes import NO_ANSWER_YET

__all__ = ["JITTER", "RepeatedPoll"]

JITTER: Final = 0.1
"""A poll comes up to this share of the interval earlier or later."""


class RepeatedPoll(ABC):
    """Polls until cancelled, every `interval_s`; counts the polls by their results."""

    def __init__(
        self, results: Mapping[str, int], interval_s: float, clock: Clock, rng: Random
    ) -> None:
        self._results = dict(results)
        self._interval_s = interval_s
        self._clock = clock
        self._rng = rng
        self._problem = ""

    @property
    def results(self) -> Mapping[str, int]:
        """Return how many polls had each result."""
        return self._results

    @property
    def problem(self) -> str:
        """Return what was wrong with the last poll, or that there was none; empty for nothing."""
        return self._problem if any(self._results.values()) else NO_ANSWER_YET

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            began_at = self._clock.now()
            await self.poll()
            jitter = 1.0 + JITTER * (2.0 * self._rng.random() - 1.0)
            rest_s = self._interval_s * jitter - (self._clock.now() - began_at)
            await self._clock.sleep(max(0.0, rest_s))

    @abstractmethod
    async def poll(self) -> None:
        """Ask once."""
