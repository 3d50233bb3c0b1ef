"""Large lists and dictionaries are freed a few items at a time."""

from itertools import pairwise

import pytest

from reactive_desched.primitives.long_answers import FREED_AT_ONCE, emptied, emptied_mapping


@pytest.mark.parametrize("count", [0, 1, FREED_AT_ONCE, 3 * FREED_AT_ONCE + 1])
def test_all_items_are_freed_a_few_at_a_time(count: int) -> None:
    items, mapping = list(range(count)), dict.fromkeys(range(count))

    left = [count, *(len(items) for _ in emptied(items))]
    left_of_mapping = [count, *(len(mapping) for _ in emptied_mapping(mapping))]

    assert left == left_of_mapping
    assert left[-1] == 0
    assert all(before - after <= FREED_AT_ONCE for before, after in pairwise(left))
