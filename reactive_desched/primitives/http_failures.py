"""Describes what went wrong with an HTTP request, with the same words each time.

No text of a request or an answer is in them: either may hold a secret.
"""

import os
import re
import ssl
from http import HTTPStatus
from typing import Final

import aiohttp

from reactive_desched.primitives.proxies import Proxy
from reactive_desched.primitives.shortage import lacking

__all__ = [
    "CONNECTION_ERRORS",
    "check_proxy_login",
    "describe_error",
    "is_certificate_refused",
    "is_closed",
    "proxy_failure",
    "proxy_refusal",
]

_ALERT: Final = re.compile(
    r"_ALERT_((?:CERTIFICATE_\w+|(?:BAD|NO|UNSUPPORTED)_CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED))$"
)
"""OpenSSL's names of the alerts about a client's certificate."""

CONNECTION_ERRORS: Final = (aiohttp.ClientError, OSError)
"""What aiohttp raises when a connection fails; OSError covers time-outs."""


def describe_error(error: Exception, proxy: Proxy | None = None) -> str:
    """Describe the error without memory addresses and protocol details; name the proxy in use."""
    if proxy is None and isinstance(error, aiohttp.InvalidURL):
        return "its address is no URL"  # the error quotes it, and it may hold a password
    if proxy is None:
        return _describe(error, "")
    if isinstance(error, aiohttp.InvalidURL):
        return f"{proxy} cannot be used: write http://HOST:PORT"
    return proxy_failure(error, proxy) or f"{_describe(error, '')}, through {proxy}"


def proxy_failure(error: Exception, proxy: Proxy) -> str:
    """Say what of the proxy failed, and what to do; empty where the proxy is not at fault."""
    match error:
        case aiohttp.ClientHttpProxyError():
            return proxy.refusal(error.status, error.headers.items() if error.headers else ())
        case aiohttp.ClientConnectorError() if error.host == proxy.host:
            return f"{_describe(error, 'proxy')}; {proxy.source} names it"
    return ""


def check_proxy_login(reply: aiohttp.ClientResponse, proxy: Proxy | None) -> None:
    """Raise the error of a proxy that wants a password for a request that needs no tunnel."""
    if proxy is not None and reply.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        raise proxy_refusal(reply)


def proxy_refusal(reply: aiohttp.ClientResponse) -> aiohttp.ClientHttpProxyError:
    """Return the error for a proxy's own answer to a request that needs no tunnel."""
    return aiohttp.ClientHttpProxyError(
        reply.request_info, reply.history, status=reply.status, headers=reply.headers
    )


def is_certificate_refused(error: BaseException | None) -> bool:
    """Return whether a server refused our certificate, or that there is none, by an alert of TLS.

    With TLS 1.3 it comes after our end of the handshake, as the answer to the first request.
    """
    return bool(_certificate_alert(error))


def is_closed(error: BaseException | None) -> bool:
    """Return whether the other side closed or reset the connection, or TLS failed over it."""
    while error is not None:
        if isinstance(error, (aiohttp.ServerDisconnectedError, ConnectionError, ssl.SSLError)):
            return not isinstance(error, ConnectionRefusedError)
        error = error.__cause__
    return False


def _certificate_alert(error: BaseException | None) -> str:
    """Return what an alert says of our certificate; empty where there is none."""
    while error is not None:
        reason = getattr(error, "reason", "") if isinstance(error, ssl.SSLError) else ""
        if found := _ALERT.search(reason or ""):
            return found[1].replace("_", " ").lower()
        error = error.__cause__
    return ""


def _describe(error: Exception, role: str) -> str:
    """Describe an error; `role` says what the host of the error is where it is no server."""
    if alert := _certificate_alert(error):
        refuses = f"the {role or 'server'} does not accept the certificate of this client"
        return f"{refuses}, in the TLS handshake: {alert}"
    return _describe_other(error, role)


def _describe_other(error: Exception, role: str) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"cannot trust {_host(error, role)}: {error.certificate_error}"
        case aiohttp.ClientConnectorSSLError():
            is_plain = (
                "most proxies speak plain HTTP: write http:// there"
                if role
                else "does it serve plain HTTP, or is it a proxy?"
            )
            return f"cannot speak TLS with {_host(error, role)}: {is_plain}"
        case aiohttp.ClientConnectorDNSError() if not lacking(error.os_error):
            return f"the name of the {role or 'server'} cannot be resolved: {error.host}"
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            cause = os.strerror(number) if number and number > 0 else str(error.os_error)
            return f"cannot connect to {_host(error, role)}: {cause}"
        case aiohttp.ConnectionTimeoutError():
            return "no connection in time"
        case TimeoutError():
            return "no answer in time"
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection without an answer"
        case aiohttp.ClientResponseError():  # its message quotes the response
            return "the response is no valid HTTP, or has a header that is too long"
        case aiohttp.ClientPayloadError() if error.__cause__ is not None:
            return "the connection broke in the middle of the answer"
        case _:
            return str(error) or type(error).__name__


def _host(error: aiohttp.ClientConnectorError, role: str) -> str:
    return f"the {role} {error.host}:{error.port}" if role else f"{error.host}:{error.port}"
