"""Asks a monitoring server by HTTP: with its token, through the environment's proxy, bounded."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final, Protocol

import aiohttp
from yarl import URL

from reactive_desched.errors import MonitoringUnavailable
from reactive_desched.primitives.proxies import ProxyError
from reactive_desched.usage.secret_request import NoReply, Reply, SecretRequest

__all__ = ["MonitoringServer", "TokenSource"]

_JSON: Final = "application/json"


class TokenSource(Protocol):
    """Returns the bearer token; it is called for each question, as tokens rotate."""

    async def token(self, url: URL) -> str:
        """Return the token to show to this address, empty for none; raises UsageUnavailable."""
        ...


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
        request, most = SecretRequest(method, url, headers, form), self._max_bytes
        try:
            reply = await request.send(self._http, self._environ, most)
        except ProxyError as error:
            raise MonitoringUnavailable(str(error)) from None
        except NoReply as error:
            raise MonitoringUnavailable(f"{self.url.origin()}: {error}") from None
        if len(reply.body) > most:
            text = f"{self.url.origin()}: the reply is longer than {most} bytes"
            raise MonitoringUnavailable(text)
        if reply.status == HTTPStatus.OK or reply.content_type == _JSON:
            return reply
        raise MonitoringUnavailable(f"{self.url.origin()}: {reply.status_line}")
