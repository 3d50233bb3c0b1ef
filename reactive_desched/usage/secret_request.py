"""Sends a request that may hold secrets, through the environment's proxy; its errors hold none."""

from collections.abc import Mapping

import aiohttp
from msgspec import Struct
from yarl import URL

from reactive_desched.primitives.http_failures import (
    CONNECTION_ERRORS,
    check_proxy_login,
    describe_error,
)
from reactive_desched.primitives.proxies import Proxy, environment_proxy

__all__ = ["NoReply", "Reply", "SecretRequest"]


class NoReply(Exception):  # noqa: N818 -- a fact: the server or the proxy did not answer
    """No whole answer came, or none that is HTTP; it says why."""


class Reply(Struct, frozen=True, gc=False):
    """An answer: its status line, its media type, and its body, which may be cut."""

    status: int
    reason: str
    content_type: str
    body: bytes

    @property
    def status_line(self) -> str:
        """The status and the reason that the server gives."""
        return f"{self.status} {self.reason}".rstrip()


class SecretRequest(Struct, frozen=True, gc=False):
    """A request whose URL and headers may be secrets, as a token is."""

    method: str
    url: URL | str
    headers: Mapping[str, str]
    form: Mapping[str, str] | None = None

    async def send(
        self, http: aiohttp.ClientSession, environ: Mapping[str, str], max_bytes: int
    ) -> Reply:
        """Return the answer, with `max_bytes` + 1 of its body at most; follow no redirect.

        Raises NoReply, and ProxyError for a proxy of the environment that cannot be used.
        """
        proxy = environment_proxy(str(self.url), environ)
        try:
            return await self._send(http, proxy, max_bytes)
        except (*CONNECTION_ERRORS, ValueError) as error:
            # Not raised from the client's own error, which holds our headers.
            raise NoReply(describe_error(error, proxy)) from None

    async def _send(
        self, http: aiohttp.ClientSession, proxy: Proxy | None, max_bytes: int
    ) -> Reply:
        async with http.request(
            self.method,
            self.url,
            data=self.form,
            headers=self.headers,
            allow_redirects=False,  # our token goes nowhere else
            proxy=None if proxy is None else proxy.url,
        ) as answer:
            check_proxy_login(answer, proxy)
            body = await _read(answer.content, max_bytes)
            return Reply(answer.status, answer.reason or "", answer.content_type, body)


async def _read(content: aiohttp.StreamReader, max_bytes: int) -> bytes:
    parts, size = [], 0
    while size <= max_bytes and (part := await content.readany()):
        parts.append(part)
        size += len(part)
    return b"".join(parts)[: max_bytes + 1]
