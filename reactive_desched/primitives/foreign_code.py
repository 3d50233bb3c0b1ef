"""Marks calls of code of another package, and distinguishes what that raises itself."""

from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

from reactive_desched.primitives.long_answers import AnswerTakesLong

_CallerT = TypeVar("_CallerT", bound=Callable[..., Any])

_callers: set[CodeType] = set()


def calls_foreign_code(function: _CallerT) -> _CallerT:
    """Mark a function that calls code of another package, and isolates whatever that raises."""
    _callers.add(function.__code__)
    return function


def is_caller(code: CodeType) -> bool:
    """Say whether the code is that of a function so marked."""
    return code in _callers


def is_fault(error: BaseException) -> bool:
    """Say whether the code that was called raised an exception of its own, of whatever type.

    An exit, or memory that a call asked for in vain, ends that call and nothing else. A signal
    raises KeyboardInterrupt wherever the process is; GeneratorExit closes a generator; and
    AnswerTakesLong is raised by what the code asked.
    """
    return not isinstance(error, (KeyboardInterrupt, GeneratorExit, AnswerTakesLong))
