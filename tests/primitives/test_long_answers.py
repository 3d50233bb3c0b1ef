"""Many items are sorted in steps, none of which looks at many."""

import random

from reactive_desched.primitives.long_answers import PORTION, sorted_portions


def test_items_come_in_their_order_and_no_step_looks_at_more_than_a_portion() -> None:
    items = [(number % 40, number) for number in random.Random(1).sample(range(950), 950)]
    looked_at: list[tuple[int, int]] = []

    def order(item: tuple[int, int]) -> tuple[int, int]:
        looked_at.append(item)
        return item

    found: list[tuple[int, int]] = []
    for portion in sorted_portions(items, order):
        assert max(len(looked_at), len(portion)) <= PORTION
        looked_at.clear()
        found += portion

    assert found == sorted(items)


def test_items_of_equal_rank_keep_their_order() -> None:
    items = [(number % 3, number) for number in range(350)]

    found = [each for portion in sorted_portions(items, lambda item: item[0]) for each in portion]

    assert found == sorted(items, key=lambda item: item[0])


def test_few_items_come_in_the_first_step() -> None:
    assert list(sorted_portions([3, 1, 2], lambda item: item)) == [[1, 2, 3]]
    assert list(sorted_portions([], lambda item: 0)) == []
