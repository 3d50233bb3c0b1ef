"""What a webhook's answer means: taken, not now, or never."""

from http import HTTPStatus
from typing import Final, NamedTuple

from reactive_desched.errors import EventRefused, SinkError, SinkUnavailable
from reactive_desched.primitives.retry_after import retry_after_s

REFUSED: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
"""The answers that are about this one event: it will never be taken."""

_REMEDIES: Final = {
    HTTPStatus.UNAUTHORIZED: "look at tokenFile and secretFile",
    HTTPStatus.FORBIDDEN: "look at tokenFile and secretFile",
    HTTPStatus.NOT_FOUND: "look at the path of url",
    HTTPStatus.METHOD_NOT_ALLOWED: "look at the path of url: POST is not for it",
    HTTPStatus.GONE: "it wants no events any more: take the webhook out of the settings",
}


class Reply(NamedTuple):
    """All that counts of an answer."""

    status: int
    retry_after: str | None = None


def judged(reply: Reply, origin: str, now: float) -> SinkError | None:
    """Return what to raise after this answer, None if the event is there; `now` is the time of day.

    What a person has to put right waits like an outage: the events are not at fault.
    """
    status = reply.status
    if 200 <= status < 300:  # noqa: PLR2004 -- the successes of HTTP
        return None
    said = f"{origin} answered {status} {_phrase(status)}".rstrip()
    if status in REFUSED:
        return EventRefused(said)
    if 300 <= status < 400:  # noqa: PLR2004 -- the redirects of HTTP
        said += ": redirects are not followed, write the final address into url"
    elif status in _REMEDIES:
        said += f": {_REMEDIES[HTTPStatus(status)]}"
    asked_s = None if reply.retry_after is None else retry_after_s(reply.retry_after, now)
    return SinkUnavailable(said, asked_s)


def _phrase(status: int) -> str:
    """Name a status in our own words: those of the answer might repeat what we sent."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
