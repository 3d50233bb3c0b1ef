"""From a request to the handler that answers it; and from what goes wrong to a `Status`."""

import asyncio
import logging
from types import MappingProxyType

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from reactive_desched.errors import ReactiveDeschedError
from reactive_desched.sim.faults import Fault, FaultPlan
from reactive_desched.sim.http import openapi, pod_actions, reading, watching, writing
from reactive_desched.sim.http.handler_context import HandlerContext
from reactive_desched.sim.http.messages import answer, refusal
from reactive_desched.sim.http.negotiate import accepted, wants_aggregated_discovery
from reactive_desched.sim.http.options import ListOptions, parse_list_options
from reactive_desched.sim.http.rendering import Rendering, rendering_for
from reactive_desched.sim.http.reviews import Reviews
from reactive_desched.sim.http.target import Target, parse_target
from reactive_desched.sim.http.usage import ROOT, metrics_answer
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.rbac import User
from reactive_desched.sim.resources import STREAMS
from reactive_desched.sim.status import StatusError, no_such_resource

__all__ = ["api_application"]

_CHECKS = MappingProxyType(
    {
        "healthz": ("ping", "log", "loopback-serving-certificate", "etcd"),
        "livez": ("ping", "log", "loopback-serving-certificate", "etcd"),
        "readyz": ("ping", "log", "etcd", "etcd-readiness", "informer-sync", "shutdown"),
    }
)
"""What each endpoint of health says that it has looked at, as far as this server has it."""
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_log = logging.getLogger(__name__)


def api_application(parts: HandlerContext, faults: FaultPlan) -> web.Application:
    """Return the whole API server as one application."""
    app = web.Application(
        client_max_size=parts.settings.most_body_bytes,
        middlewares=[_faulty(faults), _answering_errors],
    )
    server = _Server(parts)
    app.router.add_route("*", "/{path:.*}", server.handle)
    return app


def _faulty(faults: FaultPlan) -> Middleware:
    @web.middleware
    async def inject(request: web.Request, handler: Handler) -> web.StreamResponse:
        fault = faults.take(request.method, request.path_qs)
        if fault is None:
            return await handler(request)
        return await _suffer(fault, request, handler)

    return inject


async def _suffer(fault: Fault, request: web.Request, handler: Handler) -> web.StreamResponse:
    if fault.delay_s:
        await asyncio.sleep(fault.delay_s)
    if fault.reset and request.transport is not None:
        request.transport.abort()
        return web.Response()  # goes nowhere: the connection is gone
    if not fault.code:
        return await handler(request)
    return web.Response(
        body=fault.body,
        status=fault.code,
        content_type=fault.content_type,
        headers=dict(fault.headers),
    )


@web.middleware
async def _answering_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except StatusError as error:
        return refusal(error)
    except web.HTTPRequestEntityTooLarge:
        text = "Request entity too large: limit is 3145728"
        return refusal(StatusError(413, "RequestEntityTooLarge", text))
    except (ReactiveDeschedError, KeyError, TypeError, AttributeError, ValueError) as error:
        # Objects of a shape that is not validated end here: a client's fault, reported as ours.
        _log.exception("cannot answer %s %s", request.method, request.path_qs)
        text = f"Internal error occurred: {type(error).__name__}: {error}"
        return refusal(StatusError(500, "InternalError", text))


def _health(request: web.Request, endpoint: str, *, is_of_one: bool) -> web.Response:
    """Say that all is well: shortly, or of each check where a client asks for that."""
    if is_of_one or "verbose" not in request.query:
        return web.Response(text="ok")
    excluded = request.query.getall("exclude", [])
    lines = [f"[+]{it} {'excluded: ok' if it in excluded else 'ok'}" for it in _CHECKS[endpoint]]
    return web.Response(text="\n".join((*lines, f"{endpoint} check passed", "")))


class _Server:
    """Routes by hand, as the real server does: the URL grammar has more shapes than routes."""

    def __init__(self, parts: HandlerContext) -> None:
        self._parts = parts
        self._reviews = Reviews(parts.store, parts.identities)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        path = request.path
        user = self._parts.identities.admit(request)
        if (target := parse_target(path, self._parts.store.kinds)) is not None:
            return await self._resource(request, target)
        if request.method == "POST":
            return await self._review(request, user)
        if request.method != "GET":
            return self._nothing(path)
        return self._about(request, path.rstrip("/") or "/")

    def _about(self, request: web.Request, path: str) -> web.Response:
        endpoint, _, check = path[1:].partition("/")
        if check in ("", *_CHECKS.get(endpoint, ())) and endpoint in _CHECKS:
            return _health(request, endpoint, is_of_one=bool(check))
        if path in ("/api", "/apis"):
            return self._roots(request, path)
        if path == "/openapi/v2":
            return openapi.second_version(request.headers.get("Accept", ""))
        found = self._described(path)
        if found is None and path.startswith(ROOT):
            selector = request.query.get("labelSelector", "")
            found = metrics_answer(self._parts, path, selector)
        if found is None and (adapter := self._parts.catalogue.adapter) is not None:
            found = adapter.answer(path, request.query)
        return self._nothing(path) if found is None else answer(request, found)

    def _nothing(self, path: str) -> web.Response:
        """Answer 404: a `Status` below a group that is served, plain text elsewhere."""
        match path.strip("/").split("/"):
            case ["api", "v1", *rest] if rest:
                raise no_such_resource("", _plural(rest))
            case ["apis", group, version, *rest] if rest and self._parts.catalogue.kinds_of(
                group, version
            ):
                raise no_such_resource(group, _plural(rest))
        return web.Response(text="404 page not found\n", status=404)

    def _roots(self, request: web.Request, path: str) -> web.Response:
        catalogue, header = self._parts.catalogue, request.headers.get("Accept", "")
        if self._parts.settings.aggregated_discovery and wants_aggregated_discovery(header):
            groups = [""] if path == "/api" else catalogue.named_groups()
            response = answer(request, catalogue.aggregated(groups))
            response.headers["Content-Type"] = _AGGREGATED
            return response
        found = catalogue.legacy_core() if path == "/api" else catalogue.groups()
        return answer(request, found)

    def _described(self, path: str) -> Obj | None:
        catalogue = self._parts.catalogue
        match path.strip("/").split("/"):
            case ["version"]:
                return _version(self._parts.settings.git_version)
            case ["api", version]:
                return catalogue.resources("", version)
            case ["apis", group]:
                return catalogue.group(group)
            case ["apis", group, version]:
                return catalogue.resources(group, version)
            case ["openapi", "v3"]:
                return openapi.index(catalogue)
            case ["openapi", "v3", *rest]:
                return openapi.document(catalogue, "/".join(rest))
        return None

    async def _review(self, request: web.Request, user: User) -> web.Response:
        answered = await self._reviews.answer(request, user)
        return self._nothing(request.path) if answered is None else answered

    async def _resource(self, request: web.Request, target: Target) -> web.StreamResponse:
        form = accepted(request.headers.get("Accept", ""))
        rendering = rendering_for(target.view, form, request.query.get("includeObject", ""))
        if target.subresource in STREAMS:
            return pod_actions.reach_container(self._parts, target)
        if target.subresource in ("binding", "eviction", "token"):
            return await self._action(request, target)
        if request.method in ("GET", "HEAD"):
            return await self._read(request, target, rendering)
        if not _is_allowed(request.method, target):
            raise _not_allowed()
        if request.method == "DELETE" and not target.name:
            options = self._list_options(request, target)
            return await writing.delete_many(self._parts, request, target, options, rendering)
        handler = _WRITES.get((request.method, bool(target.name)))
        if handler is None:
            raise _not_allowed()
        return await handler(self._parts, request, target, rendering)

    async def _action(self, request: web.Request, target: Target) -> web.StreamResponse:
        if request.method != "POST":
            raise _not_allowed()
        if target.subresource == "token":
            return await writing.create_token(self._parts, request, target)
        if target.subresource == "binding":
            return await pod_actions.bind_pod(self._parts, request, target)
        return await pod_actions.evict_pod(self._parts, request, target)

    async def _read(
        self, request: web.Request, target: Target, rendering: Rendering
    ) -> web.StreamResponse:
        watches = request.query.get("watch") in ("true", "1")
        if target.name and not watches:
            return await reading.get_one(self._parts, request, target, rendering)
        options = self._list_options(request, target)
        if options.watch:
            return await watching.watch_many(self._parts, request, target, options, rendering)
        return await reading.list_many(self._parts, request, target, options, rendering)

    def _list_options(self, request: web.Request, target: Target) -> ListOptions:
        query = dict(request.query)
        if target.name:
            asked = query.get("fieldSelector", "")
            query["fieldSelector"] = ",".join(filter(None, (f"metadata.name={target.name}", asked)))
        watch_list = self._parts.settings.watch_list
        return parse_list_options(target.resource, query, target.namespace, watch_list=watch_list)


_WRITES = {
    ("POST", False): writing.create,
    ("PUT", True): writing.update,
    ("PATCH", True): writing.patch,
    ("DELETE", True): writing.delete_one,
}


def _is_allowed(method: str, target: Target) -> bool:
    """Return whether a write may be done: not to parts, and not in all namespaces at once."""
    return target.namespace is not None and not (method == "DELETE" and target.subresource)


def _plural(parts: list[str]) -> str:
    """Return what names the kind in the rest of a resource's URL."""
    return parts[2] if parts[0] == "namespaces" and len(parts) > 2 else parts[0]  # noqa: PLR2004


def _not_allowed() -> StatusError:
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text, details={})


def _version(git_version: str) -> Obj:
    major, minor = git_version.removeprefix("v").split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git_version,
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "go1.26",
        "compiler": "gc",
        "platform": "linux/amd64",
    }
