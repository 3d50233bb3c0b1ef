"""Shows on a terminal how much has been read; elsewhere nothing."""

from collections.abc import Callable
from typing import Final, TextIO

__all__ = ["Progress", "ProgressBar"]

_UPDATES_PER_S: Final = 10
_CELLS: Final = 30
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """Shows nothing."""

    def update(self, what: str, done: int, total: int = 0) -> None:
        """Show that `done` of `total` bytes have been read; 0 where the size is unknown."""

    def finish(self) -> None:
        """End the display."""


class ProgressBar(Progress):
    """One line on a terminal, which changes ten times a second at most."""

    def __init__(self, terminal: TextIO, clock: Callable[[], float]) -> None:
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

    def finish(self) -> None:
        """Clear the line, if there is one."""
        if self._shown:
            self._terminal.write(_CLEAR)
            self._terminal.flush()


def _bar(share: float) -> str:
    full = round(share * _CELLS)
    return f"[{'#' * full}{'.' * (_CELLS - full)}] {share:4.0%}"
