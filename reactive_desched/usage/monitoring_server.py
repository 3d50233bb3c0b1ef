"""Asks a monitoring server by HTTP: with its token, through the environment's proxy, bounded."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final, Protocol

import aiohttp
from msgspec import Struct
from yarl import URL

from reactive_desched.errors import MonitoringUnavailable
from reactive_desched.kube.client.failures import (
    CONNECTION_ERRORS,
    describe_error,
    proxy_refusal,
)
from reactive_desched.primitives.proxies import Proxy, ProxyError, environment_proxy

__all__ = ["MonitoringServer", "Reply", "TokenSource"]

_JSON: Final = "application/json"


class TokenSource(Protocol):
    """Returns the bearer token; it is called for each question, as tokens rotate."""

    async def token(self, url: URL) -> str:
        """Return the token to show to this address, empty for none; raises UsageUnavailable."""
        ...


class Reply(Struct, frozen=True, gc=False):
    """An answer of the server: with JSON, or with status 200."""

    status: int
    body: bytes


class MonitoringServer:
    """One server by its address; `max_bytes` is the longest answer that is read."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        url: str,
        tokens: TokenSource,
        environ: Mapping[str, str],
        max_bytes: int,
    ) -> None:
        self.url: Final = URL(url)
        self._http = http
        self._tokens = tokens
        self._environ = environ
        self._max_bytes = max_bytes

    async def post(self, path: str, form: Mapping[str, str]) -> Reply:
        """Send a form; raises MonitoringUnavailable, and UsageUnavailable without the token."""
        return await self._ask("POST", self.url / path, form)

    async def get(self, path: str, query: Sequence[tuple[str, str]]) -> Reply:
        """Get what is at a path; raises as `post` does."""
        return await self._ask("GET", (self.url / path).extend_query(query), None)

    async def _ask(self, method: str, url: URL, form: Mapping[str, str] | None) -> Reply:
        token = await self._tokens.token(self.url)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        proxy = self._proxy()
        try:
            async with self._http.request(
                method,
                url,
                data=form,
                headers=headers,
                allow_redirects=False,  # our token goes nowhere else
                proxy=None if proxy is None else proxy.url,
            ) as answer:
                if proxy is not None and answer.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
                    raise proxy_refusal(answer)
                body = await self._read_body(answer)
                if answer.status == HTTPStatus.OK or answer.content_type == _JSON:
                    return Reply(answer.status, body)
                said = f"{answer.status} {answer.reason or ''}".rstrip()
                raise MonitoringUnavailable(f"{self.url.origin()}: {said}")
        except (*CONNECTION_ERRORS, ValueError) as error:
            # Not raised from the client's own error, which holds our headers.
            reason = describe_error(error, proxy)
            raise MonitoringUnavailable(f"{self.url.origin()}: {reason}") from None

    def _proxy(self) -> Proxy | None:
        """Return the environment's proxy; raises MonitoringUnavailable for a bad one."""
        try:
            return environment_proxy(str(self.url), self._environ)
        except ProxyError as error:
            raise MonitoringUnavailable(str(error)) from None

    async def _read_body(self, answer: aiohttp.ClientResponse) -> bytes:
        parts, size = [], 0
        while part := await answer.content.readany():
            parts.append(part)
            size += len(part)
            if size > self._max_bytes:
                answer.close()
                raise aiohttp.ClientPayloadError(
                    f"the reply is longer than {self._max_bytes} bytes"
                )
        return b"".join(parts)
