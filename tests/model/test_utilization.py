"""A node has one class, by the per cent of what is used and by the amounts."""

from hypothesis import example, given
from hypothesis import strategies as st

from reactive_desched.model.objects import Node
from reactive_desched.model.utilization import Thresholds, percentages

CAPACITIES = st.integers(0, 10) | st.integers(0, 2**50)
PER_CENT = st.integers(0, 100) | st.floats(0, 100)


@given(
    capacity=CAPACITIES,
    low=PER_CENT,
    high=PER_CENT,
    share=st.floats(0, 1.5),
    beside=st.integers(-2, 2),
    memory=st.none() | st.integers(0, 200),
)
@example(capacity=3, low=33, high=66, share=0.66, beside=0, memory=None)
@example(capacity=100, low=29, high=57, share=0.57, beside=0, memory=None)  # 0.57 * 100 is 56.99…
def test_the_amounts_of_a_node_give_the_class_that_its_percentages_give(
    capacity: int, low: float, high: float, share: float, beside: int, memory: int | None
) -> None:
    thresholds = Thresholds({"cpu": low, "memory": 40}, {"cpu": high, "memory": 70})
    has = Node("n1", allocatable={"cpu": capacity, "memory": 100})
    for near in (low / 100, high / 100, share):
        used = {"cpu": max(0, int(near * capacity) + beside)}
        if memory is not None:
            used["memory"] = memory

        by_percent = thresholds.classify(percentages(used, has, thresholds.low))

        assert thresholds.bounds_on(has).classify(used) is by_percent
