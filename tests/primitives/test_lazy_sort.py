"""The order is that of a sort, without a sort before the first item."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.primitives.long_answers import lazily_sorted


class Counted(str):
    """A text that counts how often it was compared."""

    __slots__ = ()
    comparisons = 0

    def __lt__(self, other: str) -> bool:
        Counted.comparisons += 1
        return str.__lt__(self, other)


@given(st.lists(st.integers()))
def test_the_order_is_that_of_a_sort(items: list[int]) -> None:
    assert list(lazily_sorted(tuple(items))) == sorted(items)
    assert list(lazily_sorted(list(items))) == sorted(items)


def test_a_list_keeps_nothing_that_was_yielded() -> None:
    items = [3, 1, 2]

    left = [(item, sorted(items)) for item in lazily_sorted(items)]

    assert left == [(1, [2, 3]), (2, [3]), (3, [])]


def test_the_first_item_comes_after_a_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "comparisons", 0)
    names = [Counted(f"node-{number * 7919 % 4096}") for number in range(4096)]

    assert next(lazily_sorted(names)) == "node-0"

    assert Counted.comparisons < 2.5 * 4096
