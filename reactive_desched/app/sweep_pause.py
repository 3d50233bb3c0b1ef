"""The pause of a person, as a single sweep heeds it: it evicts nothing while one holds.

Of the brakes a sweep has this one alone: the others weigh what happens over time.
"""

import time
from pathlib import Path
from typing import Final

from reactive_desched.app.pausing import FILE, POLL_INTERVAL_S, read_kept, read_pause_file
from reactive_desched.brakes.pause import ManualPause
from reactive_desched.telemetry.logs import Logger


class SweepPause:
    """The pause file, and a pause by command that a controller kept in the same journal's folder.

    `pause_file` is empty where there is none.
    """

    def __init__(self, pause_file: str) -> None:
        self._pause_file: Final = pause_file
        self._pause = ManualPause()
        self._read_at: float | None = None
        self._kept_in = ""

    async def restore(self, directory: Path, log: Logger) -> None:
        """Go on with the pause that a controller kept there, and read the pause file."""
        kept = await read_kept(directory / FILE, log)
        if kept.pause is not None:
            self._pause.restore(kept.pause, time.monotonic(), time.time())
            self._kept_in = f" (kept in {directory / FILE})"
        await self.refresh()

    async def refresh(self) -> None:
        """Read the pause file, at most once a second; a pause whose time is over ends."""
        now = time.monotonic()
        is_due = self._read_at is None or now - self._read_at >= POLL_INTERVAL_S
        if is_due and self._pause_file:
            self._read_at = now
            self._pause.set_file(await read_pause_file(self._pause_file))
        for _ in self._pause.update(now, time.time()):
            pass  # a sweep records no brakes: it is over before any is released

    @property
    def message(self) -> str:
        """Return who paused, why and until when, and what ends it; empty without a pause."""
        pause = self._pause
        kept = self._kept_in if pause.saved is not None else ""
        return f"{pause.reason}; {pause.release_text}{kept}" if pause.reason else ""
