"""Lets each pod that waits for a rate limit be evaluated when its turn is.

A bucket gives a waiting pod a time by its own queue alone. With limits in several scopes such times
are in no order: a pod that has a token of its node finds that the plugin has none. So the
turns of all are foreseen together, again and again, and each pod comes at its own.
"""

from collections.abc import Callable, Iterator
from typing import Final

from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.gate.rate_limits import EvictionRateLimiter
from reactive_desched.primitives.token_bucket import MAX_WAIT_S

SETTLE_S: Final = 1.0
"""After the first change it is waited so long for others."""

INTERVAL_S: Final = 20.0
"""The turns are foreseen again after so long without a change, as other gates hold pods up."""

SET_PER_SLICE: Final = 32
"""The turns of so many pods are set before the event loop may have its turn."""

REST_PER_POD_S: Final = 0.0015
"""So long it rests at least for each pod that waits: it takes some 30 µs for one, and a fiftieth of
the processor is enough. It goes by no time that it took: a replay would rest for another one."""


class TurnPlan:
    """Foresees the turns of the pods that wait, in small portions; times are monotonic seconds.

    They are those of plugins that act, or with `is_observed` of those that only observe.
    """

    def __init__(
        self, limiter: EvictionRateLimiter, evaluator: Evaluator, *, is_observed: bool = False
    ) -> None:
        self._is_observed = is_observed
        self._limiter = limiter
        self._evaluator = evaluator
        self._under_way: Iterator[None] | None = None
        self._seen = 0
        self._rests_until = 0.0
        self._pods = 0
        self._due: float | None = None

    def next_due(self, now: float) -> float | None:
        """Return when there is something to foresee; None while fewer than two pods wait."""
        waiting = self._limiter.waiting
        if self._under_way is not None:
            return now
        if len(waiting) < 2:  # noqa: PLR2004 -- one alone has no order
            self._due = None
            return None
        if self._due is None:
            self._due = max(now + SETTLE_S, self._rests_until)
        if waiting.out_of_order != self._seen:
            self._due = min(self._due, max(now + SETTLE_S, self._rests_until))
        return self._due

    def work(self, now: float, should_yield: Callable[[], bool]) -> None:
        """Go on, until it should yield or all turns are foreseen and set."""
        if self._under_way is None:
            if (due := self.next_due(now)) is None or due > now:
                return
            self._seen = self._limiter.waiting.out_of_order
            self._under_way = self._steps(now)
        for _ in self._under_way:
            if should_yield():
                return
        self._under_way = None
        rest_s = REST_PER_POD_S * self._pods
        self._rests_until = now + rest_s
        self._due = now + max(INTERVAL_S, rest_s)

    def _steps(self, now: float) -> Iterator[None]:
        """Foresee all turns, and let each pod come at its own."""
        waiting = self._evaluator.queue.rate_limited(now, is_observed=self._is_observed)
        turns = yield from self._limiter.plan_turns(waiting, now)
        yield
        self._pods = len(turns)
        for number, (pod, turn) in enumerate(turns.items()):
            at = min(turn.at, now + MAX_WAIT_S)
            if self._evaluator.queue.reschedule(pod, at, is_observed=self._is_observed):
                self._limiter.waiting.set_turn(pod, turn.at, at)
            if number % SET_PER_SLICE == 0:
                yield
