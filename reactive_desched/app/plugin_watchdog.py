"""Ends a call of a plugin, or of another package's sink, that holds the loop and does not return.

Nothing else runs meanwhile, not even a probe. A thread sees that the event loop stands still and
sends a signal to the main thread. Its handler raises an exception there if such code runs, which
is then a fault of that plugin or sink.
"""

import signal
import threading
from types import CodeType, FrameType
from typing import Final

import anyio

from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.errors import PluginHung
from reactive_desched.sinks.installed import INSTALLED_SINK_CALLERS
from reactive_desched.state.index_registry import HOOK_CALLERS

LIMIT_S: Final = 8.0
"""A call that holds the event loop for longer is ended: a leader that cannot renew its Lease for
10 s gives it up."""

BEAT_S: Final = 1.0
AGAIN_S: Final = 0.05
"""So soon the signal is sent again where our own code ran that the plugin had called."""

_SIGNAL: Final = signal.SIGURG
"""Nothing else sends it to us, and without a handler it is ignored."""

_CALLERS: Final[frozenset[CodeType]] = Evaluator.CALLERS | HOOK_CALLERS | INSTALLED_SINK_CALLERS
_OURS: Final = "reactive_desched."
_OF_PLUGINS: Final = "reactive_desched.api."
"""Ours, too, but nothing that could be left half done: the base classes of plugins."""


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
        before = signal.signal(_SIGNAL, self._on_signal)
        thread = threading.Thread(target=self._watch, name="plugin-watchdog", daemon=True)
        thread.start()
        try:
            while True:
                self._beats += 1
                await anyio.sleep(self._beat_s)
        finally:
            self._stopped.set()
            thread.join()
            signal.signal(_SIGNAL, before)

    def _watch(self) -> None:
        """Signal a loop that stands still; a stopped process counts no time of that."""
        main = threading.main_thread().ident
        seen, still_s, wait_s = -1, 0.0, self._beat_s
        while not self._stopped.wait(wait_s):
            if self._beats != seen:
                seen, still_s, wait_s = self._beats, 0.0, self._beat_s
                continue
            still_s += wait_s
            if still_s >= self._limit_s and main is not None:
                wait_s = AGAIN_S
                signal.pthread_kill(main, _SIGNAL)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raise PluginHung where a plugin's own code runs; ours would be left half done."""
        del number
        is_plugins = False  # a caller that is not within a plugin must not be left half done either
        while frame is not None:
            if frame.f_code in _CALLERS:
                if not is_plugins:
                    return
                raise PluginHung(f"it held the event loop for {self._limit_s:g} s")
            name = str(frame.f_globals.get("__name__", ""))
            if name.startswith(_OURS) and not name.startswith(_OF_PLUGINS):
                return
            is_plugins = True
            frame = frame.f_back
