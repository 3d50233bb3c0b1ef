"""Intents of fake recorders: on the way to disk, or there at once."""

from collections.abc import Coroutine, Generator
from typing import Any

__all__ = ["BegunIntentFake"]


class BegunIntentFake:
    """An intent that is written by a coroutine, or, with an id, is on disk already."""

    def __init__(self, writing: Coroutine[Any, Any, str] | None = None, *, id_: str = "") -> None:
        self._writing = writing
        self._id = id_

    @property
    def is_durable(self) -> bool:
        """Whether it is on disk."""
        return self._writing is None

    def __await__(self) -> Generator[Any, Any, str]:
        if self._writing is None:
            return self._id
        return (yield from self._writing.__await__())
