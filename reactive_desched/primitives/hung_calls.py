"""Ends a call of a plugin, or of another package's sink, that does not return.

A thread sends a signal to the main thread, whose handler raises an exception there if such code
runs, which is then a fault of that plugin or sink.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from types import FrameType
from typing import Final

from reactive_desched.errors import PluginHung
from reactive_desched.primitives.foreign_code import interrupts_marked, is_caller

LIMIT_S: Final = 8.0
"""A call that lasts longer is ended: a leader that cannot renew its Lease for 10 s gives it up."""

BEAT_S: Final = 1.0
AGAIN_S: Final = 0.05
"""So soon the signal is sent again where our own code ran that the plugin had called."""

_SIGNAL: Final = signal.SIGURG
"""Nothing else sends it to us, and without a handler it is ignored."""

_OURS: Final = "reactive_desched."
_OF_PLUGINS: Final = "reactive_desched.api."
"""Ours, too, but nothing that could be left half done: the base classes of plugins."""


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
            signal_main_thread()

    @property
    def _is_overdue(self) -> bool:
        return self._call is not None and self._lasted_s >= self._limit_s

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raise PluginHung in a call of a plugin that was under way at so many beats in a row."""
        del number
        if frame is None:
            return
        call, is_own = call_under_way(frame)
        self._lasted_s = self._lasted_s + self._beat_s if call is self._call else 0.0
        self._call = call
        if is_own and self._lasted_s >= self._limit_s:
            self._call, self._lasted_s = None, 0.0
            raise hung_call(frame, self._limit_s)


@contextmanager
def hung_calls_ended(limit_s: float = LIMIT_S, beat_s: float = BEAT_S) -> Iterator[None]:
    """End calls of plugins that do not return, while the block lasts; in the main thread only.

    There, Ctrl-C ends the block, and a KeyboardInterrupt that a plugin raises is a fault of it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watchdog = _CallWatchdog(limit_s, beat_s)
    with interrupts_marked(), signals_from(watchdog.watch, watchdog.stopped, watchdog.on_signal):
        yield


@contextmanager
def signals_from(
    watch: Callable[[], None],
    stopped: threading.Event,
    on_signal: Callable[[int, FrameType | None], None],
) -> Iterator[None]:
    """Let a thread watch the main thread, in which this is, and signal it.

    Raises MemoryError where there is none for the thread.
    """
    before = signal.signal(_SIGNAL, on_signal)
    thread = threading.Thread(target=watch, name="plugin-watchdog", daemon=True)
    try:
        _start(thread)
        try:
            yield
        finally:
            stopped.set()
            thread.join()
    finally:
        signal.signal(_SIGNAL, before)


def _start(thread: threading.Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:  # all that Python says of it
        raise MemoryError("there is no memory for a thread") from error


def signal_main_thread() -> None:
    """Interrupt what the main thread does."""
    if (main := threading.main_thread().ident) is not None:
        signal.pthread_kill(main, _SIGNAL)


def call_under_way(frame: FrameType) -> tuple[FrameType | None, bool]:
    """Return the frame that has called a plugin, and whether the plugin's own code runs.

    Where ours runs that the plugin has called in turn, it does not.
    """
    each: FrameType | None = frame
    is_own = False  # a caller that is not within a plugin must not be left half done either
    is_ours = False
    while each is not None:
        if is_caller(each.f_code):
            return each, is_own and not is_ours
        name = str(each.f_globals.get("__name__", ""))
        is_ours |= name.startswith(_OURS) and not name.startswith(_OF_PLUGINS)
        is_own, each = True, each.f_back
    return None, False


def hung_call(frame: FrameType, limit_s: float) -> PluginHung:
    """Return what to raise in a frame whose call has lasted too long."""
    return PluginHung(f"it did not return within {limit_s:g} s, and was in {place_of(frame)}")


def place_of(frame: FrameType) -> str:
    """Name the function that runs in a frame, and its file."""
    code = frame.f_code
    return f"{code.co_qualname} of {PurePath(code.co_filename).name}"
