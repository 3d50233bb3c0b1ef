"""Reads a webhook's response: the event is taken, to be sent again, or refused for good."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from reactive_desched.errors import EventRejected, SinkError, SinkUnavailable
from reactive_desched.primitives.retry_after import parse_retry_after_s

REFUSED_STATUSES: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
"""The answers that are about this one event: it will never be taken."""

_REMEDIES: Final[Mapping[HTTPStatus, str]] = {
    HTTPStatus.UNAUTHORIZED: "look at tokenFile and secretFile",
    HTTPStatus.FORBIDDEN: "look at tokenFile and secretFile",
    HTTPStatus.NOT_FOUND: "look at the path of url",
    HTTPStatus.METHOD_NOT_ALLOWED: "look at the path of url: POST is not for it",
    HTTPStatus.GONE: "it wants no events any more: take the webhook out of the settings",
}


class WebhookResponse(NamedTuple):
    """All that counts of an answer."""

    status: int
    retry_after: str | None = None
    body: bytes = b""
    """The first bytes of a success, as they came."""


def classify_response(
    response: WebhookResponse,
    origin: str,
    now: float,
    remedies: Mapping[HTTPStatus, str] = _REMEDIES,
) -> SinkError | None:
    """Return what to raise after this answer, None if the event is there; `now` is the time of day.

    What a person has to put right waits like an outage: the events are not at fault. `remedies`
    have what that is.
    """
    status = response.status
    if 200 <= status < 300:  # noqa: PLR2004 -- the successes of HTTP
        return None
    message = f"{origin} answered {status} {_phrase(status)}".rstrip()
    if status in REFUSED_STATUSES:
        return EventRejected(message)
    if 300 <= status < 400:  # noqa: PLR2004 -- the redirects of HTTP
        message += ": redirects are not followed, write the final address into url"
    elif status in remedies:
        message += f": {remedies[HTTPStatus(status)]}"
    retry_s = (
        None if response.retry_after is None else parse_retry_after_s(response.retry_after, now)
    )
    return SinkUnavailable(message, retry_s)


def _phrase(status: int) -> str:
    """Name a status in our own words: those of the answer might repeat what we sent."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
