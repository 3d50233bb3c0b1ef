"""Why a list or a watch came to its end, as values the reflector decides by."""

from enum import Enum, auto
from http import HTTPStatus

from msgspec import Struct

from reactive_desched.errors import ClusterError, Saturated
from reactive_desched.kube.client.responses import Answer, ApiStatus

__all__ = ["End", "Ending", "of_answer", "of_error", "of_status"]


class End(Enum):
    """The kinds of ending, told apart by what has to be done next."""

    CLEAN = auto()
    """The server closed the watch between two lines: resume."""
    COMPLETE = auto()
    """The initial events of a streaming list have all come: swap them in, read on."""
    UNREACHABLE = auto()
    """There was no reply at all: try again after a pause."""
    BROKEN = auto()
    """The connection or the server failed: resume after a pause."""
    SILENT = auto()
    """Nothing came for too long: the link is dead, resume."""
    RENEWED = auto()
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
    UNKNOWN_CALLER = auto()
    """Our credentials are not accepted: they are being read again, resume after a pause."""


class Ending(Struct, frozen=True, gc=False):
    """One ending, in words, and how long the server wants us to wait."""

    why: End
    detail: str = ""
    retry_after_s: float | None = None


_BY_CODE = {
    HTTPStatus.UNAUTHORIZED: End.UNKNOWN_CALLER,
    HTTPStatus.FORBIDDEN: End.DENIED,
    HTTPStatus.NOT_FOUND: End.DENIED,
    HTTPStatus.METHOD_NOT_ALLOWED: End.DENIED,
    HTTPStatus.GONE: End.GONE,
    HTTPStatus.TOO_MANY_REQUESTS: End.THROTTLED,
    HTTPStatus.SERVICE_UNAVAILABLE: End.THROTTLED,
}


def of_answer(answer: Answer, what: str, wall_now: float) -> Ending:
    """Read a reply that is not the expected 200; `what` names the call, as in `list pods`."""
    error = answer.error
    why = _why(answer.status, error, otherwise=End.BROKEN)
    detail = f"{what}: {answer.status} {error.message or error.reason}".rstrip()
    return Ending(why, detail, answer.retry_after_s(wall_now))


def of_status(status: ApiStatus | None, what: str) -> Ending:
    """Read an ERROR event; anything that is not told apart by its code calls for a new list."""
    if status is None:
        return Ending(End.FAILED, f"{what}: an ERROR event without a Status")
    why = _why(status.code, status, otherwise=End.FAILED)
    detail = f"{what}: ERROR event {status.code} {status.message or status.reason}".rstrip()
    return Ending(why, detail, status.retry_after_s)


def of_error(error: ClusterError) -> Ending:
    """Read a call that brought no reply."""
    return Ending(End.THROTTLED if isinstance(error, Saturated) else End.UNREACHABLE, str(error))


def _why(code: int, error: ApiStatus, *, otherwise: End) -> End:
    if any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes):
        return End.GONE
    if error.reason in ("Expired", "Gone"):
        return End.GONE
    known = _BY_CODE.get(HTTPStatus(code)) if code in _CODES else None
    if known is not None:
        return known
    return End.REJECTED if 400 <= code < 500 else otherwise  # noqa: PLR2004  the HTTP class


_CODES = frozenset(HTTPStatus)
