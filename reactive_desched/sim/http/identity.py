"""Authenticates a request, and authorizes its user by the stored roles."""

import base64
import binascii
import hashlib
import hmac
from types import MappingProxyType

import msgspec
from aiohttp import web
from msgspec import Struct

from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.rbac import (
    ADMIN,
    Request,
    User,
    access,
    check_grant,
    forbidden_request,
    service_account,
)
from reactive_desched.sim.resources import RESOURCES, Resource
from reactive_desched.sim.status import StatusError, bad_request, cause, invalid, not_found
from reactive_desched.sim.store import Store

__all__ = ["Identities", "request_of"]

_ISSUER = "https://kubernetes.default.svc.cluster.local"
_HOUR_S = 3600
_SHORTEST_S = 600
_TOKEN_REQUEST = Resource(plural="tokens", kind="TokenRequest", group="authentication.k8s.io")
_BINDABLE = MappingProxyType(
    {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets", ("v1", "Node"): "nodes"}
)
"""The kinds to whose objects a token may be bound."""
_LONGEST_S = 1 << 32
_OWN_NAME_PARTS = 2
_OF_NAMESPACE = ("status", "finalize")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class _Claims(Struct, frozen=True):
    """The claims of a token, in the names of RFC 7519."""

    sub: str
    uid: str
    exp: int
    aud: list[str]
    iss: str = _ISSUER


class Identities:
    """Identifies users by token and impersonation headers, and admits their requests.

    A request without credentials, or with those of another cluster, comes from `sim:admin`, who
    may do everything.
    """

    def __init__(self, store: Store, key: bytes) -> None:
        self._store = store
        self._key = key
        self._head = _encoded(b'{"alg":"HS256","kid":"sim","typ":"JWT"}')

    def admit(self, request: web.Request) -> User:
        """Return who sends a request; raise 401 or 403 when that user may not send it."""
        user = self._sender(request)
        if not user.may_do_everything:
            self._check(user, request_of(request))
        return user

    def check_write(
        self, request: web.Request, kind: Resource, obj: Obj, current: Obj | None
    ) -> None:
        """Raise 403 for a role or binding that gives rights which the sender lacks."""
        check_grant(self._store, self._sender(request), kind, obj, current)

    def issue(self, namespace: str, name: str, asked: Obj) -> Obj:
        """Return the spec and the status of a TokenRequest for a ServiceAccount.

        Raises 404 or 422.
        """
        kind = RESOURCES["serviceaccounts"]
        account = self._store.get(kind.plural, namespace, name)
        if account is None:
            raise not_found(kind, name)
        seconds = asked.get("expirationSeconds") or _HOUR_S
        if not _SHORTEST_S <= seconds <= _LONGEST_S:
            bound = "less than 10 minutes" if seconds < _SHORTEST_S else "larger than 2^32 seconds"
            text = f"Invalid value: {seconds}: may not specify a duration {bound}"
            fault = cause("FieldValueInvalid", "spec.expirationSeconds", text)
            raise invalid(_TOKEN_REQUEST, "", [fault])
        self._check_bound(namespace, asked.get("boundObjectRef") or {})
        user = f"system:serviceaccount:{namespace}:{name}"
        end = int(self._store.clock.now()) + seconds
        audiences = asked.get("audiences") or [_ISSUER]
        body = _encoded(
            msgspec.json.encode(_Claims(user, account["metadata"]["uid"], end, audiences))
        )
        signed = f"{self._head}.{body}"
        token = f"{signed}.{self._signature(signed)}"
        to = asked.get("boundObjectRef")
        spec = {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": to}
        return {"spec": spec, "status": {"token": token, "expirationTimestamp": rfc3339(end)}}

    def _check_bound(self, namespace: str, reference: Obj) -> None:
        """Refuse to bind a token to what is not there, or to what no token is bound to."""
        if not reference:
            return
        kind = _BINDABLE.get((str(reference.get("apiVersion")), str(reference.get("kind"))))
        if kind is None:
            group = f"/{reference.get('apiVersion')}, Kind={reference.get('kind')}"
            raise bad_request(f"cannot bind token to object of type {group}")
        name = str(reference.get("name"))
        there = namespace if RESOURCES[kind].namespaced else ""
        if self._store.get(kind, there, name) is None:
            raise not_found(RESOURCES[kind], name)

    def bearer(self, token: str) -> User | None:
        """Return whose token it is; None for one that was not issued here, 401 for a dead one."""
        head, _, rest = token.partition(".")
        if head != self._head:
            return None
        body, _, signature = rest.rpartition(".")
        if not hmac.compare_digest(signature, self._signature(f"{head}.{body}")):
            raise _unauthorized()
        claims = msgspec.json.decode(_decoded(body), type=_Claims)
        namespace, name = claims.sub.split(":")[-2:]
        account = self._store.get("serviceaccounts", namespace, name)
        is_same = account is not None and account["metadata"]["uid"] == claims.uid
        if not is_same or claims.exp <= self._store.clock.now():
            raise _unauthorized()
        return service_account(claims.sub, uid=claims.uid)

    def _signature(self, text: str) -> str:
        return _encoded(hmac.new(self._key, text.encode(), hashlib.sha256).digest())

    def _sender(self, request: web.Request) -> User:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        sender = (self.bearer(token.strip()) if scheme.lower() == "bearer" else None) or ADMIN
        name = request.headers.get("Impersonate-User", "")
        groups = tuple(request.headers.getall("Impersonate-Group", []))
        if not name:
            if groups:
                raise bad_request("requested [Impersonate-Group] without impersonating a user")
            return sender
        if not sender.may_do_everything:
            for resource, each in (("users", name), *(("groups", group) for group in groups)):
                self._check(sender, Request(verb="impersonate", resource=resource, name=each))
        return service_account(name, groups)

    def _check(self, user: User, request: Request) -> None:
        if not access(self._store, user, request).allowed:
            raise forbidden_request(user, request)


def request_of(request: web.Request) -> Request:
    """Read from method and URL what a rule is compared with."""
    parts = [part for part in request.path.split("/") if part]
    match parts:
        case ["api", _, *rest] if rest:
            group = ""
        case ["apis", group, _, *rest] if rest:
            pass
        case _:
            verb = {"HEAD": "get", "GET": "get", "DELETE": "delete"} | _VERBS
            return Request(verb=verb.get(request.method, request.method.lower()), path=request.path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > _OWN_NAME_PARTS and rest[2] not in _OF_NAMESPACE:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    return Request(
        verb=_verb(request, name),
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


def _verb(request: web.Request, name: str) -> str:
    if request.method in ("GET", "HEAD"):
        if request.query.get("watch") in ("true", "1"):
            return "watch"
        return "get" if name else "list"
    if request.method == "DELETE":
        return "delete" if name else "deletecollection"
    return _VERBS.get(request.method, request.method.lower())


def _unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise _unauthorized() from error
