"""Answers to the subresources that act on pods: binding, eviction, and what needs a container."""

from types import MappingProxyType

from aiohttp import web

from reactive_desched.sim.binding import bind_as_asked
from reactive_desched.sim.deletion import default_policy
from reactive_desched.sim.eviction import evict
from reactive_desched.sim.http.handler_context import HandlerContext
from reactive_desched.sim.http.messages import answer, json_body, success
from reactive_desched.sim.http.options import dry_run_asked
from reactive_desched.sim.http.target import Target
from reactive_desched.sim.http.writing import options_from
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import StatusError, bad_request, not_found

__all__ = ["bind_pod", "evict_pod", "reach_container"]

_WANTED = MappingProxyType(
    {
        "attach": "nothing to attach to",
        "ephemeralcontainers": "nothing to debug",
        "exec": "nothing to run a command in",
        "log": "no log",
        "portforward": "no port to forward to",
        "proxy": "nothing to proxy to",
    }
)
_EVICTION_VERSIONS = (None, "", "policy/v1", "policy/v1beta1")


async def bind_pod(
    parts: HandlerContext, request: web.Request, target: Target
) -> web.StreamResponse:
    """Give a pod its node: 201."""
    body = await json_body(request)
    if not isinstance(body, dict):
        raise bad_request("the request body must be a Binding object")
    dry_run = dry_run_asked(request.query.getall("dryRun", []))
    bind_as_asked(parts.store, target.key_namespace, target.name, body, dry_run=dry_run)
    return answer(request, success(201), 201)


async def evict_pod(
    parts: HandlerContext, request: web.Request, target: Target
) -> web.StreamResponse:
    """Evict a pod if its disruption budget allows: 201."""
    body = await json_body(request)
    if not isinstance(body, dict):
        raise bad_request("the request body must be an Eviction object")
    _check(body, target)
    asked = body.get("deleteOptions") or {}
    queried = request.query.getall("dryRun", [])
    if queried and asked.get("dryRun") and queried != asked["dryRun"]:
        raise bad_request("Non-matching dry-run options in request and content")
    options = options_from(asked, queried, default_policy(target.resource))
    evict(parts.store, target.key_namespace, target.name, options)
    return answer(request, success(201), 201)


def reach_container(parts: HandlerContext, target: Target) -> web.StreamResponse:
    """Refuse with 501 and a sentence, or with 404 where there is not even a pod."""
    if parts.store.get("pods", target.key_namespace, target.name) is None:
        raise not_found(target.resource, target.name)
    text = (
        f"the pods of a simulated cluster run no containers, so there is"
        f" {_WANTED[target.subresource]}"
    )
    raise StatusError(501, "NotImplemented", text)


def _check(body: Obj, target: Target) -> None:
    if body.get("apiVersion") not in _EVICTION_VERSIONS:
        raise bad_request(f"no kind Eviction in version {body['apiVersion']!r}: use policy/v1")
    if body.get("kind") not in (None, "", "Eviction"):
        raise bad_request(f"{body['kind']} cannot be handled as an Eviction")
    meta = body.get("metadata") or {}
    if meta.get("name") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    if meta.get("namespace") not in (None, "", target.namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
