"""Isolates the faults of plugins: the subject is tried again later, and the rest goes on.

A plugin that fails again and again is switched off until the policy is loaded anew. One subject on
which it fails counts three times at most, so that one pod does not switch a plugin off for all.

A call that holds the event loop is no fault: nothing else runs meanwhile, so it is reported.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from traceback import extract_tb
from typing import Final

from msgspec import Struct

from reactive_desched.controller.instances import PluginInstance, SubjectKey
from reactive_desched.model.plugin_faults import (
    UNENDING,
    PluginFault,
    SlowPlugin,
    ask_for_text,
    describe_error,
    traceback_of,
)
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.primitives.bounded_text import bounded_name
from reactive_desched.telemetry.metrics import Metric, counter, gauge

MAX_IN_A_ROW: Final = 10
"""After so many faults without an evaluation that succeeds in between a plugin is switched off."""

MAX_LONG_IN_A_ROW: Final = 3
"""The same for faults each of which held up everything else for seconds, until it was ended."""

MAX_COUNTED_OF_ONE: Final = 3
"""So many faults on one subject are counted among these."""

FIRST_RETRY_S: Final = 5.0
MAX_RETRY_S: Final = 300.0

MAX_RESTING: Final = 1000
"""So many subjects of a plugin rest after faults; of further ones the oldest may be tried again."""

MAX_KINDS: Final = 1000
"""So many kinds of faults are remembered as logged; then each is logged once more."""

PLUGIN_ERRORS = counter("plugin_errors", "Exceptions that plugins raised.", "plugin")
PLUGIN_OFF = gauge(
    "plugin_off", "1 for a plugin that is switched off, as it failed again and again.", "plugin"
)


class WholePlugin(Struct, frozen=True, gc=False):
    """Everything that a plugin looks at, as the subject of a fault that concerned no other."""

    def __str__(self) -> str:
        return "all its subjects"


WHOLE: Final = WholePlugin()


class MissedChange(Struct, frozen=True, gc=False):
    """A change of which a plugin could not say what it concerns, as the subject of the fault."""

    of: str

    def __str__(self) -> str:
        return f"a change of {self.of}"


class MissedVerdict(MissedChange, frozen=True, gc=False):
    """A replacement of which a plugin could not say whether its move had helped, as the subject."""

    def __str__(self) -> str:
        return f"replacement {self.of}"


class _Resting(Struct):
    """The faults in a row of a plugin on one subject, and until when that subject rests."""

    faults: int
    until: float


class _Record:
    """The faults of one plugin instance since an evaluation last succeeded."""

    def __init__(self) -> None:
        self.in_a_row = 0
        self.long_in_a_row = 0
        self.is_off = False
        self.resting: dict[object, _Resting] = {}
        self.last: PluginFault | None = None


class PluginFaults:
    """The faults of all plugin instances. Times are monotonic seconds.

    `new` are those that were not reported yet. `any` is whether there may be one to ask about.
    """

    def __init__(self) -> None:
        self.any = False
        self.new: list[PluginFault] = []
        self._records: dict[PluginInstance, _Record] = {}
        self._kinds: set[tuple[str, str]] = set()
        self._counts: Counter[str] = Counter()

    def record(
        self, instance: PluginInstance, subject: object, error: BaseException, now: float
    ) -> PluginFault:
        """Count a fault, and return what follows from it."""
        self.any = True
        self._counts[instance.name] += 1
        record = self._records.setdefault(instance, _Record())
        faults = 1 if (rests := record.resting.pop(subject, None)) is None else rests.faults + 1
        retry_s = min(MAX_RETRY_S, FIRST_RETRY_S * 2 ** min(faults - 1, 10))
        record.resting[subject] = _Resting(faults, now + retry_s)
        if len(record.resting) > MAX_RESTING:
            del record.resting[next(iter(record.resting))]
        record.in_a_row += subject is WHOLE or faults <= MAX_COUNTED_OF_ONE
        record.long_in_a_row += isinstance(error, UNENDING)
        record.is_off = record.in_a_row >= MAX_IN_A_ROW or record.long_in_a_row >= MAX_LONG_IN_A_ROW
        fault = PluginFault(
            instance.profile,
            instance.name,
            describe_subject(instance, subject),
            describe_error(error),
            traceback_of(error) if self._is_new_kind(instance.name, error) else "",
            record.is_off,
            record.in_a_row,
            retry_s,
        )
        record.last = fault
        self.new.append(fault)
        return fault

    def switch_off(self, instance: PluginInstance, what: str, error: BaseException) -> None:
        """Switch a plugin off at once: what it would find is wrong since `what` failed."""
        self.any = True
        self._counts[instance.name] += 1
        record = self._records.setdefault(instance, _Record())
        record.is_off = True
        traceback = traceback_of(error) if self._is_new_kind(instance.name, error) else ""
        cause = describe_error(error)
        record.last = PluginFault(
            instance.profile, instance.name, what, cause, traceback, is_off=True
        )
        self.new.append(record.last)

    def rests_until(self, key: SubjectKey, now: float) -> float | None:
        """Return until when a subject is left alone after a fault; None where it is not."""
        if (record := self._records.get(key[0])) is None:
            return None
        rests = record.resting.get(key[1])
        return None if rests is None or rests.until <= now else rests.until

    def succeeded(self, key: SubjectKey) -> None:
        """Forget the faults on a subject, and those in a row: its evaluation came to its end."""
        if (record := self._records.get(key[0])) is None or record.is_off:
            return
        record.in_a_row = record.long_in_a_row = 0
        record.resting.pop(key[1], None)
        self._forget_recovered(key[0], record)

    def named_all(self, instance: PluginInstance) -> None:
        """Forget the faults on changes: the plugin has named all its subjects since."""
        if (record := self._records.get(instance)) is None or record.is_off:
            return
        for subject in list(record.resting):
            if isinstance(subject, (WholePlugin, MissedChange)):
                del record.resting[subject]
        self._forget_recovered(instance, record)

    def _forget_recovered(self, instance: PluginInstance, record: _Record) -> None:
        if not record.resting:
            del self._records[instance]

    def is_off(self, instance: PluginInstance) -> bool:
        """Say whether a plugin is switched off."""
        record = self._records.get(instance)
        return record is not None and record.is_off

    def clear(self) -> None:
        """Forget all but the counts: the plugins are made again."""
        self._records.clear()
        self._kinds.clear()
        self.any = False

    def take_new(self) -> list[PluginFault]:
        """Return, once, the faults since the last call."""
        taken, self.new = self.new, []
        return taken

    def standing(self) -> list[PluginFault]:
        """Return the last fault of each plugin that is off, or of which subjects rest."""
        return [record.last for record in self._records.values() if record.last is not None]

    def collect(self) -> Iterator[Metric]:
        """Yield how often each plugin failed, and which are off."""
        yield PLUGIN_ERRORS.by_label(self._counts)
        off = (instance.name for instance, record in self._records.items() if record.is_off)
        yield PLUGIN_OFF.by_label(dict.fromkeys(off, 1))

    def _is_new_kind(self, plugin: str, error: BaseException) -> bool:
        """Say whether the plugin has not raised such an exception at this line before."""
        frames = extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        kind = plugin, f"{type(error).__name__} {place}"
        if kind in self._kinds:
            return False
        if len(self._kinds) >= MAX_KINDS:
            self._kinds.clear()
        self._kinds.add(kind)
        return True


def describe_subject(instance: PluginInstance, subject: object) -> str:
    """Name what a plugin was asked about, for people."""
    match subject:
        case NodeSubject(node=node):
            return f"node {node}"
        case PodSubject(pod=uid):
            pod = instance.view.pod(uid)
            return f"pod {uid if pod is None else pod}"
        case _:
            return bounded_name(ask_for_text(lambda: str(subject)))


SLOW_CALL_S: Final = 0.1
"""A call of a plugin that takes longer is counted, and reported."""

REPORT_EVERY_S: Final = 60.0
"""So seldom one plugin is reported; what was slow meanwhile is part of the next report."""

SLOW_CALLS = counter(
    "plugin_slow_calls", "Calls of plugins that held the event loop for over 100 ms.", "plugin"
)


class _SlowCalls(Struct):
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
        self._records: dict[str, _SlowCalls] = {}
        self._counts: Counter[str] = Counter()

    def note(self, plugin: str, subject: str, took_s: float) -> None:
        """Count a call that took longer than `SLOW_CALL_S`, and report it at times."""
        now = self.clock()
        self._counts[plugin] += 1
        record = self._records.setdefault(plugin, _SlowCalls(now - REPORT_EVERY_S))
        record.calls += 1
        if took_s > record.longest_s:
            record.longest_s, record.subject = took_s, subject
        if now - record.reported_at >= REPORT_EVERY_S:
            report = SlowPlugin(plugin, record.subject, record.longest_s, record.calls)
            self.new.append(report)
            self._records[plugin] = _SlowCalls(now)

    def take_new(self) -> list[SlowPlugin]:
        """Return, once, the reports since the last call."""
        taken, self.new = self.new, []
        return taken

    def collect(self) -> Iterator[Metric]:
        """Yield how many calls of each plugin were slow."""
        yield SLOW_CALLS.by_label(self._counts)
