"""Long answers in slices, between which the event loop has its turn."""

from collections.abc import Generator
from typing import Final, TypeVar

import anyio.lowlevel

from reactive_desched.primitives.loop_clock import loop_clock

SLICE_S: Final = 0.0005
"""How long an answer may hold the event loop before other tasks run."""

T = TypeVar("T")


async def in_slices(steps: Generator[None, None, T]) -> T:
    """Take the steps that lead to an answer, let other tasks run between them, and return it."""
    clock = loop_clock()
    until = clock() + SLICE_S
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: T = end.value
            return answer
        if clock() >= until:
            await anyio.lowlevel.checkpoint()
            until = clock() + SLICE_S
