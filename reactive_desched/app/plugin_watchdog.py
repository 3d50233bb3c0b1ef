"""Ends a call of a plugin, or of another package's sink, that holds the event loop of `run`.

Nothing else runs meanwhile, not even a probe: a thread sees that the event loop stands still.
"""

import threading
from types import FrameType

import anyio

from reactive_desched.primitives.hung_calls import (
    AGAIN_S,
    BEAT_S,
    LIMIT_S,
    call_under_way,
    hung_call,
    signal_main_thread,
    signals_from,
)


class PluginWatchdog:
    """Watches the event loop of the main thread, in which it runs, while `run` does."""

    def __init__(self, limit_s: float = LIMIT_S, beat_s: float = BEAT_S) -> None:
        self._limit_s = limit_s
        self._beat_s = beat_s
        self._beats = 0
        self._stopped = threading.Event()

    async def run(self) -> None:
        """Watch until cancelled; in another thread than the main one, do nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        with signals_from(self._watch, self._stopped, self._on_signal):
            while True:
                self._beats += 1
                await anyio.sleep(self._beat_s)

    def _watch(self) -> None:
        """Signal a loop that stands still; a stopped process counts no time of that."""
        seen, still_s, wait_s = -1, 0.0, self._beat_s
        while not self._stopped.wait(wait_s):
            if self._beats != seen:
                seen, still_s, wait_s = self._beats, 0.0, self._beat_s
                continue
            still_s += wait_s
            if still_s >= self._limit_s:
                wait_s = AGAIN_S
                signal_main_thread()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raise PluginHung where a plugin's own code runs; ours would be left half done."""
        del number
        if frame is not None and call_under_way(frame)[1]:
            raise hung_call(frame, self._limit_s)
