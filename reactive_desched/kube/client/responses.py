"""The API server's response to one request, and its errors.

A body that is not a Status (plain text from a proxy or from flow control) is classified by its HTTP
code alone.
"""

from collections.abc import Collection, Mapping
from http import HTTPStatus

import msgspec
from msgspec import Struct

from reactive_desched.errors import RequestRejected
from reactive_desched.model.rights import with_grant
from reactive_desched.primitives import retry_after
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.text.ages import describe_asked_wait

__all__ = [
    "ApiResponse",
    "ApiStatus",
    "Body",
    "StatusCause",
    "StatusDetails",
    "parse_status",
]

Body = bytes | bytearray
"""The body of a response; a bytearray is the buffer that the request gave."""

WEB_PAGE = "a web page (HTML) came back: this is no API server, or a proxy or login page before it"
"""What is said of an answer that is HTML."""

_MAX_MESSAGE_CHARS = 300
_MAX_RETRY_AFTER_S = 600.0


class StatusCause(Struct, frozen=True, gc=False):
    """One cause in a Status; `reason` names its type, for example `DisruptionBudget`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True, gc=False, rename="camel"):
    """The machine-readable part of a Status."""

    causes: list[StatusCause] | None = None
    retry_after_seconds: int = 0
    kind: str = ""


class ApiStatus(Struct, frozen=True, gc=False):
    """The API's error object, or one made from a body that is no Status."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None

    @property
    def advice(self) -> str:
        """The message, and the rule of RBAC that is missing where that is what it says."""
        return with_grant(self.message)

    @property
    def causes(self) -> list[StatusCause]:
        """The causes; empty when the server sent none."""
        return (self.details and self.details.causes) or []

    @property
    def retry_after_s(self) -> float | None:
        """The wait that the Status asks for, if any; at most ten minutes."""
        return _bounded(self.asked_wait_s)

    @property
    def asked_wait_s(self) -> float | None:
        """The wait that the Status asks for, however long."""
        seconds = self.details.retry_after_seconds if self.details else 0
        return float(seconds) if seconds > 0 else None

    @property
    def wait_text(self) -> str:
        """In how long the server is asked again; empty where that is soon."""
        return describe_asked_wait(self.asked_wait_s, _MAX_RETRY_AFTER_S)


class ApiResponse(Struct, frozen=True, gc=False):
    """One HTTP response; header names are looked up without regard to case."""

    status: int
    headers: Mapping[str, str]
    body: Body

    @property
    def ok(self) -> bool:
        """Say whether the request succeeded."""
        return 200 <= self.status < 300  # noqa: PLR2004  the HTTP class of success

    @property
    def error(self) -> ApiStatus:
        """The body as a Status."""
        return parse_status(self.body, self.status)

    @property
    def is_of_another(self) -> bool:
        """Say whether another object has the name, so that the uid in a patch is not its uid.

        The API server calls that invalid: the uid of an object is immutable.
        """
        return self.status == HTTPStatus.UNPROCESSABLE_ENTITY and any(
            cause.field == "metadata.uid" for cause in self.error.causes
        )

    @property
    def is_overtaken(self) -> bool:
        """Say whether the object is gone, another one has its name, or it was written since."""
        return self.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT) or self.is_of_another

    def retry_after_s(self, wall_now: float) -> float | None:
        """Return the wait that the server asks for, by header or by Status; ten minutes at most."""
        return _bounded(self._asked_wait_s(wall_now))

    def wait_text(self, wall_now: float) -> str:
        """Say in how long the server is asked again; empty where that is soon."""
        return describe_asked_wait(self._asked_wait_s(wall_now), _MAX_RETRY_AFTER_S)

    def _asked_wait_s(self, wall_now: float) -> float | None:
        asked_s = retry_after.parse_retry_after_s(self.headers.get("Retry-After", ""), wall_now)
        return asked_s or self.error.asked_wait_s


def accepted_body(reply: ApiResponse, about: str, transient: Collection[int] = ()) -> bytes:
    """Return the body of an answer, which may not be a refusal or a web page.

    Raises RequestRejected for these, with what the request was `about`; it is retryable for errors
    of the server and the `transient` codes, denied for a 403, and gone for a 404, or where another
    object has the name.
    """
    if reply.ok and not is_web_page(reply.body):
        return bytes(reply.body)
    passes = reply.status in transient or reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    raise RequestRejected(
        f"{about}: {reply.status} {reply.error.advice}",
        retryable=passes,
        is_denied=reply.status == HTTPStatus.FORBIDDEN,
        is_gone=reply.status == HTTPStatus.NOT_FOUND or reply.is_of_another,
    )


def is_web_page(body: Body | msgspec.Raw) -> bool:
    """Return whether a body is HTML, as of a proxy or a login page, and no answer of the API."""
    return bytes(body)[:64].lstrip().startswith(b"<")


def parse_status(body: Body | msgspec.Raw, code: int = 0) -> ApiStatus:
    """Decode a Status; any other body becomes the message of one, cut to one line."""
    try:
        status = _STATUS.decode(body)
    except DECODE_ERRORS:
        if is_web_page(body):
            return ApiStatus(code=code, message=WEB_PAGE)
        text = bytes(body)[: 4 * _MAX_MESSAGE_CHARS].decode("utf-8", "replace")
        return ApiStatus(code=code, message=" ".join(text.split())[:_MAX_MESSAGE_CHARS])
    return status if status.code else msgspec.structs.replace(status, code=code)


def _bounded(asked_s: float | None) -> float | None:
    return min(asked_s, _MAX_RETRY_AFTER_S) if asked_s else None


_STATUS = msgspec.json.Decoder(ApiStatus)
