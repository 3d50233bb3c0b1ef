"""Asks a controller through a proxy; without one http.client does, which is loaded sooner."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from ssl import SSLContext
from typing import NamedTuple

import aiohttp

from reactive_desched.errors import ControllerUnavailable
from reactive_desched.primitives.http_failures import proxy_failure
from reactive_desched.primitives.proxies import Proxy


class ProxiedResponse(NamedTuple):
    """The response of a request through a proxy; names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@asynccontextmanager
async def cut_off_on_error(
    request: AbstractAsyncContextManager[aiohttp.ClientResponse],
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send a request, and abort the connection of a response that is not read to its end.

    Closing it over TLS would wait for the server's farewell, longer than this event loop runs.
    """
    async with request as response:
        try:
            yield response
        except BaseException:
            connection = response.connection
            if connection is not None and connection.transport is not None:
                connection.transport.abort()
            raise


def request_through(
    proxy: Proxy,
    method: str,
    url: str,
    body: str | None,
    headers: Mapping[str, str],
    tls: SSLContext | None,
    tls_server_name: str | None,
    timeout_s: float,
) -> ProxiedResponse:
    """Send a request through a proxy; raises ControllerUnavailable where the proxy refuses it.

    Raises OSError and the exceptions of aiohttp where the controller does not answer.
    """

    async def ask() -> ProxiedResponse:
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            request = session.request(
                method,
                url,
                data=body,
                headers=headers,
                proxy=proxy.url,
                ssl=True if tls is None else tls,
                server_hostname=tls_server_name,
                allow_redirects=False,
            )
            async with cut_off_on_error(request) as response:
                answered = {name.lower(): text for name, text in response.headers.items()}
                return ProxiedResponse(response.status, answered, await response.read())

    try:
        answer = asyncio.run(ask())
    except aiohttp.ClientError as error:
        if failure := proxy_failure(error, proxy):
            raise ControllerUnavailable(failure) from None  # its request holds our token
        raise
    if answer.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        raise ControllerUnavailable(proxy.refusal(answer.status, answer.headers.items()))
    return answer
