"""How far a rolling update may go."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.sim.controllers.rollout import (
    Limits,
    Size,
    limits_of,
    next_new_size,
    next_old_sizes,
)


@pytest.mark.parametrize(
    ("replicas", "rolling", "expected"),
    [
        pytest.param(8, {}, Limits(2, 2), id="a quarter of eight both ways"),
        pytest.param(3, {}, Limits(1, 0), id="surge rounds up, unavailability down"),
        pytest.param(1, {"maxSurge": 0, "maxUnavailable": 0}, Limits(0, 1), id="never stuck"),
        pytest.param(2, {"maxSurge": 3, "maxUnavailable": 9}, Limits(3, 2), id="no more than all"),
    ],
)
def test_the_limits_of_a_rolling_update(
    replicas: int, rolling: dict[str, Any], expected: Limits
) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}

    assert limits_of({"spec": {"replicas": replicas, "strategy": strategy}}) == expected


def test_the_new_set_grows_into_what_the_old_ones_leave() -> None:
    assert next_new_size(8, Limits(2, 2), new=0, old_total=8) == 2
    assert next_new_size(8, Limits(2, 2), new=2, old_total=6) == 4
    assert next_new_size(8, Limits(2, 2), new=9, old_total=0) == 8


def test_unhealthy_old_pods_go_before_healthy_ones() -> None:
    old = [Size(wanted=4, available=4), Size(wanted=4, available=1)]

    assert next_old_sizes(8, Limits(2, 2), Size(2, 1), old) == [4, 1]


sizes = st.builds(lambda w, a: Size(w, min(w, a)), st.integers(0, 10), st.integers(0, 10))


@given(
    st.integers(0, 10),
    st.builds(Limits, st.integers(0, 5), st.integers(1, 5)),
    sizes,
    st.lists(sizes, max_size=3),
)
def test_shrinking_old_sets_never_takes_available_pods_below_the_limit(
    replicas: int, limits: Limits, new: Size, old: list[Size]
) -> None:
    shrunk = next_old_sizes(replicas, limits, new, old)

    before = new.available + sum(size.available for size in old)
    # The pods that go are the unavailable ones first.
    after = new.available + sum(
        min(left, size.available) for left, size in zip(shrunk, old, strict=True)
    )
    assert after >= min(before, replicas - limits.unavailable)
    assert all(0 <= left <= size.wanted for left, size in zip(shrunk, old, strict=True))
