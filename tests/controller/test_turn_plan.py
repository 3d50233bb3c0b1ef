"""The turns of pods that wait for a rate limit are foreseen again after a rest."""

from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.turn_plan import REST_PER_POD_S, SETTLE_S, TurnPlan
from reactive_desched.gate.rate_limits import EvictionRateLimiter
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import PodKey
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.testing.builders import pod
from tests.support.evictions import take
from tests.support.limits import make_rate_limiter


class Waiting:
    """Stands for an evaluator in which these findings wait."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._findings = findings
        self.queue = self

    def rate_limited(
        self, now: float, *, is_observed: bool = False
    ) -> Iterator[tuple[Finding, float]]:
        assert not is_observed
        return ((each, now) for each in self._findings)

    def reschedule(self, pod: PodKey, at: float, *, is_observed: bool = False) -> bool:
        del pod, at, is_observed
        return True


def let_wait(number: int) -> tuple[EvictionRateLimiter, Evaluator]:
    """Return a limiter, and an evaluator, with so many pods that wait for a token."""
    limiter = make_rate_limiter({"cluster": TokenRate(0.5, 1)}, lambda: 3)
    findings = [Finding(pod(f"p{each}", on="n1"), "Test", "why") for each in range(number + 1)]
    for each in findings:
        take(limiter, each, 0.0)
    return limiter, cast("Evaluator", Waiting(findings[1:]))


@pytest.mark.parametrize("number", [10, 2000])
def test_the_turns_are_foreseen_again_after_a_rest_that_the_number_of_pods_gives(
    number: int,
) -> None:
    limiter, evaluator = let_wait(number)
    plan = TurnPlan(limiter, evaluator)
    first_s = plan.next_due(0.0)
    assert first_s == SETTLE_S
    while plan.next_due(first_s) == first_s:  # some pods in each slice
        plan.work(first_s, lambda: True)
    limiter.waiting.out_of_order += 1

    due_s = plan.next_due(first_s)

    assert due_s == pytest.approx(first_s + max(SETTLE_S, number * REST_PER_POD_S))
