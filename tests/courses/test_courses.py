"""Drawn hours: what passes moves no pod, and what is moved is better off afterwards.

No pod waits longer than without the descheduler.
"""

import pytest

from reactive_desched.plugins.low_node_utilization import LowNodeUtilizationPlugin
from tests.courses.course import drawn_course, drawn_work
from tests.courses.playing import judged

GOES_ON = LowNodeUtilizationPlugin.name
"""A plan of it that has begun goes on to its target, where a sweep would not begin another."""


@pytest.mark.parametrize("seed", [13, 23, 26, 40])
def test_pods_whose_replacements_would_come_back_stay(seed: int) -> None:
    hour = judged(drawn_course(seed), asks=False)

    assert hour.evictions
    assert [str(each) for each in hour.futile if not each.is_trial] == []


@pytest.mark.parametrize("seed", [17, 22, 37, 53])
def test_an_hour(seed: int) -> None:
    hour = judged(drawn_course(seed), asks=True)

    assert hour.evictions
    assert [str(each) for each in hour.passing if each.plugin != GOES_ON] == []
    assert [str(each) for each in hour.longer] == []


def test_hours_of_work_need_a_third_of_what_a_poller_evicts() -> None:
    hours = [judged(drawn_work(seed), asks=False) for seed in range(12)]
    evictions = sum(len(hour.evictions) for hour in hours)

    assert 0 < 3 * evictions < sum(hour.polled.evictions for hour in hours)
    assert sum(hour.with_us.left for hour in hours) < sum(hour.without.left for hour in hours)
