"""Names the plugins whose single calls hold the event loop: nothing else runs meanwhile."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.model.plugin_faults import SlowPlugin
from reactive_desched.telemetry.metrics import Metric, counter

SLOW_CALL_S: Final = 0.1
"""A call of a plugin that takes longer is counted, and reported."""

REPORT_EVERY_S: Final = 60.0
"""So seldom one plugin is reported; what was slow meanwhile is part of the next report."""

SLOW_CALLS = counter(
    "plugin_slow_calls", "Calls of plugins that held the event loop for over 100 ms.", "plugin"
)


class _Record(Struct):
    """The slow calls of one plugin since it was last reported at `reported_at`."""

    reported_at: float
    calls: int = 0
    longest_s: float = 0.0
    subject: str = ""


class SlowPlugins:
    """The slow calls of plugins, by name; `new` are the reports that were not taken yet.

    `clock` gives monotonic seconds. A process that has to wait for a processor counts that wait.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.new: list[SlowPlugin] = []
        self._records: dict[str, _Record] = {}
        self._counts: Counter[str] = Counter()

    def note(self, plugin: str, subject: str, took_s: float) -> None:
        """Count a call that took longer than `SLOW_CALL_S`, and report it at times."""
        now = self.clock()
        self._counts[plugin] += 1
        record = self._records.setdefault(plugin, _Record(now - REPORT_EVERY_S))
        record.calls += 1
        if took_s > record.longest_s:
            record.longest_s, record.subject = took_s, subject
        if now - record.reported_at >= REPORT_EVERY_S:
            report = SlowPlugin(plugin, record.subject, record.longest_s, record.calls)
            self.new.append(report)
            self._records[plugin] = _Record(now)

    def take_new(self) -> list[SlowPlugin]:
        """Return, once, the reports since the last call."""
        taken, self.new = self.new, []
        return taken

    def collect(self) -> Iterator[Metric]:
        """Yield how many calls of each plugin were slow."""
        yield SLOW_CALLS.by_label(self._counts)
