"""Intents of fake recorders: on the way to disk, or there at once."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any

__all__ = ["BegunIntentFake"]


class BegunIntentFake:
    """An intent that `write` writes when it is awaited, or, with an id, is on disk already."""

    def __init__(self, write: Callable[[], Awaitable[str]] | None = None, *, id_: str = "") -> None:
        self._write = write
        self._id = id_

    @property
    def is_durable(self) -> bool:
        """Whether it is on disk."""
        return self._write is None

    def __await__(self) -> Generator[Any, Any, str]:
        if self._write is None:
            return self._id
        return (yield from self._write().__await__())
