"""What an operator asks of a running controller, and has it do: `/debug/…` and `/operator/…`.

Only clients on the controller's own machine or pod are answered, as `kubectl exec` and
`kubectl port-forward` make them: who may do that is decided by the cluster's RBAC. A web page
cannot send such a request: browsers name its `Origin`, and those requests are rejected.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from inspect import isawaitable
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

import msgspec
from aiohttp.web_exceptions import HTTPBadRequest, HTTPForbidden, HTTPUnsupportedMediaType
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse

from reactive_desched.errors import ConfigError
from reactive_desched.web.router import Handler, Router

MAX_BODY_BYTES: Final = 4096
"""The longest body of an order; a longer one is answered with 413."""

JSON_TYPE: Final = "application/json"


class DebugPage(msgspec.Struct, frozen=True):
    """A page under `/debug/`: `read` gets the query and returns what to write as JSON, or awaits.

    `read` raises ConfigError for a query that it does not take.
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
    """The debug pages and the orders of one controller."""

    pages: tuple[DebugPage, ...] = ()
    orders: tuple[Order, ...] = ()

    @property
    def index(self) -> str:
        """One line for each page, for `/`."""
        return "".join(f"{f'/debug/{page.name}':<16}{page.summary}\n" for page in self.pages)

    def add_routes(self, router: Router) -> None:
        """Serve the pages to GET and the orders to POST."""
        for page in self.pages:
            router.add_get(f"/debug/{page.name}", _page_handler(page))
        for order in self.orders:
            router.add_post(f"/operator/{order.name}", _order_handler(order))


def _page_handler(page: DebugPage) -> Handler:
    async def handle(request: BaseRequest) -> StreamResponse:
        _check_client(request)
        try:
            answer = page.read(request.query)
            return _json_response(await answer if isawaitable(answer) else answer)
        except ConfigError as error:
            raise HTTPBadRequest(text=f"{error}\n") from error

    return handle


def _order_handler(order: Order) -> Handler:
    async def handle(request: BaseRequest) -> StreamResponse:
        _check_client(request)
        if request.content_type != JSON_TYPE:
            raise HTTPUnsupportedMediaType(text=f"send an order as {JSON_TYPE}\n")
        try:
            body = msgspec.json.decode(await request.read() or b"{}", type=dict[str, Any])
            return _json_response(await order.carry_out(body))
        except (ConfigError, msgspec.DecodeError) as error:
            raise HTTPBadRequest(text=f"{error}\n") from error

    return handle


def is_loopback(address: str) -> bool:
    """Say whether an IP address is of this machine; IPv4 may be written as IPv6."""
    if not address:
        return False
    ip = ip_address(address.partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return (mapped or ip).is_loopback


def _check_client(request: BaseRequest) -> None:
    """Reject clients elsewhere, and pages in a browser."""
    if not is_loopback(_peer_address(request)):
        raise HTTPForbidden(
            text="only clients in the controller's own pod are answered here: "
            "use kubectl exec or kubectl port-forward\n"
        )
    if not _names_this_machine(request.headers.get("Host", "")):
        raise HTTPForbidden(
            text="write localhost or an IP address into the URL: "
            "a name may have been bound to this machine by somebody else\n"
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
    peer = request.transport.get_extra_info("peername") if request.transport else None
    return peer[0] if peer else ""


def _json_response(answer: object) -> Response:
    body = msgspec.json.format(msgspec.json.encode(answer), indent=1) + b"\n"
    return Response(status=HTTPStatus.OK, body=body, content_type=JSON_TYPE)
