"""What the API server says in reply to one request, and how its errors are read.

A body that is not a Status (plain text from a proxy or from flow control) is still understood by
its HTTP code alone.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from reactive_desched.primitives import retry_after
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

__all__ = [
    "ApiResponse",
    "ApiStatus",
    "StatusCause",
    "StatusDetails",
    "parse_status",
    "retry_after_s",
]

_MAX_MESSAGE_CHARS = 300
_MAX_RETRY_AFTER_S = 600.0


class StatusCause(Struct, frozen=True, gc=False):
    """One cause inside a Status; `reason` names its type, for example `DisruptionBudget`."""

    reason: str = ""
    message: str = ""


class StatusDetails(Struct, frozen=True, gc=False, rename="camel"):
    """The machine-readable half of a Status."""

    causes: list[StatusCause] | None = None
    retry_after_seconds: int = 0


class ApiStatus(Struct, frozen=True, gc=False):
    """The API's error object, or what could be made of a body that is none."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None

    @property
    def causes(self) -> list[StatusCause]:
        """The causes, empty when the server named none."""
        return (self.details and self.details.causes) or []

    @property
    def retry_after_s(self) -> float | None:
        """The wait the body itself asks for, if any."""
        seconds = self.details.retry_after_seconds if self.details else 0
        return min(float(seconds), _MAX_RETRY_AFTER_S) if seconds > 0 else None


class ApiResponse(Struct, frozen=True, gc=False):
    """One whole HTTP reply: status, headers (looked up without regard to case) and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300  # noqa: PLR2004  the HTTP class of success

    @property
    def error(self) -> ApiStatus:
        """The body read as a Status."""
        return parse_status(self.body, self.status)

    def retry_after_s(self, wall_now: float) -> float | None:
        """How long the server asks us to stay away: by header, else by the Status body."""
        return retry_after_s(self.headers, wall_now) or self.error.retry_after_s


def parse_status(body: bytes | msgspec.Raw, code: int = 0) -> ApiStatus:
    """Read a Status; any other body becomes the message of one, cut to one readable line."""
    try:
        status = _STATUS.decode(body)
    except DECODE_ERRORS:
        text = bytes(body)[: 4 * _MAX_MESSAGE_CHARS].decode("utf-8", "replace")
        return ApiStatus(code=code, message=" ".join(text.split())[:_MAX_MESSAGE_CHARS])
    return status if status.code else msgspec.structs.replace(status, code=code)


def retry_after_s(headers: Mapping[str, str], wall_now: float) -> float | None:
    """Read Retry-After, seconds or an HTTP date; never more than ten minutes, None if unusable."""
    seconds = retry_after.parse_retry_after_s(headers.get("Retry-After", ""), wall_now)
    return min(seconds, _MAX_RETRY_AFTER_S) if seconds else None


_STATUS = msgspec.json.Decoder(ApiStatus)
