"""Answers that take longer than a turn of the event loop may: an evaluation has them in steps.

Also what is sorted, or freed, in steps, as either at once would hold the event loop.
"""

from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    MutableMapping,
    MutableSequence,
    Sequence,
)
from heapq import heapify, heappop, merge
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

PORTION: Final = 100
"""So many pods, or labels, are looked at in a step: a few tenths of a millisecond."""

MAX_AWAITED: Final = 64
"""A question that takes so many answers is left to the evaluation, which keeps them all."""

FREED_AT_ONCE: Final = 256
"""So many items are freed before the event loop may have its turn."""

ItemT = TypeVar("ItemT")
OrderedT = TypeVar("OrderedT", bound=Any)  # that two of them can be compared no type says


def portions(items: Sequence[ItemT]) -> Iterator[Sequence[ItemT]]:
    """Yield items in portions of one step."""
    return (items[at : at + PORTION] for at in range(0, len(items), PORTION))


def sorted_portions(
    items: Sequence[ItemT], order: Callable[[ItemT], Any]
) -> Iterator[Sequence[ItemT]]:
    """Yield items in their order, in portions of one step; empty ones while they are sorted.

    Items that fit into one portion are sorted in the first step.
    """
    runs: list[list[tuple[Any, ItemT]]] = []
    for portion in portions(items):
        runs.append(sorted(zip(map(order, portion), portion, strict=True), key=itemgetter(0)))
        if len(items) > PORTION:
            yield ()
    merged = merge(*runs, key=itemgetter(0))
    while portion := [item for _, item in islice(merged, PORTION)]:
        yield portion


def lazily_sorted(items: Iterable[OrderedT]) -> Iterator[OrderedT]:
    """Yield items, the smallest first; each is looked for when it is its turn.

    The first of 15,000 names of nodes comes after a tenth of the time that sorting them takes. A
    list is emptied meanwhile: to free all its items at once would hold the event loop, too.
    """
    heap = items if isinstance(items, list) else list(items)
    heapify(heap)
    while heap:
        yield heappop(heap)


def emptied(items: MutableSequence[Any]) -> Iterator[None]:  # Any: of any items
    """Empty a large list from its end, and yield after every few items: each is freed then."""
    while items:
        del items[-FREED_AT_ONCE:]
        yield


def emptied_mapping(items: MutableMapping[Any, Any]) -> Iterator[None]:  # Any: of any items
    """Do the same with a dictionary."""
    while items:
        for _ in range(min(FREED_AT_ONCE, len(items))):
            items.popitem()
        yield


def at_once(steps: Generator[object, None, ItemT]) -> ItemT:
    """Take all the steps that lead to an answer, and return it."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: ItemT = end.value
            return answer


class InPortions(Generic[ItemT]):
    """Items that are found in portions, between which the cluster may change: iterate once.

    Some portions may be empty.
    """

    def __init__(self, portions: Iterator[Collection[ItemT]]) -> None:
        self.portions: Final = portions

    def __iter__(self) -> Iterator[ItemT]:
        return chain.from_iterable(self.portions)


class AnswerTakesLong(BaseException):
    """The answer is not there yet: take all the steps, and ask again.

    It passes through code that does not expect it, and so it is no Exception: a plugin that catches
    whatever goes wrong would take it for that.
    """

    def __init__(self, steps: Iterator[None]) -> None:
        super().__init__("the answer takes several steps")
        self.steps = steps


def awaited(ask: Callable[[], ItemT]) -> Generator[None, None, ItemT]:
    """Return an answer once it is there, and take its steps before: a plan need not be left.

    Not for ever: answers that do not find room beside each other are no longer awaited here.
    """
    for _ in range(MAX_AWAITED):
        try:
            return ask()
        except AnswerTakesLong as asked:
            yield from asked.steps
    return ask()


class LongAnswers:
    """Says whether AnswerTakesLong is wanted, within a block of it, or an answer at once.

    `awaited` says that an evaluation has waited for answers and will ask for them all again: they
    have to be kept until then.
    """

    def __init__(self) -> None:
        self.in_steps = self.awaited = False

    def __enter__(self) -> None:
        self.in_steps = True

    def __exit__(self, *_: object) -> None:
        self.in_steps = False

    def wait(self) -> None:
        """Note that an evaluation waits for an answer."""
        self.awaited = True

    def end_wait(self) -> None:
        """Note that no evaluation under way has waited for one."""
        self.awaited = False
