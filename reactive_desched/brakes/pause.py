"""A person pauses evictions: with a command or a file, or with an annotation on some objects."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from reactive_desched.model.brakes import CLUSTER, MANUAL, BrakeNotice, SavedPause
from reactive_desched.text.times import format_second

BY_FILE: Final = "the pause file"
_NO: Final = frozenset({"", "false"})
_BY_ITSELF: Final = ", or by itself when its time is over"


class PauseText(Struct, frozen=True, gc=False):
    """The text of a pause file or annotation: a reason, and its end in seconds since the epoch."""

    reason: str
    until_s: float | None = None


def parse_pause(text: str) -> PauseText | None:
    """Read `true`, a reason, or until which RFC 3339 time; None for `false` and the empty text.

    A text that is none of them pauses, with the text as its reason: a mistake must not let go.
    """
    text = " ".join(text.split())
    if text.lower() in _NO:
        return None
    if text.lower() == "true":
        return PauseText("")
    try:
        until = datetime.fromisoformat(text)
    except ValueError:
        return PauseText(text)
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return PauseText("", until.timestamp())


class ManualPause:
    """The pause of a person, by command or by file.

    `now` is monotonic seconds and `wall_s` the time of day. A pause by command for a time ends by
    the monotonic clock; one whose file says until when ends by the time of day.
    """

    def __init__(self) -> None:
        self._command: SavedPause | None = None
        self._ends_at: float | None = None
        self._file_text = ""
        self._file: PauseText | None = None
        self._file_held = False
        self._file_since_s = 0.0

    @property
    def saved(self) -> SavedPause | None:
        """The pause by command, as it outlives a restart."""
        return self._command

    @property
    def file_text(self) -> str:
        """Return the text of the pause file; empty where there is none."""
        return self._file_text

    @property
    def reason(self) -> str:
        """Return who paused, why and until when; empty without a pause."""
        if (pause := self._command) is not None:
            return _describe(pause.by, pause.reason, pause.until_s)
        if self._file_held and self._file is not None:
            return _describe(BY_FILE, self._file.reason, self._file.until_s)
        return ""

    @property
    def since_s(self) -> float:
        """Return when a person's pause began, in seconds since the epoch; 0 where none holds."""
        return self._file_since_s if self._command is None else self._command.since_s

    @property
    def until_s(self) -> float | None:
        """Return when the pause ends by itself, in seconds of the epoch; None where it does not.

        Of a pause by command and one by file it is the later end.
        """
        ends = [] if self._command is None else [self._command.until_s]
        if self._file_held and self._file is not None:
            ends.append(self._file.until_s)
        known = [each for each in ends if each is not None]
        return max(known) if known and len(known) == len(ends) else None

    @property
    def release_text(self) -> str:
        """Return what ends the pause, for a person."""
        ends = []
        if self._command is not None:
            ends.append("`reactive-desched resume`")
        if self._file_held:
            ends.append("the removal of the pause file")
        if not ends:
            return ""
        if len(ends) > 1:
            return f"it ends by both {' and '.join(ends)}"
        return f"it ends by {ends[0]}{_BY_ITSELF if self.until_s is not None else ''}"

    def pause(
        self, by: str, reason: str, for_s: float | None, now: float, wall_s: float
    ) -> Iterator[BrakeNotice]:
        """Pause by command, for some seconds or until `resume`; replaces an earlier pause."""
        until_s = None if for_s is None else wall_s + for_s
        self._command = SavedPause(by, reason, wall_s, until_s)
        self._ends_at = None if for_s is None else now + for_s
        message = reason or "no reason given"
        yield BrakeNotice(MANUAL, CLUSTER, engaged=True, message=message, by=by, until_s=until_s)

    def resume(self, message: str, by: str = "") -> Iterator[BrakeNotice]:
        """End the pause by command."""
        if self._command is not None:
            self._command, self._ends_at = None, None
            yield BrakeNotice(MANUAL, CLUSTER, engaged=False, message=message, by=by)

    def restore(self, saved: SavedPause, now: float, wall_s: float) -> None:
        """Restore the pause of an earlier process; it lasts no longer than its whole length."""
        self._command = saved
        if saved.until_s is not None:
            left_s = min(saved.until_s - wall_s, saved.until_s - saved.since_s)
            self._ends_at = now + max(0.0, left_s)

    def set_file(self, text: str) -> None:
        """Apply the content of the pause file."""
        if text != self._file_text:
            self._file_text, self._file = text, parse_pause(text)

    def next_due(self, now: float, wall_s: float) -> float | None:
        """Return when a pause ends by itself."""
        due = self._ends_at
        if self._file_held and self._file is not None and self._file.until_s is not None:
            ends_at = now + max(0.0, self._file.until_s - wall_s)
            due = ends_at if due is None else min(due, ends_at)
        return due

    def update(self, now: float, wall_s: float) -> Iterator[BrakeNotice]:
        """Yield what began and what ended since the last call."""
        if self._ends_at is not None and self._ends_at <= now:
            yield from self.resume("its time is over")
        file = self._file
        held = file is not None and (file.until_s is None or file.until_s > wall_s)
        if held != self._file_held:
            self._file_held = held
            self._file_since_s = wall_s if held else 0.0
            until_s = file.until_s if held and file is not None else None
            message = (file.reason if held and file is not None else "") or "no reason given"
            yield BrakeNotice(
                MANUAL, CLUSTER, held, message if held else "it says so no more", BY_FILE, until_s
            )


def _describe(by: str, reason: str, until_s: float | None) -> str:
    text = f"paused by {by}"
    if until_s is not None:
        text = f"{text} until {format_second(until_s)}"
    return f"{text}: {reason}" if reason else text
