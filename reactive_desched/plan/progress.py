"""Shows on a terminal how much has been read, and everywhere what is waited for."""

from collections.abc import Callable
from typing import Final, TextIO

__all__ = ["Progress", "ProgressBar", "ProgressNotes", "progress_on"]

_UPDATES_PER_S: Final = 10
_CELLS: Final = 30
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """Shows nothing."""

    def update(self, what: str, done: int, total: int = 0) -> None:
        """Show that `done` of `total` bytes have been read; 0 where the size is unknown."""

    def note(self, text: str) -> None:
        """Say why this takes longer than it should."""

    def finish(self) -> None:
        """End the display."""


class ProgressNotes(Progress):
    """Lines about what is waited for, and nothing else."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def note(self, text: str) -> None:
        """Write a line."""
        self._output.write(f"waiting: {text}\n")
        self._output.flush()


class ProgressBar(ProgressNotes):
    """One line on a terminal, which changes ten times a second at most."""

    def __init__(self, terminal: TextIO, clock: Callable[[], float]) -> None:
        super().__init__(terminal)
        self._terminal = terminal
        self._clock = clock
        self._next_s = 0.0
        self._shown = False

    def update(self, what: str, done: int, total: int = 0) -> None:
        """Show the bar, or a number where the size is unknown."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._next_s = now_s + 1 / _UPDATES_PER_S
        self._shown = True
        self._terminal.write(
            f"{_CLEAR}{what} {_bar(min(done / total, 1.0)) if total else f'{done:,}'}"
        )
        self._terminal.flush()

    def note(self, text: str) -> None:
        """Write a line that stays."""
        self.finish()
        super().note(text)

    def finish(self) -> None:
        """Clear the line, if there is one."""
        if self._shown:
            self._shown = False
            self._terminal.write(_CLEAR)
            self._terminal.flush()


def progress_on(output: TextIO, clock: Callable[[], float]) -> Progress:
    """Return a bar for a terminal, and else what only writes why something takes long."""
    return ProgressBar(output, clock) if output.isatty() else ProgressNotes(output)


def _bar(share: float) -> str:
    full = round(share * _CELLS)
    return f"[{'#' * full}{'.' * (_CELLS - full)}] {share:4.0%}"
