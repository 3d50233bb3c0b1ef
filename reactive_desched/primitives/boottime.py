"""The boot of this machine: its name, and how long ago it was."""

import time
from functools import partial
from pathlib import Path
from typing import Final

BOOTTIME_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that also counts suspended time, where the system has one."""

BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
"""Linux names each boot here, with one name for all containers of a machine."""

boottime: Final = partial(time.clock_gettime, BOOTTIME_CLOCK)
"""Returns seconds of that clock, which no step of the time of day alters."""


def read_boot_id(file: Path = BOOT_ID_FILE) -> str:
    """Return the name of this boot; empty where the system gives it none."""
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
