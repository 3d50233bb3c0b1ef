"""Counts the steps that lead to an answer."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def counted(steps: Generator[None, None, T]) -> tuple[int, T]:
    """Take all the steps; return how many there were, and the answer."""
    number = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: T = end.value
            return number, answer
        number += 1
