"""What is said when something answers that is no API server, or nothing does."""

import socket

import anyio
import pytest
from aiohttp import ClientConnectorDNSError, ClientConnectorSSLError
from aiohttp.client_reqrep import ConnectionKey

from reactive_desched.errors import RequestRejected
from reactive_desched.kube.client.failures import describe_error
from reactive_desched.kube.client.responses import ApiResponse, parse_status
from reactive_desched.kube.codec import make_codecs
from reactive_desched.kube.watch.initial_list import list_once
from reactive_desched.state.kinds.interning import InternTables

PAGE = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>"
KEY = ConnectionKey("api.example", 6443, True, True, None, None, None)


class LoginPage:
    """A server that answers everything with a page of HTML."""

    async def request(self, *_: object, **__: object) -> ApiResponse:
        await anyio.lowlevel.checkpoint()
        return ApiResponse(200, {"Content-Type": "text/html"}, PAGE)


@pytest.mark.anyio
async def test_a_list_that_is_a_web_page_is_said_to_be_one() -> None:
    codec = make_codecs(InternTables())["pods"]
    with pytest.raises(RequestRejected, match=r"list /api/v1/pods: a web page \(HTML\) came back"):
        await list_once(LoginPage(), codec, lambda _: None)  # type: ignore[arg-type]  # all it asks


def test_an_error_that_is_a_web_page_repeats_nothing_of_it() -> None:
    assert "<html" not in parse_status(PAGE, 502).message
    assert parse_status(PAGE, 502).message.startswith("a web page (HTML) came back")


def test_a_name_that_cannot_be_resolved_and_a_server_without_tls_are_said_plainly() -> None:
    unknown = ClientConnectorDNSError(KEY, socket.gaierror(-2, "Name or service not known"))
    plain = ClientConnectorSSLError(KEY, OSError(1, "[SSL: WRONG_VERSION_NUMBER]"))

    assert describe_error(unknown) == "the name of the server cannot be resolved: api.example"
    assert describe_error(plain).startswith("cannot speak TLS with api.example:6443: ")
