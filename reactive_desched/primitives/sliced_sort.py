"""Sorts a long list in slices, between which the event loop may have its turn."""

from collections.abc import Callable, Generator, Sequence
from heapq import merge
from typing import Any, Final, TypeVar

SLICE: Final = 128
"""So many items are sorted, or put in their place, in some tenths of a millisecond."""

T = TypeVar("T")


def sort_in_slices(
    items: Sequence[T], key: Callable[[T], Any]
) -> Generator[None, None, list[T]]:  # Any: whatever can be compared
    """Yield wherever the event loop may have its turn; return the items in order, as `sorted`."""
    runs = []
    for begin in range(0, len(items), SLICE):
        runs.append(sorted(items[begin : begin + SLICE], key=key))
        yield
    found: list[T] = []
    for item in merge(*runs, key=key):
        found.append(item)
        if len(found) % SLICE == 0:
            yield
    return found
