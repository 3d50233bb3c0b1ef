"""Long answers in slices, between which the event loop has its turn."""

from collections.abc import Iterator
from typing import Final, TypeVar

import anyio.lowlevel

from reactive_desched.primitives.loop_clock import loop_clock

SLICE_S: Final = 0.0005
"""How long an answer may hold the event loop before other tasks run."""

T = TypeVar("T")


async def in_slices(steps: Iterator[T | None]) -> T:
    """Return the first of the steps that is not None, and let other tasks run between them."""
    clock = loop_clock()
    until = clock() + SLICE_S
    for found in steps:
        if found is not None:
            return found
        if clock() >= until:
            await anyio.lowlevel.checkpoint()
            until = clock() + SLICE_S
    raise AssertionError("the last step is the answer")


def at_once(steps: Iterator[T | None]) -> T:
    """Return the same without an event loop, for commands."""
    for found in steps:
        if found is not None:
            return found
    raise AssertionError("the last step is the answer")
