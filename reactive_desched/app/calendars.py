"""Reads the calendars of schedules again and again, and puts what they say in force.

What was read is a part of the configuration: another text of a calendar is a reload, so that a
recording has it, and a replay goes by it.
"""

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
import anyio
import anyio.to_thread
from msgspec.structs import replace

from reactive_desched._version import __version__
from reactive_desched.app.config_reload import ActiveConfig, Configurable
from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.client.failures import describe_error, proxy_refusal
from reactive_desched.policy.freeze_calendar import MAX_BYTES, CalendarError, read_freezes
from reactive_desched.policy.settings.limits import (
    CalendarSettings,
    EvictionSchedule,
    WhileUnread,
)
from reactive_desched.policy.wall_windows import Span
from reactive_desched.primitives.client_tls import client_tls_context
from reactive_desched.primitives.proxies import Proxy, ProxyError, environment_proxy
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, counter, gauge
from reactive_desched.web.health import CheckResult

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

ReadText = Callable[[CalendarSettings], Awaitable[bytes]]
"""Returns the text of a calendar, MAX_BYTES + 1 at most; raises CalendarError."""


class _Reading:
    """One calendar: when it is due, when it was read, and what was wrong."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.due_at = 0.0
        self.read_at: float | None = None
        self.problem = ""


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
        texts = [f"{each.name}: {each.problem or 'ok'}" for each in self._readings.values()]
        is_ok = not any(each.problem for each in self._readings.values())
        return CheckResult(is_ok, "; ".join(texts) or "no schedule has one", is_well=is_ok)

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.poll()
            await self._clock.sleep(CHECK_S)

    async def poll(self) -> None:
        """Read the calendars that are due."""
        wanted = {
            (each.calendar, each.time_zone): each
            for each in self._schedules()
            if each.calendar is not None
        }
        self._readings = {
            key: self._readings.get(key) or _Reading(each.name) for key, each in wanted.items()
        }
        for key, reading in list(self._readings.items()):
            reading.name = wanted[key].name
            if self._clock.now() >= reading.due_at:
                await self._read_one(key, reading)

    async def _read_one(self, key: _Key, reading: _Reading) -> None:
        from reactive_desched.primitives.cron import parse_time_zone  # most settings have no times

        calendar, zone = key
        try:
            with anyio.fail_after(calendar.timeout_s):
                text = await self._read(calendar)
            parse = partial(read_freezes, text, parse_time_zone(zone), self._clock.wall())
            spans = await anyio.to_thread.run_sync(parse, abandon_on_cancel=True)
        except CalendarError as error:
            self._report(key, reading, str(error))
            return
        except TimeoutError:
            self._report(key, reading, f"no answer within {calendar.timeout_s:g}s")
            return
        reading.read_at = self._clock.now()
        reading.due_at = reading.read_at + calendar.refresh_s
        self._report(key, reading, "")
        self._take(key, spans, reading)

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
        before, reading.problem = reading.problem, problem
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

    def _schedules(self) -> tuple[EvictionSchedule, ...]:
        return self._active.configuration.controller.budgets.schedules


async def read_calendar(
    settings: CalendarSettings, environ: Mapping[str, str] = os.environ
) -> bytes:
    """Return the text of a file or an address, MAX_BYTES + 1 at most; raises CalendarError.

    No message has the address: it may be a secret.
    """
    if settings.file:
        return await anyio.to_thread.run_sync(_read_file, settings.file, abandon_on_cancel=True)
    proxy: Proxy | None = None
    try:
        proxy = environment_proxy(settings.url, environ)
        read_tls = partial(client_tls_context, settings.ca_file or None)
        tls = await anyio.to_thread.run_sync(read_tls, abandon_on_cancel=True)
        headers = {"User-Agent": f"reactive-desched/{__version__}", "Accept": "text/calendar"}
        if settings.token_file:
            token = await anyio.to_thread.run_sync(_read_file, settings.token_file)
            headers["Authorization"] = f"Bearer {token.decode('ascii', 'ignore').strip()}"
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=1, ssl=tls),
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.get(
                settings.url,
                headers=headers,
                allow_redirects=False,  # the token goes nowhere else
                proxy=None if proxy is None else proxy.url,
            ) as answer,
        ):
            if proxy is not None and answer.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
                raise proxy_refusal(answer)
            if answer.status != HTTPStatus.OK:
                message = f"the server answers {answer.status} {answer.reason or ''}".rstrip()
                raise CalendarError(message)
            return await _read_body(answer.content)
    except ProxyError as error:
        raise CalendarError(str(error)) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error, CalendarError):
            raise
        raise CalendarError(describe_error(error, proxy)) from None


async def _read_body(content: aiohttp.StreamReader) -> bytes:
    parts, size = [], 0
    while size <= MAX_BYTES and (part := await content.readany()):
        parts.append(part)
        size += len(part)
    return b"".join(parts)[: MAX_BYTES + 1]


def _read_file(path: str) -> bytes:
    """Return what a regular file holds, MAX_BYTES + 1 at most; blocks. Raises CalendarError."""
    try:
        if not Path(path).is_file():
            raise CalendarError(f"{path} is no file")
        with open(path, "rb") as file:  # noqa: PTH123 -- to read a part of it
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CalendarError(f"{path}: {error.strerror or error}") from None
