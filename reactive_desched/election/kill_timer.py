"""Has the kernel end this process when its Lease may pass to another, whatever state it is in.

A stopped or starved process cannot look at a clock, and a check before a request leaves a moment
between the two. A timer of the kernel ends even a stopped process, which then never runs another
instruction, and frees the lock of its journal for the next leader.
"""

import ctypes
import math
import os
import signal
import time
from typing import Final

_SIGEV_SIGNAL: Final = 0
_TIMER_ABSTIME: Final = 1
_SIGEVENT_BYTES: Final = 64


class _SigEvent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("padding", ctypes.c_char * (_SIGEVENT_BYTES - 16)),
    )


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


class KillTimer:
    """A timer of the kernel that sends SIGKILL to this process; it is not inherited by children.

    Its times are those of CLOCK_BOOTTIME. Raises OSError where the system has no such timers.
    """

    def __init__(self) -> None:
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            create = self._libc.timer_create
        except (AttributeError, OSError) as error:
            raise OSError("this system has no timer_create") from error
        self._timer = ctypes.c_void_p()
        event = _SigEvent(None, signal.SIGKILL, _SIGEV_SIGNAL, b"")
        self._check(create(time.CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(self._timer)))

    def set(self, at_s: float) -> None:
        """End the process at this time of the clock, and not before; infinity: never."""
        nanoseconds = 0 if at_s == math.inf else max(1, round(at_s * 1e9))
        spec = _TimerSpec(_TimeSpec(), _TimeSpec(*divmod(nanoseconds, 1_000_000_000)))
        set_time = self._libc.timer_settime
        self._check(set_time(self._timer, _TIMER_ABSTIME, ctypes.byref(spec), None))

    def _check(self, result: int) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
