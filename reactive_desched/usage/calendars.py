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
from reactive_desched.kube.client.failures import describe_error, proxy_refusal
from reactive_desched.policy.freeze_calendar import MAX_BYTES, CalendarError, read_freezes
from reactive_desched.policy.settings.limits import CalendarSettings
from reactive_desched.policy.wall_windows import Span
from reactive_desched.primitives.client_tls import client_tls_context
from reactive_desched.primitives.proxies import Proxy, ProxyError, environment_proxy

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
