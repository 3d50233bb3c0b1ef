"""Facts about this process and this machine, read from where the kernel keeps them."""

import os
import platform
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("aiohttp", "anyio", "msgspec", "pydantic")


def rss_bytes() -> int:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def peak_rss_bytes() -> int:
    """Return the most resident memory this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def facts() -> dict[str, object]:
    """Describe the machine, the interpreter and the libraries that matter."""
    return {
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "load": os.getloadavg(),
        "packages": {name: version(name) for name in _PACKAGES},
    }


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")


class Stopwatch:
    """Wall and CPU seconds of this process since it was made."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin again from zero."""
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @property
    def wall_s(self) -> float:
        """Seconds that passed."""
        return time.perf_counter() - self._wall

    @property
    def cpu_s(self) -> float:
        """Seconds this process computed."""
        return time.process_time() - self._cpu

    def per_event(self, events: int) -> dict[str, float]:
        """Return the rate and the cost of so many events since it was made."""
        cpu_s, wall_s = self.cpu_s, self.wall_s
        return {
            "events": events,
            "cpu_s": round(cpu_s, 3),
            "events_per_core_s": round(events / cpu_s),
            "events_per_s": round(events / wall_s),
            "us_per_event": round(cpu_s / events * 1e6, 1),
        }
