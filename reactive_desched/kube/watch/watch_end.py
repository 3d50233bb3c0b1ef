"""Why a list or a watch came to its end, as values the reflector decides by."""

from enum import Enum, auto
from http import HTTPStatus

from msgspec import Struct

from reactive_desched.errors import ClusterError, RateLimited
from reactive_desched.kube.client.responses import ApiResponse, ApiStatus

__all__ = ["StopReason", "WatchEnd", "end_from_error", "end_from_response", "end_from_status"]


class StopReason(Enum):
    """The kinds of ending, told apart by what has to be done next."""

    CLEAN = auto()
    """The server closed the watch between two lines: resume."""
    INITIAL_EVENTS_DONE = auto()
    """The initial events of a streaming list have all come: swap them in, read on."""
    UNREACHABLE = auto()
    """There was no reply at all: try again after a pause."""
    BROKEN = auto()
    """The connection or the server failed: resume after a pause."""
    IDLE_TIMEOUT = auto()
    """Nothing came for too long: the link is dead, resume."""
    REOPENED = auto()
    """We stood still and trust the link no more: resume on another one at once."""
    THROTTLED = auto()
    """The server asks to be left alone for a while: resume after that."""
    GONE = auto()
    """Our place in the history is no longer there: list anew."""
    FAILED = auto()
    """The watch cannot go on from here: list anew after a pause."""
    REJECTED = auto()
    """The server does not understand the request."""
    DENIED = auto()
    """We may not do this, or there is no such resource: ask again, seldom."""
    UNAUTHORIZED = auto()
    """Our credentials are not accepted: they are being read again, resume after a pause."""


class WatchEnd(Struct, frozen=True, gc=False):
    """One ending, in words, and how long the server wants us to wait."""

    reason: StopReason
    message: str = ""
    retry_after_s: float | None = None


_BY_CODE = {
    HTTPStatus.UNAUTHORIZED: StopReason.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: StopReason.DENIED,
    HTTPStatus.NOT_FOUND: StopReason.DENIED,
    HTTPStatus.METHOD_NOT_ALLOWED: StopReason.DENIED,
    HTTPStatus.GONE: StopReason.GONE,
    HTTPStatus.TOO_MANY_REQUESTS: StopReason.THROTTLED,
    HTTPStatus.SERVICE_UNAVAILABLE: StopReason.THROTTLED,
}


def end_from_response(response: ApiResponse, call: str, wall_now: float) -> WatchEnd:
    """Read a reply that is not the expected 200; `what` names the call, as in `list pods`."""
    error = response.error
    why = _stop_reason(response.status, error, default=StopReason.BROKEN)
    detail = f"{call}: {response.status} {error.message or error.reason}".rstrip()
    return WatchEnd(why, detail, response.retry_after_s(wall_now))


def end_from_status(status: ApiStatus | None, call: str) -> WatchEnd:
    """Read an ERROR event; anything that is not told apart by its code calls for a new list."""
    if status is None:
        return WatchEnd(StopReason.FAILED, f"{call}: an ERROR event without a Status")
    why = _stop_reason(status.code, status, default=StopReason.FAILED)
    detail = f"{call}: ERROR event {status.code} {status.message or status.reason}".rstrip()
    return WatchEnd(why, detail, status.retry_after_s)


def end_from_error(error: ClusterError) -> WatchEnd:
    """Read a call that brought no reply."""
    return WatchEnd(
        StopReason.THROTTLED if isinstance(error, RateLimited) else StopReason.UNREACHABLE,
        str(error),
    )


def _stop_reason(code: int, error: ApiStatus, *, default: StopReason) -> StopReason:
    if any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes):
        return StopReason.GONE
    if error.reason in ("Expired", "Gone"):
        return StopReason.GONE
    by_code = _BY_CODE.get(HTTPStatus(code)) if code in _CODES else None
    if by_code is not None:
        return by_code
    return StopReason.REJECTED if 400 <= code < 500 else default  # noqa: PLR2004  the HTTP class


_CODES = frozenset(HTTPStatus)
