"""One spike moves nothing: averages, percentiles, agreement and dead bands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.model.usage import NodeUsage
from reactive_desched.usage.smoothing import (
    Confirmation,
    Ewma,
    Percentile,
    Smoother,
    SmoothingRule,
    Step,
)


def believed(step: Step, *values: int) -> list[int]:
    return [step.take(value) for value in values]


def test_the_average_is_the_sig_deschedulers_to_the_last_unit() -> None:
    assert believed(Ewma(0.1), 1400, 500, 900) == [1400, 1310, 1269]


def test_it_comes_within_five_units_of_a_value_that_stays() -> None:
    average = believed(Ewma(0.1), 1400, 500, *[900] * 300)

    assert abs(average[-1] - 900) <= 5


def test_halves_are_rounded_up() -> None:
    assert believed(Ewma(0.5), 4, 1, 4, 2) == [4, 3, 4, 3]  # 2.5, 3.5 and 3


@pytest.mark.parametrize(("percent", "expected"), [(100, 9), (90, 9), (80, 7), (50, 3), (1, 1)])
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    percent: float, expected: int
) -> None:
    assert believed(Percentile(5, percent), 5, 3, 9, 1, 3, 7, 9, 3, 1, 3)[-1] == expected


def test_a_value_counts_when_enough_of_the_last_samples_reach_it() -> None:
    assert believed(Confirmation(3, 5), 20, 20, 90, 90, 20, 90, 90, 20, 20, 20) == [
        *(20, 20, 20, 20, 20),
        *(90, 90),  # three of the last five
        *(90, 20, 20),
    ]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(0, 100))
def test_it_is_above_a_threshold_exactly_when_so_many_samples_are(
    values: list[int], threshold: int
) -> None:
    last = believed(Confirmation(2, 3), *values)[-1]
    recent = values[-3:]
    needed = min(2, len(recent))

    assert (last > threshold) == (sum(value > threshold for value in recent) >= needed)


def sample(cpu: int, at_s: float, node: str = "n1", memory: int = 5) -> NodeUsage:
    return NodeUsage("x", node, {"cpu": cpu, "memory": memory}, at_s, {"a/b": {"cpu": 1}})


def smooth(smoother: Smoother, *samples: NodeUsage) -> list[int | None]:
    taken = [smoother.take(each) for each in samples]
    return [None if each is None else each.usage["cpu"] for each in taken]


def smoother(**rule: float) -> Smoother:
    return Smoother(SmoothingRule(**rule), lambda node, resource: 1000)  # type: ignore[arg-type]  # as a test writes them


def test_without_a_rule_samples_are_passed_on() -> None:
    assert smoother().take(sample(7, 1.0)) == sample(7, 1.0)


def test_the_steps_follow_each_other() -> None:
    found = smooth(
        smoother(weight=0.5, agree=2, of=2), *(sample(cpu, n) for n, cpu in enumerate((0, 8, 8, 8)))
    )

    assert found == [0, 0, 4, 6]  # of the averages 0, 4, 6, 7


def test_a_sample_is_counted_once_by_its_time() -> None:
    found = smooth(smoother(weight=0.5), sample(0, 1), sample(8, 1), sample(8, 0), sample(8, 2))

    assert found == [0, None, None, 4]


def test_nodes_are_smoothed_apart_and_forgotten_alone() -> None:
    each = smoother(weight=0.5)
    smooth(each, sample(0, 1), sample(100, 1, "n2"))
    each.forget("n1")

    assert smooth(each, sample(50, 2), sample(50, 2, "n2")) == [50, 75]


def test_a_change_within_the_dead_band_is_not_taken_in() -> None:
    values = (500, 549, 451, 550, 501, 500)

    found = smooth(smoother(dead_band=5), *(sample(cpu, n) for n, cpu in enumerate(values)))

    assert found == [500, 500, 500, 550, 550, 500]


def test_pods_are_passed_on_as_they_were_measured() -> None:
    each = smoother(weight=0.5)
    each.take(sample(0, 1))
    taken = each.take(sample(8, 2))

    assert taken is not None
    assert taken.pods == {"a/b": {"cpu": 1}}
    assert taken.sampled_s == 2
