"""Reads the calendars of schedules again and again, and puts what they say in force.

What was read is a part of the configuration: another text of a calendar is a reload, so that a
recording has it, and a replay goes by it. It is kept beside the journal: a process that starts goes
by it until it has read the calendar itself.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.app.config_reload import ActiveConfig, Configurable
from reactive_desched.journal import atomic_files
from reactive_desched.kube.client.clock import Clock
from reactive_desched.policy.freeze_calendar import CalendarError
from reactive_desched.policy.settings.limits import (
    CalendarSettings,
    EvictionSchedule,
    WhileUnread,
)
from reactive_desched.policy.wall_windows import Span
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, counter, gauge
from reactive_desched.text.ages import format_age
from reactive_desched.text.causes import NO_ANSWER_YET
from reactive_desched.text.times import utc_time
from reactive_desched.usage.calendars import ReadText, read_times
from reactive_desched.web.health import CheckResult

FILE: Final = "calendars.json"


class KeptCalendar(Struct, frozen=True):
    """The times of a calendar's events, and when it was read, in seconds since the epoch."""

    read_s: float
    spans: tuple[Span, ...]


KeptCalendars = Mapping[str, KeptCalendar]
"""What was read of each calendar, by its `digest_of`."""

_decode: Final = msgspec.json.Decoder(dict[str, KeptCalendar]).decode


def digest_of(calendar: CalendarSettings, zone: str) -> str:
    """Return what names a calendar on disk: its address may be a secret."""
    return sha256(f"{calendar.file}\n{calendar.url}\n{zone}".encode()).hexdigest()


def read_kept(directory: Path) -> KeptCalendars:
    """Return what an earlier process kept; blocks.

    Raises OSError, and ValueError for a file that no controller wrote.
    """
    try:
        return _decode((directory / FILE).read_bytes())
    except FileNotFoundError:
        return {}


def write_kept(directory: Path, kept: KeptCalendars) -> None:
    """Keep this in place of what was there, all or nothing; blocks, and raises OSError."""
    atomic_files.replace(directory / FILE, msgspec.json.encode(kept))


READS = counter("calendar_reads", "Reads of the calendars of schedules.", "calendar", "result")
AGE = gauge(
    "calendar_age_seconds",
    "Seconds since a calendar was read last; none while it never was.",
    "calendar",
)

CHECK_S: Final = 1.0
"""How often it is looked which calendars are due."""

RETRY_S: Final = 60.0
"""A calendar that could not be read is read again after so long, or sooner as its settings say."""

_Key = tuple[CalendarSettings, str]
"""A calendar, and the time zone of its whole days."""


class CalendarState(Struct, frozen=True, rename="camel"):
    """A calendar for the status page: when what counts was read, None where nothing was.

    `is_kept` says that an earlier process read it; `problem` is why it cannot be read now.
    """

    name: str
    read: datetime | None
    is_kept: bool
    problem: str


class _Reading:
    """One calendar: when it is due, when it was read, by an earlier process, and what was wrong.

    `fault` is None until this process has tried to read it, and empty where it was read.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.due_at = 0.0
        self.read_at: float | None = None
        self.is_kept = False
        self.fault: str | None = None

    @property
    def problem(self) -> str:
        """Return why it could not be read, or that it was not; empty where it was."""
        return NO_ANSWER_YET if self.fault is None else self.fault


class CalendarPolling:
    """Reads each calendar of the schedules in force until cancelled, one after the other.

    One that cannot be read keeps what was read last; that is logged when its reason changes.
    """

    def __init__(
        self,
        active: ActiveConfig,
        controller: Configurable,
        clock: Clock,
        log: Logger,
        read: ReadText,
    ) -> None:
        self._active = active
        self._controller = controller
        self._clock = clock
        self._log = log
        self._read = read
        self._readings: dict[_Key, _Reading] = {}
        self._kept: KeptCalendars = {}
        self._was_read = Wakeup()
        self._results: Counter[tuple[str, ...]] = Counter()

    def collect(self) -> Iterator[Metric]:
        """Yield how the reads went, and how old what counts is."""
        now = self._clock.now()
        yield READS.by_labels(self._results)
        yield AGE.by_label(
            {
                each.name: now - each.read_at
                for each in self._readings.values()
                if each.read_at is not None
            }
        )

    def check(self) -> CheckResult:
        """Say what is wrong with each calendar."""
        problems = dict.fromkeys(self._wanted().values(), NO_ANSWER_YET)
        problems |= {each.name: each.problem for each in self._readings.values()}
        found = CheckResult.of_parts(problems, "no schedule has one")
        return found._replace(is_well=found.ok)

    def states(self) -> tuple[CalendarState, ...]:
        """Return how each calendar stands."""
        wall_offset_s = self._clock.wall() - self._clock.now()
        return tuple(
            CalendarState(
                each.name,
                None if each.read_at is None else utc_time(each.read_at + wall_offset_s),
                each.is_kept,
                each.problem,
            )
            for each in self._readings.values()
        )

    async def keep_in(self, directory: Path) -> None:
        """Go by what an earlier process kept in this folder, and keep what is read.

        Runs until cancelled. What cannot be read there counts as not kept.
        """
        written: KeptCalendars = {}
        try:
            written = await anyio.to_thread.run_sync(read_kept, directory)
        except (OSError, ValueError) as error:
            message = f"{directory / FILE}: {error}; they count as not read"
            self._log.warning("kept calendars cannot be read", message=message)
        self._kept = {**written, **self._kept}
        while True:
            while self._kept == written:
                await self._was_read.wait()
            written = self._kept
            try:
                await anyio.to_thread.run_sync(write_kept, directory, written)
            except OSError as error:
                message = f"{directory / FILE}: {error.strerror or error}"
                self._log.warning("calendars cannot be kept", message=message)

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.poll()
            await self._clock.sleep(CHECK_S)

    async def poll(self) -> None:
        """Read the calendars that are due."""
        wanted = self._wanted()
        self._readings = {
            key: self._readings.get(key) or _Reading(name) for key, name in wanted.items()
        }
        for key, reading in list(self._readings.items()):
            reading.name = wanted[key]
            if reading.read_at is None and (kept := self._kept.get(digest_of(*key))) is not None:
                self._take_kept(key, kept, reading)
            if self._clock.now() >= reading.due_at:
                await self._read_one(key, reading)

    async def _read_one(self, key: _Key, reading: _Reading) -> None:
        calendar, zone = key
        try:
            spans = await read_times(calendar, zone, self._clock.wall(), self._read)
        except CalendarError as error:
            self._report(key, reading, str(error))
            return
        reading.read_at, reading.is_kept = self._clock.now(), False
        reading.due_at = reading.read_at + calendar.refresh_s
        self._report(key, reading, "")
        self._take(key, spans, reading)
        wanted = {digest_of(*each) for each in self._readings}
        kept = {name: each for name, each in self._kept.items() if name in wanted}
        self._kept = {**kept, digest_of(*key): KeptCalendar(self._clock.wall(), spans)}
        self._was_read.notify()

    def _take_kept(self, key: _Key, kept: KeptCalendar, reading: _Reading) -> None:
        """Go by what an earlier process read, until this one has."""
        age_s = max(0.0, self._clock.wall() - kept.read_s)
        reading.read_at, reading.is_kept = self._clock.now() - age_s, True
        message = f"what an earlier process read {format_age(age_s)} ago counts until it is read"
        self._log.info("a calendar was kept", calendar=reading.name, message=message)
        self._take(key, kept.spans, reading)

    def _take(self, key: _Key, spans: tuple[Span, ...], reading: _Reading) -> None:
        """Put what a calendar says in force, where it says something else than before."""
        now = self._active.configuration  # it may have been reloaded meanwhile
        read = {
            number: spans
            for number, each in enumerate(self._schedules())
            if (each.calendar, each.time_zone) == key
        }
        calendars = {**now.calendars, **read}
        if calendars == now.calendars:
            return
        new = replace(now, calendars=calendars)
        self._controller.reconfigure(new)
        self._active.renew(new)
        self._log.info("a calendar was read", calendar=reading.name, freezes=len(spans))

    def _report(self, key: _Key, reading: _Reading, problem: str) -> None:
        calendar = key[0]
        self._results[reading.name, "failed" if problem else "ok"] += 1
        if problem:
            reading.due_at = self._clock.now() + min(RETRY_S, calendar.refresh_s)
        before, reading.fault = reading.fault, problem
        if problem and problem != before:
            counts = "what was read last counts"
            if reading.read_at is None:
                holds = calendar.while_unread is WhileUnread.HOLD
                counts = (
                    "no evictions until it is read" if holds else "it closes nothing until then"
                )
            self._log.warning(
                "a calendar cannot be read", calendar=reading.name, message=f"{problem}; {counts}"
            )
        elif before and not problem:
            self._log.info("the calendar can be read again", calendar=reading.name)

    def _wanted(self) -> dict[_Key, str]:
        """Return the calendars of the schedules in force, each with its schedule's name."""
        return {
            (each.calendar, each.time_zone): each.name
            for each in self._schedules()
            if each.calendar is not None
        }

    def _schedules(self) -> tuple[EvictionSchedule, ...]:
        return self._active.configuration.controller.budgets.schedules
