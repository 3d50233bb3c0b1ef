"""Ends a call of a plugin, or of another package's sink, that holds the loop and does not return.

Nothing else runs meanwhile, not even a probe. A thread sees that the event loop stands still and
sends a signal to the main thread. Its handler raises an exception there if such code runs, which
is then a fault of that plugin or sink. A command without an event loop has each call watched.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from types import CodeType, FrameType
from typing import Final

import anyio

from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.errors import PluginHung
from reactive_desched.model.plugin_faults import TEXT_CALLERS
from reactive_desched.sinks.installed import INSTALLED_SINK_CALLERS
from reactive_desched.state.index_registry import HOOK_CALLERS
from reactive_desched.sweep.cycle import SWEEP_CALLERS

LIMIT_S: Final = 8.0
"""A call that lasts longer is ended: a leader that cannot renew its Lease for 10 s gives it up."""

BEAT_S: Final = 1.0
AGAIN_S: Final = 0.05
"""So soon the signal is sent again where our own code ran that the plugin had called."""

_SIGNAL: Final = signal.SIGURG
"""Nothing else sends it to us, and without a handler it is ignored."""

_CALLERS: Final[frozenset[CodeType]] = (
    Evaluator.CALLERS | SWEEP_CALLERS | TEXT_CALLERS | HOOK_CALLERS | INSTALLED_SINK_CALLERS
)
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
        with _signals_from(self._watch, self._stopped, self._on_signal):
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
                _signal_main_thread()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raise PluginHung where a plugin's own code runs; ours would be left half done."""
        del number
        if frame is not None and _call_under_way(frame)[1]:
            raise _hung(frame, self._limit_s)


class _CallWatchdog:
    """Watches each call of a plugin while a command without an event loop runs."""

    def __init__(self, limit_s: float, beat_s: float) -> None:
        self.stopped = threading.Event()
        self._limit_s = limit_s
        self._beat_s = beat_s
        self._call: FrameType | None = None
        self._lasted_s = 0.0

    def watch(self) -> None:
        """Signal the main thread at each beat; a stopped process counts no time of that."""
        while not self.stopped.wait(AGAIN_S if self._is_overdue else self._beat_s):
            _signal_main_thread()

    @property
    def _is_overdue(self) -> bool:
        return self._call is not None and self._lasted_s >= self._limit_s

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raise PluginHung in a call of a plugin that was under way at so many beats in a row."""
        del number
        if frame is None:
            return
        call, is_own = _call_under_way(frame)
        self._lasted_s = self._lasted_s + self._beat_s if call is self._call else 0.0
        self._call = call
        if is_own and self._lasted_s >= self._limit_s:
            self._call, self._lasted_s = None, 0.0
            raise _hung(frame, self._limit_s)


@contextmanager
def hung_calls_ended(limit_s: float = LIMIT_S, beat_s: float = BEAT_S) -> Iterator[None]:
    """End calls of plugins that do not return, while the block lasts; in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watchdog = _CallWatchdog(limit_s, beat_s)
    with _signals_from(watchdog.watch, watchdog.stopped, watchdog.on_signal):
        yield


@contextmanager
def _signals_from(
    watch: Callable[[], None],
    stopped: threading.Event,
    on_signal: Callable[[int, FrameType | None], None],
) -> Iterator[None]:
    """Let a thread watch the main thread, in which this is, and signal it."""
    before = signal.signal(_SIGNAL, on_signal)
    thread = threading.Thread(target=watch, name="plugin-watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        signal.signal(_SIGNAL, before)


def _signal_main_thread() -> None:
    if (main := threading.main_thread().ident) is not None:
        signal.pthread_kill(main, _SIGNAL)


def _call_under_way(frame: FrameType) -> tuple[FrameType | None, bool]:
    """Return the frame that has called a plugin, and whether the plugin's own code runs.

    Where ours runs that the plugin has called in turn, it does not.
    """
    each: FrameType | None = frame
    is_own = False  # a caller that is not within a plugin must not be left half done either
    is_ours = False
    while each is not None:
        if each.f_code in _CALLERS:
            return each, is_own and not is_ours
        name = str(each.f_globals.get("__name__", ""))
        is_ours |= name.startswith(_OURS) and not name.startswith(_OF_PLUGINS)
        is_own, each = True, each.f_back
    return None, False


def _hung(frame: FrameType, limit_s: float) -> PluginHung:
    code = frame.f_code
    place = f"{code.co_qualname} of {PurePath(code.co_filename).name}"
    return PluginHung(f"it did not return within {limit_s:g} s, and was in {place}")
