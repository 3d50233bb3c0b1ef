"""Describes the faults of a plugin, which end neither the controller nor other plugins."""

from collections.abc import Callable
from traceback import format_exception
from typing import Final, TypeVar

from msgspec import Struct

from reactive_desched.errors import EvaluationEndless, PluginHung
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.bounded_text import (
    bounded_name,
    escaped,
    shown,
    truncate,
)
from reactive_desched.primitives.foreign_code import calls_foreign_code, is_fault

MAX_ERROR_CHARS: Final = 400
MAX_TRACEBACK_CHARS: Final = 8000

UNENDING: Final = (PluginHung, EvaluationEndless)
"""A plugin that raises these held up everything else for seconds, until it was ended."""


class PluginFault(Struct, frozen=True):
    """An exception of a plugin, and what follows from it.

    `subject` names what the plugin was asked about, `cause` the exception. The `traceback` is empty
    where the plugin had such an exception at that line before. The subject is evaluated again in
    `retry_s`, unless the plugin `is_off` from now on; a sweep tries nothing again. With none
    `in_a_row`, the `subject` says what of the plugin failed so that it is off at once.
    """

    profile: str
    plugin: str
    subject: str
    cause: str
    traceback: str
    is_off: bool = False
    in_a_row: int = 0
    retry_s: float = 0.0

    @property
    def message(self) -> str:
        """Say what happens now, for people."""
        if self.is_off:
            since = f"it failed {self.in_a_row} times in a row, last on {self.subject}"
            return (
                f"off since {since if self.in_a_row else self.subject}:"
                f" {self.cause}; mend it and restart, or take it out of the policy"
            )
        if not self.retry_s:
            return f"failed in {self.subject}: {self.cause}; the other plugins went on"
        return f"failed on {self.subject}: {self.cause}; tried again {self.retry_s:.0f} s later"

    @property
    def incomplete(self) -> str:
        """Name plugin and subject for people who look at what would be evicted, and what to do."""
        return (
            f"plugin {self.plugin} of profile {self.profile} failed ({self.subject}): {self.cause}"
            "; what it finds is not complete here: mend it, or take it out of the policy"
        )


class SlowPlugin(Struct, frozen=True):
    """The calls of a plugin that held the event loop since the last such report.

    `subject` names what the longest of them was about.
    """

    plugin: str
    subject: str
    longest_s: float
    calls: int

    @property
    def message(self) -> str:
        """Say what happened, for people, and what to do."""
        calls = "one call" if self.calls == 1 else f"{self.calls} calls, the longest"
        return (
            f"{calls} held the event loop for {self.longest_s:.2f} s, on {self.subject}: nothing"
            " else ran meanwhile; its author can make its calls shorter, and a CPU limit that is"
            " too low looks the same"
        )


@calls_foreign_code
def describe_error(error: BaseException) -> str:
    """Return the type and the text of an exception, on one line."""
    try:
        text = escaped(truncate(" ".join(str(error).split()), MAX_ERROR_CHARS))
    except BaseException as failure:
        if not is_fault(failure):
            raise
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an exception, its end if it is long, for a terminal to show."""
    lines = "".join(format_exception(error))[-MAX_TRACEBACK_CHARS:].split("\n")
    return "\n".join(map(escaped, lines))


AnswerT = TypeVar("AnswerT")


@calls_foreign_code
def ask_plugin(
    question: Callable[[], AnswerT], otherwise: Callable[[BaseException], AnswerT]
) -> AnswerT:
    """Return a plugin's answer, or what stands for it where the plugin raises an exception."""
    try:
        return question()
    except BaseException as error:
        if not is_fault(error):
            raise
        return otherwise(error)


@calls_foreign_code
def ask_for_text(question: Callable[[], str]) -> str:
    """Return what a plugin says for people, or what it raised in place of that."""
    try:
        return _checked_text(question())
    except BaseException as error:
        if not is_fault(error):
            raise
        return _failed(error)


def _checked_text(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"it said {type(text).__name__}, which is no text")
    return shown(text)


@calls_foreign_code
def ask_for_obstacles(question: Callable[[], Callable[[Pod], str]]) -> Callable[[Pod], str]:
    """Return what says of a pod why it stays, or what the plugin raised in place of that."""
    try:
        obstacle = question()
    except BaseException as error:
        if not is_fault(error):
            raise
        text = _failed(error)
        return lambda _: text
    return _Obstacles(obstacle).of


class _Obstacles:
    """Asks a plugin why pods stay, until a call had to be ended: each would take as long."""

    def __init__(self, obstacle: Callable[[Pod], str]) -> None:
        self._obstacle = obstacle
        self._ended = ""

    @calls_foreign_code
    def of(self, pod: Pod) -> str:
        """Return what the plugin says of a pod, or what it raised in place of that."""
        if self._ended:
            return self._ended
        try:
            return _checked_text(self._obstacle(pod))
        except BaseException as error:
            if not is_fault(error):
                raise
            text = _failed(error)
            if isinstance(error, UNENDING):
                self._ended = text
            return text


def _failed(error: BaseException) -> str:
    return f"the plugin failed: {describe_error(error)}"


def sweep_fault(profile: str, plugin: str, error: BaseException) -> PluginFault:
    """Return the fault of a plugin in a sweep, which goes on without it.

    A note of the exception names what the plugin was asked about.
    """
    asked_about = next(iter(getattr(error, "__notes__", ())), "")
    subject = ", ".join(filter(None, ("this sweep", bounded_name(escaped(str(asked_about))))))
    return plugin_fault(profile, plugin, subject, error)


def plugin_fault(profile: str, plugin: str, subject: str, error: BaseException) -> PluginFault:
    """Return the fault of a plugin that is not asked again."""
    return PluginFault(profile, plugin, subject, describe_error(error), traceback_of(error))
