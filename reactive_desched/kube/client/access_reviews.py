"""Asks the API server whose token it is, and what that user may: TokenReview, SubjectAccessReview.

As kube-scheduler does for its own port: authentication and authorization are delegated, and an
answer counts for ten seconds.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

import msgspec
from cachetools import TTLCache
from msgspec import Struct

from reactive_desched.errors import RateLimited, RequestRejected, Unreachable
from reactive_desched.kube.client.session import RequestLimits, Transport
from reactive_desched.model.rights import AccessReview
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.primitives.token_bucket import TokenBucket, TokenRate

CACHE_TTL_S: Final = 10.0
"""An answer counts for so long, as in kube-scheduler: a revoked token works on for that time."""

MAX_CACHED: Final = 1024
"""So many tokens, and as many requests of users, are remembered; the oldest is forgotten first."""

REVIEW_RATE: Final = TokenRate(20.0, 40)
"""So many reviews are asked for; a client that sends one wrong token after another gets 429."""

_LIMITS: Final = RequestLimits(connect_s=5.0, read_s=5.0, total_s=5.0)
_AUTHENTICATION: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_AUTHORIZATION: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _User(Struct, frozen=True, omit_defaults=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False
    reason: str = ""


_Status = TypeVar("_Status", _TokenStatus, _AccessStatus)


class _Review(Struct, Generic[_Status], frozen=True):
    status: _Status


class AccessReviewer:
    """Reviews tokens and requests; `clock` gives monotonic seconds."""

    def __init__(self, session: Transport, clock: Callable[[], float]) -> None:
        self._session = session
        self._clock = clock
        self._bucket = TokenBucket(REVIEW_RATE, clock())
        self._users: TTLCache[bytes, _User] = TTLCache(MAX_CACHED, CACHE_TTL_S, clock)
        self._reviews: TTLCache[tuple[bytes, str, str], AccessReview] = TTLCache(
            MAX_CACHED, CACHE_TTL_S, clock
        )

    async def review(self, token: str, verb: str, path: str) -> AccessReview:
        """Say whose token it is and whether that user may, in RBAC's words, `verb` this path.

        Raises RateLimited when too many reviews were asked for, RequestRejected when the API
        server does not let the controller ask, and Unreachable when there is no answer.
        """
        hashed = hashlib.sha256(token.encode()).digest()
        user = self._users.get(hashed)
        if user is None:
            user = self._users[hashed] = await self._user_of(token)
        if not user.username:
            return AccessReview()
        question = hashed, verb, path
        review = self._reviews.get(question)
        if review is None:
            review = self._reviews[question] = await self._access_of(user, verb, path)
        return review

    async def _user_of(self, token: str) -> _User:
        """Return the user of a token; without a name for a token that is not valid."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        status = await self._ask(_AUTHENTICATION, body, _Review[_TokenStatus])
        return status.user if status.authenticated else _User()

    async def _access_of(self, user: _User, verb: str, path: str) -> AccessReview:
        status = await self._ask(
            _AUTHORIZATION,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": user.username,
                    "uid": user.uid,
                    "groups": user.groups,
                    "extra": user.extra,
                    "nonResourceAttributes": {"path": path, "verb": verb},
                },
            },
            _Review[_AccessStatus],
        )
        return AccessReview(user.username, status.allowed, status.reason)

    async def _ask(
        self, path: str, body: Mapping[str, object], review: type[_Review[_Status]]
    ) -> _Status:
        now = self._clock()
        if not self._bucket.has_token(now):
            raise RateLimited("too many tokens are being reviewed")
        self._bucket.spend(now)
        reply = await self._session.request(
            "POST", path, body=msgspec.json.encode(body), limits=_LIMITS
        )
        if not reply.ok:
            raise RequestRejected(
                f"POST {path}: {reply.status} {reply.error.advice}", retryable=False
            )
        try:
            return msgspec.json.decode(reply.body, type=review).status
        except DECODE_ERRORS as error:
            raise Unreachable(f"POST {path}", f"not a review: {error}", sent=True) from error
