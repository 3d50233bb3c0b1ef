"""Answers the requests of an operator to a running controller: `/debug/…` and `/operator/…`."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from inspect import isawaitable
from itertools import chain
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from aiohttp.web_exceptions import (
    HTTPBadRequest,
    HTTPServiceUnavailable,
    HTTPUnprocessableEntity,
    HTTPUnsupportedMediaType,
)
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse
from anyio.lowlevel import checkpoint

from reactive_desched.errors import ConfigError, NotAnswered, NotRecorded
from reactive_desched.primitives.hints import not_one_of
from reactive_desched.web.in_parts import json_parts, send_in_parts
from reactive_desched.web.router import Handler, Router

MAX_BODY_BYTES: Final = 4096
"""The longest body of an order; a longer one is answered with 413."""

RETRY_AFTER_S: Final = 2
"""So long a client should wait that got no answer now."""

MAX_INDENTED_BYTES: Final = 1 << 17
"""A longer answer is one line."""

CLUSTER_HEADER: Final = "Reactive-Desched-Cluster"
"""The header of every answer that names the controller's cluster, percent-encoded."""

JSON_TYPE: Final = "application/json"

S = TypeVar("S", bound=msgspec.Struct)


class DebugPage(msgspec.Struct, frozen=True):
    """A page under `/debug/`: `read` gets the query and returns what to write as JSON, or awaits.

    `read` raises ConfigError for a query that it does not take, NotRecorded for a moment of which
    it has nothing, and NotAnswered where it has no answer now.
    """

    name: str
    summary: str
    read: Callable[[Mapping[str, str]], object | Awaitable[object]]


class Order(msgspec.Struct, frozen=True):
    """Something to do under `/operator/`: `carry_out` gets the JSON object that was sent.

    It returns what to answer, as JSON, once the order is carried out and recorded, and raises
    ConfigError for an order that cannot be.
    """

    name: str
    summary: str
    carry_out: Callable[[Mapping[str, Any]], Awaitable[object]]


class Operator(msgspec.Struct, frozen=True):
    """The debug pages and the orders of one controller; `cluster` names its cluster once known."""

    pages: tuple[DebugPage, ...] = ()
    orders: tuple[Order, ...] = ()
    cluster: Callable[[], str] = str

    @property
    def index(self) -> str:
        """One line for each page, for `/`."""
        return "".join(f"{f'/debug/{page.name}':<20}{page.summary}\n" for page in self.pages)

    def add_routes(self, router: Router) -> None:
        """Serve the pages to GET and the orders to POST."""
        for page in self.pages:
            router.add_get(f"/debug/{page.name}", _page_handler(page, self._headers))
        for order in self.orders:
            router.add_post(f"/operator/{order.name}", _order_handler(order, self._headers))

    def _headers(self) -> dict[str, str]:
        name = self.cluster()
        return {CLUSTER_HEADER: quote(name, safe=" :/(),=")} if name else {}


def _page_handler(page: DebugPage, headers: Callable[[], dict[str, str]]) -> Handler:
    async def handle(request: BaseRequest) -> StreamResponse:
        try:
            answer = page.read(request.query)
            found = await answer if isawaitable(answer) else answer
            return await _json_response(request, found, headers())
        except ConfigError as error:
            raise HTTPBadRequest(text=f"{error}\n", headers=headers()) from error
        except NotRecorded as error:
            raise HTTPUnprocessableEntity(text=f"{error}\n", headers=headers()) from error
        except NotAnswered as error:
            retry = {**headers(), "Retry-After": str(RETRY_AFTER_S)}
            raise HTTPServiceUnavailable(text=f"{error}\n", headers=retry) from error

    return handle


def read_order(body: Mapping[str, Any], kind: type[S]) -> S:
    """Return the body of an order as a struct of its kind; raises ConfigError where it is none."""
    known = kind.__struct_encode_fields__
    if unknown := sorted(body.keys() - set(known)):
        raise ConfigError(f"{not_one_of(unknown[0], known)}, the members of this order")
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        member = place.strip("`").removeprefix("$.")
        raise ConfigError(f"{member}: {what}" if member else what) from error


def _order_handler(order: Order, headers: Callable[[], dict[str, str]]) -> Handler:
    async def handle(request: BaseRequest) -> StreamResponse:
        if request.content_type != JSON_TYPE:
            raise HTTPUnsupportedMediaType(text=f"send an order as {JSON_TYPE}\n")
        try:
            body = msgspec.json.decode(await request.read() or b"{}", type=dict[str, Any])
            return await _json_response(request, await order.carry_out(body), headers())
        except (ConfigError, msgspec.DecodeError) as error:
            raise HTTPBadRequest(text=f"{error}\n", headers=headers()) from error

    return handle


async def _json_response(
    request: BaseRequest, answer: object, headers: Mapping[str, str]
) -> StreamResponse:
    """Answer with JSON; a long one is sent part by part, and not laid out."""
    parts, body = json_parts(answer), bytearray()
    for part in parts:
        body += part
        if len(body) > MAX_INDENTED_BYTES:
            content_type = {"Content-Type": JSON_TYPE}
            return await send_in_parts(request, chain((body,), parts), {**headers, **content_type})
        await checkpoint()
    text = msgspec.json.format(bytes(body), indent=1) + b"\n"
    return Response(status=HTTPStatus.OK, body=text, content_type=JSON_TYPE, headers=headers)
