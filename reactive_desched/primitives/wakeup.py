"""Wakes tasks that wait for a condition, any number of times, and keeps followers of events."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import anyio

__all__ = ["Epoch", "Followers", "Latch", "Wakeup"]

F = TypeVar("F")


class Followers(Generic[F]):
    """The followers of something: `all` of them, in the order in which they began."""

    __slots__ = ("all",)

    def __init__(self) -> None:
        self.all: tuple[F, ...] = ()

    @contextmanager
    def joined_by(self, follower: F) -> Iterator[None]:
        """Add a follower while the block lasts."""
        self.all = (*self.all, follower)
        try:
            yield
        finally:
            self.all = tuple(each for each in self.all if each is not follower)


class Wakeup:
    """Wakes every task that waits at this moment; a notification without a waiter is not kept.

    A waiter therefore checks its condition before each wait: `while not ready(): await w.wait()`.
    It loads nothing until one waits: previews, in which no task does, need no event loop.
    """

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def notify(self) -> None:
        """Wake the tasks that wait now."""
        event, self._event = self._event, None
        if event is not None:
            event.set()

    async def wait(self) -> None:
        """Return at the next notification."""
        if self._event is None:
            import anyio

            self._event = anyio.Event()
        await self._event.wait()


class Latch:
    """A condition that becomes true once: an `anyio.Event` that loads nothing until awaited."""

    def __init__(self) -> None:
        self._is_set = False
        self._changed = Wakeup()
        self._followers = Followers[Callable[[], None]]()

    def set(self) -> None:
        """Wake all tasks that wait; later waits return at once."""
        if not self._is_set:
            self._is_set = True
            for follower in self._followers.all:
                follower()
        self._changed.notify()

    @contextmanager
    def followed_by(self, follower: Callable[[], None]) -> Iterator[None]:
        """Call the follower, once, in the turn that sets it; at once where it is set already."""
        if self._is_set:
            follower()
        with self._followers.joined_by(follower):
            yield

    def is_set(self) -> bool:
        """Say whether it was set."""
        return self._is_set

    async def wait(self) -> None:
        """Return once it is set."""
        while not self._is_set:
            await self._changed.wait()


class Epoch:
    """A number that advances; what was begun at an earlier number counts no more.

    `reason` says why it advanced last.
    """

    def __init__(self) -> None:
        self.number = 0
        self.reason = ""
        self._advanced = Wakeup()

    def advance(self, reason: str) -> None:
        """Begin the next epoch."""
        self.number += 1
        self.reason = reason
        self._advanced.notify()

    async def wait_past(self, number: int) -> None:
        """Return when the epoch is later than this number."""
        while self.number <= number:
            await self._advanced.wait()
