from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.primitives.sliced_sort import SLICE, sort_in_slices


@given(st.lists(st.tuples(st.integers(0, 9), st.integers()), max_size=600))
def test_a_list_is_sorted_as_at_once_and_what_is_equal_keeps_its_order(
    items: list[tuple[int, int]],
) -> None:
    found: list[list[tuple[int, int]]] = []

    def sort() -> Iterator[None]:
        found.append((yield from sort_in_slices(items, key=lambda each: each[0])))

    assert len(list(sort())) >= len(items) // SLICE
    assert found == [sorted(items, key=lambda each: each[0])]
