"""Describes connection errors with the same words each time."""

import os

import aiohttp

__all__ = ["CONNECTION_ERRORS", "describe_error", "may_have_been_sent"]

CONNECTION_ERRORS = (aiohttp.ClientError, OSError)
"""What aiohttp raises when a connection fails; OSError covers time-outs."""

_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)


def may_have_been_sent(error: Exception) -> bool:
    """Whether the request may have reached the server before this error."""
    return not isinstance(error, _NEVER_SENT)


def describe_error(error: Exception) -> str:
    """Describe the error without memory addresses and protocol details."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"cannot trust {error.host}:{error.port}: {error.certificate_error}"
        case aiohttp.ClientConnectorSSLError():
            where = f"{error.host}:{error.port}"
            return f"cannot speak TLS with {where}: does it serve plain HTTP, or is it a proxy?"
        case aiohttp.ClientConnectorDNSError():
            return f"the name of the server cannot be resolved: {error.host}"
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            cause = os.strerror(number) if number and number > 0 else str(error.os_error)
            return f"cannot connect to {error.host}:{error.port}: {cause}"
        case aiohttp.ConnectionTimeoutError():
            return "no connection in time"
        case TimeoutError():
            return "no answer in time"
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection without an answer"
        case aiohttp.ClientPayloadError() if error.__cause__ is not None:
            return "the connection broke in the middle of the answer"
        case _:
            return str(error) or type(error).__name__
