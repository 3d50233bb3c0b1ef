"""Reads what a calendar says, from a file or an address: once, for who asks again or not."""

import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path

import aiohttp
import anyio
import anyio.to_thread

from reactive_desched._version import __version__
from reactive_desched.policy.freeze_calendar import MAX_BYTES, CalendarError, read_freezes
from reactive_desched.policy.settings.limits import CalendarSettings
from reactive_desched.policy.wall_windows import Span
from reactive_desched.primitives.client_tls import client_tls_context
from reactive_desched.primitives.http_failures import describe_error
from reactive_desched.primitives.proxies import ProxyError
from reactive_desched.usage.secret_request import NoReply, SecretRequest

ReadText = Callable[[CalendarSettings], Awaitable[bytes]]
"""Returns the text of a calendar, MAX_BYTES + 1 at most; raises CalendarError."""


async def read_times(
    calendar: CalendarSettings, zone: str, now_s: float, read: ReadText
) -> tuple[Span, ...]:
    """Return the times of a calendar's events around this year, whole days in this time zone.

    `now_s` is seconds since the epoch. Raises CalendarError, also where no answer comes in time.
    """
    from reactive_desched.primitives.cron import parse_time_zone  # most settings have no times

    try:
        with anyio.fail_after(calendar.timeout_s):
            text = await read(calendar)
    except TimeoutError:
        raise CalendarError(f"no answer within {calendar.timeout_s:g}s") from None
    parse = partial(read_freezes, text, parse_time_zone(zone), now_s)
    return await anyio.to_thread.run_sync(parse, abandon_on_cancel=True)


async def read_calendar(
    settings: CalendarSettings, environ: Mapping[str, str] = os.environ
) -> bytes:
    """Return the text of a file or an address, MAX_BYTES + 1 at most; raises CalendarError.

    No message has the address: it may be a secret.
    """
    if settings.file:
        return await anyio.to_thread.run_sync(_read_file, settings.file, abandon_on_cancel=True)
    try:
        read_tls = partial(client_tls_context, settings.ca_file or None)
        tls = await anyio.to_thread.run_sync(read_tls, abandon_on_cancel=True)
    except OSError as error:
        raise CalendarError(describe_error(error)) from None
    headers = {"User-Agent": f"reactive-desched/{__version__}", "Accept": "text/calendar"}
    if settings.token_file:
        token = await anyio.to_thread.run_sync(_read_file, settings.token_file)
        headers["Authorization"] = f"Bearer {token.decode('ascii', 'ignore').strip()}"
    try:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1, ssl=tls),
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as session:
            request = SecretRequest("GET", settings.url, headers)
            reply = await request.send(session, environ, MAX_BYTES)
    except (ProxyError, NoReply) as error:
        raise CalendarError(str(error)) from None
    if reply.status != HTTPStatus.OK:
        raise CalendarError(f"the server answers {reply.status_line}")
    return reply.body


def _read_file(path: str) -> bytes:
    """Return what a regular file holds, MAX_BYTES + 1 at most; blocks. Raises CalendarError."""
    try:
        if not Path(path).is_file():
            raise CalendarError(f"{path} is no file")
        with open(path, "rb") as file:  # noqa: PTH123 -- to read a part of it
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CalendarError(f"{path}: {error.strerror or error}") from None
