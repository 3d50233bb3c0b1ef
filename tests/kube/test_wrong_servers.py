"""What is said when something answers that is no API server, or nothing does."""

import socket

import anyio
import pytest
from aiohttp import ClientConnectorDNSError, ClientConnectorSSLError
from aiohttp.client_reqrep import ConnectionKey

from reactive_desched.errors import RequestRejected
from reactive_desched.kube.client.responses import ApiResponse, parse_status
from reactive_desched.kube.codec import make_codecs
from reactive_desched.kube.watch.initial_list import list_once
from reactive_desched.primitives.http_failures import describe_error
from reactive_desched.state.kinds.interning import InternTables
from tests.support.golden import Golden

PAGE = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>"
KEY = ConnectionKey("api.example", 6443, True, True, None, None, None)


class LoginPage:
    """A server that answers everything with a page of HTML."""

    def __init__(self, status: int) -> None:
        self._status = status

    async def request(self, *_: object, **__: object) -> ApiResponse:
        await anyio.lowlevel.checkpoint()
        return ApiResponse(self._status, {"Content-Type": "text/html"}, PAGE)


@pytest.mark.anyio
@pytest.mark.parametrize("status", [200, 403, 404])
async def test_a_list_that_is_a_web_page_is_said_to_be_one_and_no_matter_of_rights(
    status: int,
) -> None:
    codec, server = make_codecs(InternTables())["pods"], LoginPage(status)
    with pytest.raises(RequestRejected, match=r"a web page \(HTML\) came back") as caught:
        await list_once(server, codec, lambda _: None)  # type: ignore[arg-type]  # all it asks
    assert (caught.value.is_web_page, caught.value.is_denied) == (True, False)


def test_an_error_that_is_a_web_page_repeats_nothing_of_it() -> None:
    assert "<html" not in parse_status(PAGE, 502).message
    assert parse_status(PAGE, 502).message.startswith("a web page (HTML) came back")


def test_a_name_that_cannot_be_resolved_and_a_server_without_tls_are_said_plainly(
    golden: Golden,
) -> None:
    unknown = ClientConnectorDNSError(KEY, socket.gaierror(-2, "Name or service not known"))
    plain = ClientConnectorSSLError(KEY, OSError(1, "[SSL: WRONG_VERSION_NUMBER]"))

    assert describe_error(unknown) == golden()
    assert describe_error(plain).startswith("cannot speak TLS with api.example:6443: ")
