"""Takes a search that yields between its steps to its end."""

from collections.abc import Generator
from typing import TypeVar

Found = TypeVar("Found")


def planned(steps: Generator[None, None, Found]) -> Found:
    """Return what a generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: Found = ended.value
            return found
