"""Answers to questions about access and identity, from the roles that are stored."""

from typing import Any

from aiohttp import web

from reactive_desched.sim.http.identity import Identities
from reactive_desched.sim.http.messages import answer, json_body
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.rbac import Request, User, access, rules_for, service_account
from reactive_desched.sim.status import StatusError, bad_request
from reactive_desched.sim.store import Store

__all__ = ["Reviews"]

_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
_KINDS = {
    "selfsubjectaccessreviews": (_AUTHORIZATION, "SelfSubjectAccessReview"),
    "subjectaccessreviews": (_AUTHORIZATION, "SubjectAccessReview"),
    "localsubjectaccessreviews": (_AUTHORIZATION, "LocalSubjectAccessReview"),
    "selfsubjectrulesreviews": (_AUTHORIZATION, "SelfSubjectRulesReview"),
    "selfsubjectreviews": (_AUTHENTICATION, "SelfSubjectReview"),
    "tokenreviews": (_AUTHENTICATION, "TokenReview"),
}


class Reviews:
    """Answers each kind of review; nothing of them is stored."""

    def __init__(self, store: Store, identities: Identities) -> None:
        self._store = store
        self._identities = identities

    async def answer(self, request: web.Request, user: User) -> web.Response | None:
        """Answer a review that was posted: 201; None when no review is served at the path."""
        match request.path.strip("/").split("/"):
            case ["apis", group, "v1", plural]:
                namespace = ""
            case ["apis", group, "v1", "namespaces", namespace, plural]:
                pass
            case _:
                return None
        if _KINDS.get(plural, ("",))[0] != group or plural.startswith("local") != bool(namespace):
            return None
        body = await json_body(request)
        if not isinstance(body, dict) or not isinstance(body.get("spec") or {}, dict):
            raise bad_request("the request body must be an object")
        spec = body.get("spec") or {}
        if namespace and (spec.get("resourceAttributes") or {}).get("namespace") != namespace:
            raise bad_request("spec.resourceAttributes.namespace must match the request's")
        head = {"apiVersion": f"{group}/v1", "kind": _KINDS[plural][1], "metadata": {}}
        return answer(request, {**body, **head, "status": self._status(plural, spec, user)}, 201)

    def _status(self, plural: str, spec: Obj, user: User) -> Obj:
        match plural:
            case "selfsubjectaccessreviews":
                return self._access(user, spec)
            case "selfsubjectrulesreviews":
                return self._rules(user, spec.get("namespace") or "")
            case "selfsubjectreviews":
                return {"userInfo": _shown(user)}
            case "tokenreviews":
                return self._token(str(spec.get("token") or ""))
        if not spec.get("user") and not spec.get("groups"):
            raise bad_request("spec.user and spec.groups: at least one of them must be set")
        asked = service_account(str(spec.get("user") or ""), tuple(spec.get("groups") or ()))
        return self._access(asked, spec)

    def _access(self, user: User, spec: Obj) -> Obj:
        found = access(self._store, user, _asked(spec))
        return {"allowed": found.allowed, **({"reason": found.reason} if found.reason else {})}

    def _rules(self, user: User, namespace: str) -> Obj:
        rules = rules_for(self._store, user, namespace)
        return {
            "resourceRules": [rule for rule in rules if "resources" in rule],
            "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
            "incomplete": False,
        }

    def _token(self, token: str) -> Obj:
        try:
            user = self._identities.bearer(token)
        except StatusError as error:
            return {"authenticated": False, "error": error.message}
        if user is None:
            return {"authenticated": False, "error": "the token was not issued by this cluster"}
        return {"authenticated": True, "user": _shown(user)}


def _asked(spec: Obj) -> Request:
    if about := spec.get("resourceAttributes"):
        return Request(
            verb=_text(about, "verb"),
            group=_text(about, "group"),
            resource=_text(about, "resource"),
            subresource=_text(about, "subresource"),
            namespace=_text(about, "namespace"),
            name=_text(about, "name"),
        )
    if about := spec.get("nonResourceAttributes"):
        return Request(verb=_text(about, "verb"), path=_text(about, "path"))
    raise bad_request("spec: one of resourceAttributes and nonResourceAttributes must be set")


def _text(about: Any, field: str) -> str:
    return str(about.get(field) or "")


def _shown(user: User) -> Obj:
    uid = {"uid": user.uid} if user.uid else {}
    return {"username": user.name, **uid, "groups": list(user.groups)}
