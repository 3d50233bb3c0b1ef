"""Frees what is large in slices: to free it at once would hold the event loop."""

from collections.abc import Iterator, MutableMapping, MutableSequence
from typing import Any, Final

FREED_AT_ONCE: Final = 256
"""So many items are freed before the event loop may have its turn."""


def emptied(items: MutableSequence[Any]) -> Iterator[None]:  # Any: of any items
    """Empty a list from its end, and yield after every few items."""
    while items:
        del items[-FREED_AT_ONCE:]
        yield


def emptied_mapping(items: MutableMapping[Any, Any]) -> Iterator[None]:  # Any: of any items
    """Do the same with a dictionary."""
    while items:
        for _ in range(min(FREED_AT_ONCE, len(items))):
            items.popitem()
        yield
