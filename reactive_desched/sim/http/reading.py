"""Handles get and list requests."""

import asyncio
from collections.abc import Iterator

from aiohttp import web

from reactive_desched.sim.http.handler_context import HandlerContext
from reactive_desched.sim.http.messages import answer
from reactive_desched.sim.http.options import ListOptions
from reactive_desched.sim.http.rendering import Rendering, encode
from reactive_desched.sim.http.target import Target
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import bad_request, not_found, too_large_version
from reactive_desched.sim.views import scale_of

__all__ = ["get_one", "list_many", "wait_for_version"]

_SLICE = 200


async def wait_for_version(parts: HandlerContext, rv: int) -> None:
    """Wait briefly for a version the client has seen elsewhere; raise 504 if it does not come."""
    if not await parts.hub.reached(rv, parts.settings.freshness_wait_s):
        raise too_large_version(rv, parts.store.rv)


async def get_one(
    parts: HandlerContext, request: web.Request, target: Target, rendering: Rendering
) -> web.StreamResponse:
    """Answer with one object, or its scale."""
    version = request.query.get("resourceVersion", "")
    if version and not version.isdecimal():
        raise bad_request(f"invalid resource version {version!r}: it must be a decimal number")
    await wait_for_version(parts, int(version or 0))
    found = parts.store.get(target.view.storage, target.key_namespace, target.name)
    if found is None:
        raise not_found(target.resource, target.name)
    if target.subresource == "scale":
        return answer(request, scale_of(target.resource, found))
    return answer(request, rendering.one(found, parts.store.clock.now()))


async def list_many(
    parts: HandlerContext,
    request: web.Request,
    target: Target,
    options: ListOptions,
    rendering: Rendering,
) -> web.StreamResponse:
    """Answer with a list, or a page of one; long ones are sent as they are encoded."""
    await wait_for_version(parts, options.rv)
    page = parts.pages.page(target.view.storage, options)
    whole = rendering.collection(page.objects, page.meta(), parts.store.clock.now())
    kind = target.resource
    if whole is not None:
        return answer(request, whole)
    if len(page.objects) <= _SLICE:
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version}
        items = list(rendering.items(page.objects))
        return answer(request, {**head, "metadata": page.meta(), "items": items})
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    head_text = b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":[' % (
        f"{kind.kind}List".encode(),
        kind.api_version.encode(),
        encode(page.meta()),
    )
    await response.write(head_text)
    for piece in _pieces(rendering, page.objects):
        await response.write(piece)
        # Long lists must not keep watches and other requests waiting.
        await asyncio.sleep(0)
    await response.write(b"]}")
    return response


def _pieces(rendering: Rendering, objects: list[Obj]) -> Iterator[bytes]:
    for first in range(0, len(objects), _SLICE):
        shown = map(encode, rendering.items(objects[first : first + _SLICE]))
        yield (b"," if first else b"") + b",".join(shown)
