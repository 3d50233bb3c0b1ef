"""Says of a request that failed whether it may have reached the API server."""

import aiohttp

__all__ = ["ClusterNotConfirmed", "is_response_timeout", "may_have_been_sent"]


class ClusterNotConfirmed(aiohttp.ClientConnectionError):
    """A connection leads to another cluster, or does not say to which: no request was sent."""


_NEVER_SENT = (
    ClusterNotConfirmed,
    aiohttp.ClientConnectorError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
)


def may_have_been_sent(error: Exception) -> bool:
    """Say whether the request may have reached the server before this error."""
    return not isinstance(error, _NEVER_SENT)


def is_response_timeout(error: Exception) -> bool:
    """Say whether a connection was there, and no whole response came in time."""
    return isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError)
