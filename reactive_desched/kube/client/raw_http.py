"""Writes a request to an open connection of aiohttp's pool, and reads the response to its end.

aiohttp has no door for what holds of a connection rather than of a request (aio-libs/aiohttp#434
asks for one, for NTLM), so this goes by names that a minor version may change: pyproject.toml
bounds it.
"""

from typing import Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError

from reactive_desched.kube.client.responses import ApiResponse

__all__ = ["MAX_HEADERS", "MAX_HEADER_BYTES", "begin_request", "protocol_of", "read_response"]

MAX_HEADER_BYTES: Final = 2**17
"""So long a header of a response may be: a proxy that signs people in adds cookies and tokens."""

MAX_HEADERS: Final = 1000
_FINAL_STATUS: Final = 200


def protocol_of(connection: Connection) -> ResponseHandler:
    """Return what parses the responses of a connection in use."""
    assert connection.protocol is not None, "it was neither closed nor released"
    return connection.protocol


def begin_request(connection: Connection, content: bytes, read_s: float) -> None:
    """Write a request; raises ServerDisconnectedError where the connection is closed.

    No part of the response may take longer than `read_s`.
    """
    protocol, transport = protocol_of(connection), connection.transport
    if transport is None:
        raise aiohttp.ServerDisconnectedError
    protocol.set_response_params(
        read_timeout=read_s,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        max_headers=MAX_HEADERS,
    )
    transport.write(content)
    protocol.start_timeout()


async def read_response(
    connection: Connection, about: aiohttp.RequestInfo, max_bytes: int
) -> ApiResponse:
    """Read the response to the request that was begun; raises aiohttp's errors."""
    protocol = protocol_of(connection)
    try:
        message, content = await protocol.read()
        while message.code < _FINAL_STATUS:
            message, content = await protocol.read()
    except HttpProcessingError as error:
        raise aiohttp.ClientResponseError(
            about, (), status=error.code, message=error.message, headers=error.headers
        ) from error
    body = bytearray()
    while part := await content.readany():
        body += part
        if len(body) > max_bytes:
            raise aiohttp.ClientPayloadError(f"the reply is longer than {max_bytes} bytes")
    return ApiResponse(message.code, message.headers, bytes(body))
