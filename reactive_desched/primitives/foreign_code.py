"""Marks calls of code of another package, and distinguishes what that raises itself."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, NoReturn, TypeVar

from reactive_desched.primitives.long_answers import AnswerTakesLong

_CallerT = TypeVar("_CallerT", bound=Callable[..., Any])

_callers: set[CodeType] = set()
_receivers: list[object] = []
"""What receives SIGINT now, or marks what it raises, one entry each."""


class _InterruptedBySignal(KeyboardInterrupt):
    """SIGINT arrived in a block of `interrupts_marked`."""


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


@contextmanager
def interrupts_marked() -> Iterator[None]:
    """Let only SIGINT interrupt the block: a KeyboardInterrupt that a call raises is a fault there.

    For the main thread. Another handler of SIGINT stays, and so does SIGINT ignored.
    """
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with interrupts_received():
        if is_ours:
            signal.signal(signal.SIGINT, _interrupt)
        try:
            yield
        finally:
            if is_ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise _InterruptedBySignal


def is_fault(error: BaseException) -> bool:
    """Say whether the code that was called raised an exception of its own, of whatever type.

    An exit, or memory that a call asked for in vain, ends that call and nothing else. A signal
    raises KeyboardInterrupt wherever the process is, unless the signal is received or its exception
    is marked; GeneratorExit closes a generator, at its own line; and AnswerTakesLong is raised by
    what the code asked.
    """
    if isinstance(error, KeyboardInterrupt):
        return bool(_receivers) and not isinstance(error, _InterruptedBySignal)
    if isinstance(error, GeneratorExit):
        return error.__traceback__ is not None and error.__traceback__.tb_next is not None
    return not isinstance(error, AnswerTakesLong)
