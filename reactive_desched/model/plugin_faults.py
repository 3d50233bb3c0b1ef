"""What a plugin may not do, and what is said of one that does: its faults stay its own."""

from collections.abc import Callable
from traceback import format_exception
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.findings import Finding, RequeueAfter, YieldPoint
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.bounded_text import MAX_TEXT_CHARS, bounded_name, escaped, truncate

MAX_DETAILS: Final = 64
"""So many figures a finding may have; further ones are left out."""

MAX_ERROR_CHARS: Final = 400
MAX_TRACEBACK_CHARS: Final = 8000

Opinion = Finding | RequeueAfter | YieldPoint


class PluginFault(Struct, frozen=True):
    """An exception of a plugin, and what follows from it.

    `subject` names what the plugin was asked about, `cause` the exception. The `traceback` is empty
    where the plugin had such an exception at that line before. The subject is evaluated again in
    `retry_s`, unless the plugin `is_off` from now on; a sweep tries nothing again.
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
            return (
                f"off since it failed {self.in_a_row} times in a row, last on {self.subject}:"
                f" {self.cause}; mend it and restart, or take it out of the policy"
            )
        if not self.retry_s:
            return f"failed in {self.subject}: {self.cause}; the other plugins went on"
        return f"failed on {self.subject}: {self.cause}; tried again in {self.retry_s:.0f} s"


def describe_error(error: BaseException) -> str:
    """Return the type and the text of an exception, on one line."""
    try:
        text = truncate(" ".join(str(error).split()), MAX_ERROR_CHARS)
    except Exception:  # noqa: BLE001 -- the text, too, is made by the code that failed
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an exception, its end if it is long."""
    return "".join(format_exception(error))[-MAX_TRACEBACK_CHARS:]


def ask_for_text(question: Callable[[], str]) -> str:
    """Return what a plugin says for people, or what it raised in place of that."""
    try:
        return question()
    except Exception as error:  # noqa: BLE001 -- a plugin may raise anything
        return _failed(error)


def ask_for_obstacles(question: Callable[[], Callable[[Pod], str]]) -> Callable[[Pod], str]:
    """Return what says of a pod why it stays, or what the plugin raised in place of that."""
    try:
        obstacle = question()
    except Exception as error:  # noqa: BLE001 -- as above
        text = _failed(error)
        return lambda _: text
    return lambda pod: ask_for_text(lambda: obstacle(pod))


def _failed(error: Exception) -> str:
    return f"the plugin failed: {describe_error(error)}"


def sweep_fault(profile: str, plugin: str, error: Exception) -> PluginFault:
    """Return the fault of a plugin in a sweep, which goes on without it."""
    cause, traceback = describe_error(error), traceback_of(error)
    return PluginFault(profile, plugin, "this sweep", cause, traceback)


def checked_opinion(opinion: object) -> Opinion:
    """Return a plugin's opinion with texts of a length; raises TypeError for what is none."""
    if isinstance(opinion, (RequeueAfter, YieldPoint)):
        return opinion
    return checked_finding(opinion)


def checked_finding(finding: object) -> Finding:
    """Return a plugin's finding with texts of a length; raises TypeError for what is none."""
    if not isinstance(finding, Finding):
        raise TypeError(f"it yielded {type(finding).__name__}, which is no Finding")
    message, details = finding.message, finding.details
    if not isinstance(message, str):
        raise TypeError(f"the message of a finding is {type(message).__name__}, not a text")
    for name, value in details.items():
        if not isinstance(value, (int, str)):
            raise TypeError(f"{name} of a finding is {type(value).__name__}: no number, no text")
    if len(message) <= MAX_TEXT_CHARS and message.isprintable() and len(details) <= MAX_DETAILS:
        return finding
    kept = list(details.items())[:MAX_DETAILS]
    return replace(
        finding,
        message=escaped(truncate(message)),
        details={bounded_name(name): value for name, value in kept},
    )
