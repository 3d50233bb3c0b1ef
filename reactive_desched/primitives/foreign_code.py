"""Marks calls of code of another package, and distinguishes what that raises itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, TypeVar

from reactive_desched.primitives.long_answers import AnswerTakesLong

_CallerT = TypeVar("_CallerT", bound=Callable[..., Any])

_callers: set[CodeType] = set()
_receivers: list[object] = []
"""What receives SIGINT now, one entry each."""


def calls_foreign_code(function: _CallerT) -> _CallerT:
    """Mark a function that calls code of another package, and isolates whatever that raises."""
    _callers.add(function.__code__)
    return function


def is_caller(code: CodeType) -> bool:
    """Say whether the code is that of a function so marked."""
    return code in _callers


@contextmanager
def interrupts_received() -> Iterator[None]:
    """Let a KeyboardInterrupt count as a fault in the block: SIGINT raises none there."""
    receiver = object()
    _receivers.append(receiver)
    try:
        yield
    finally:
        _receivers.remove(receiver)


def is_fault(error: BaseException) -> bool:
    """Say whether the code that was called raised an exception of its own, of whatever type.

    An exit, or memory that a call asked for in vain, ends that call and nothing else. A signal
    raises KeyboardInterrupt wherever the process is, unless the signal is received; GeneratorExit
    closes a generator, at its own line; and AnswerTakesLong is raised by what the code asked.
    """
    if isinstance(error, KeyboardInterrupt):
        return bool(_receivers)
    if isinstance(error, GeneratorExit):
        return error.__traceback__ is not None and error.__traceback__.tb_next is not None
    return not isinstance(error, AnswerTakesLong)
