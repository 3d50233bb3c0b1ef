"""Sends a long answer part by part: at once it would hold the event loop."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse
from anyio.lowlevel import checkpoint

from reactive_desched.web.connections import add_security_headers


async def send_in_parts(
    request: BaseRequest, parts: Iterable[bytes | bytearray], headers: Mapping[str, str]
) -> StreamResponse:
    """Answer with all these parts, each rendered when the one before is sent.

    Between two parts other tasks have their turn, and a client that reads slowly is waited for.
    """
    response = StreamResponse(status=HTTPStatus.OK, headers=headers)
    add_security_headers(response)
    with suppress(ConnectionError):  # a client that has gone is no fault
        await response.prepare(request)
        for part in () if request.method == "HEAD" else parts:
            if part:
                await response.write(part)
            await checkpoint()
        await response.write_eof()
    return response
