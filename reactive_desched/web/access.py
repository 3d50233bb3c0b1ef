"""Authorizes HTTP requests: of clients in the controller's pod, or by RBAC.

Without tokens, `/debug/…` and `/operator/…` answer only clients on the controller's own machine or
pod, as `kubectl exec` and `kubectl port-forward` make them: who may do that is decided by the
cluster's RBAC. A web page cannot send such a request: browsers name its `Origin`, and those
requests are rejected.

With tokens, every path but the probes' and the live page's own files needs one, as the ports of
kube-scheduler and kube-controller-manager do: TokenReview says whose it is, SubjectAccessReview
whether that user may do the verb (`get`, `post`) on the path.
"""

from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp.web_exceptions import (
    HTTPBadRequest,
    HTTPForbidden,
    HTTPServiceUnavailable,
    HTTPTooManyRequests,
    HTTPUnauthorized,
)
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response

from reactive_desched.errors import ClusterError, RateLimited
from reactive_desched.model.rights import AccessReview
from reactive_desched.telemetry.metrics import Metric, counter
from reactive_desched.web.router import READ_METHODS, Router

Review = Callable[[str, str, str], Awaitable[AccessReview]]
"""Reviews a token, a verb and a path; raises ClusterError when there is no answer."""

DENIED: Final = counter(
    "http_denied_requests",
    "Requests without a valid token, of users that RBAC does not let, or not reviewed.",
    "reason",
)

COOKIE: Final = "reactive-desched-token"
"""Holds the token of the live page, out of reach of scripts; it counts for reading alone."""

PAGE_PATH: Final = "/debug/status"
"""The path that a user must be allowed to read in order to log in."""

_OPERATOR_PATHS: Final = ("/debug/", "/operator/")
_REASONS: Final = ("Unauthorized", "Forbidden", "ReviewFailed")


class PodAccess:
    """Lets clients in the controller's own pod ask anything, others for metrics and events."""

    async def check(self, request: BaseRequest) -> None:
        """Return for a request that may be answered; raises HTTPForbidden for another."""
        if request.path.startswith(_OPERATOR_PATHS):
            _check_local(request)


class TokenAccess:
    """Lets in what RBAC lets the user of the request's token do.

    The live page's token is in a cookie, `is_encrypted` says whether it may only travel over TLS.
    """

    def __init__(self, review: Review, *, is_encrypted: bool) -> None:
        self._review = review
        self._is_encrypted = is_encrypted
        self._denied = dict.fromkeys(_REASONS, 0)

    async def check(self, request: BaseRequest) -> None:
        """Return for a request that may be answered; raises an HTTPException for another."""
        await self._check(_token_of(request), request.method.lower(), request.path)

    async def _log_in(self, request: BaseRequest) -> Response:
        """Answer a POST of `{"token": …}` from the live page: keep a token that may read it."""
        _check_same_origin(request)
        try:
            token = msgspec.json.decode(await request.read(), type=_Login).token
        except msgspec.DecodeError as error:
            raise HTTPBadRequest(text=f'send {{"token": "…"}}: {error}\n') from error
        await self._check(token.strip(), "get", PAGE_PATH)
        return self._with_cookie(token.strip())

    async def _log_out(self, request: BaseRequest) -> Response:
        """Answer a POST: forget the token."""
        _check_same_origin(request)
        return self._with_cookie("")

    def add_routes(self, router: Router) -> None:
        """Serve the live page's login."""
        router.add_post("/login", self._log_in)
        router.add_post("/logout", self._log_out)
        router.open_to_all("/login", "/logout")

    def collect(self) -> Iterator[Metric]:
        """Yield what was denied."""
        for reason, count in self._denied.items():
            yield DENIED.value(count, reason)

    async def _check(self, token: str, verb: str, path: str) -> None:
        review = await self._reviewed(token, verb, path) if token else AccessReview()
        if not review.user:
            self._denied["Unauthorized"] += 1
            raise HTTPUnauthorized(
                text="send a valid token as `Authorization: Bearer TOKEN`, for example one of "
                "kubectl create token\n",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if not review.allowed:
            self._denied["Forbidden"] += 1
            raise HTTPForbidden(
                text=f"{review.user} may not {verb} {path}: a ClusterRole with "
                f'nonResourceURLs: ["{path}"] and verbs: ["{verb}"] allows it\n'
            )

    async def _reviewed(self, token: str, verb: str, path: str) -> AccessReview:
        try:
            return await self._review(token, verb, path)
        except RateLimited as error:
            self._denied["ReviewFailed"] += 1
            raise HTTPTooManyRequests(text=f"{error}\n", headers={"Retry-After": "1"}) from error
        except ClusterError as error:
            self._denied["ReviewFailed"] += 1
            raise HTTPServiceUnavailable(
                text=f"the API server does not review the token: {error}; the controller's account "
                "needs the ClusterRole system:auth-delegator\n",
                headers={"Retry-After": "1"},
            ) from error

    def _with_cookie(self, token: str) -> Response:
        response = Response(status=HTTPStatus.NO_CONTENT)
        response.set_cookie(
            COOKIE,
            token,
            max_age=None if token else 0,
            httponly=True,
            samesite="Strict",
            secure=self._is_encrypted,
        )
        return response


class _Login(msgspec.Struct, frozen=True):
    token: str


def is_loopback(address: str) -> bool:
    """Say whether an IP address is of this machine; IPv4 may be written as IPv6."""
    if not address:
        return False
    ip = ip_address(address.partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return (mapped or ip).is_loopback


def _token_of(request: BaseRequest) -> str:
    """Return the bearer token; a cookie's counts for reading alone, so that no page can order."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return request.cookies.get(COOKIE, "") if request.method in READ_METHODS else ""


def _check_same_origin(request: BaseRequest) -> None:
    """Reject what a page from elsewhere sends: its user would get the token of another."""
    origin = request.headers.get("Origin", "")
    if origin and urlsplit(origin).netloc != request.headers.get("Host", ""):
        raise HTTPForbidden(text="pages from elsewhere are not answered here\n")


def _check_local(request: BaseRequest) -> None:
    """Reject clients elsewhere, and pages in a browser."""
    if not is_loopback(_peer_address(request)):
        raise HTTPForbidden(
            text="only clients in the controller's own pod are answered here: use kubectl exec or "
            "kubectl port-forward, or set server.requireToken and send a token\n"
        )
    if not _names_this_machine(request.headers.get("Host", "")):
        raise HTTPForbidden(
            text="write localhost or an IP address into the URL: "
            "a name may have been bound to this machine by another party\n"
        )
    if "Origin" in request.headers:
        raise HTTPForbidden(text="pages in a browser are not answered here\n")


def _names_this_machine(host: str) -> bool:
    """Say whether a Host header has no name that a page elsewhere could let resolve to us."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name in ("", "localhost"):
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _peer_address(request: BaseRequest) -> str:
    peer: Any = request.transport.get_extra_info("peername") if request.transport else None
    return peer[0] if peer else ""
