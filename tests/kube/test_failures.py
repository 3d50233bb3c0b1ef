import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from reactive_desched.kube.client.failures import describe_error, may_have_been_sent

KEY = ConnectionKey("10.0.0.1", 443, True, True, None, None, None)


@pytest.mark.parametrize(
    ("error", "reason", "sent"),
    [
        (
            aiohttp.ClientConnectorError(KEY, OSError(111, "Connection refused")),
            "cannot connect to 10.0.0.1:443: Connection refused",
            False,
        ),
        (
            aiohttp.ClientConnectorCertificateError(KEY, ssl.CertificateError("self-signed")),
            "cannot trust 10.0.0.1:443: ",
            False,
        ),
        (aiohttp.ConnectionTimeoutError("x"), "no connection in time", False),
        (TimeoutError(), "no answer in time", True),
        (aiohttp.ServerTimeoutError("x"), "no answer in time", True),
        (
            aiohttp.ServerDisconnectedError(),
            "the server closed the connection without an answer",
            True,
        ),
        (aiohttp.ClientPayloadError("too long"), "too long", True),
        (ConnectionResetError(104, "reset by peer"), "[Errno 104] reset by peer", True),
        (aiohttp.ClientError(), "ClientError", True),
    ],
)
def test_a_failure_is_named_and_known_to_be_before_or_after_sending(
    error: Exception, reason: str, *, sent: bool
) -> None:
    assert describe_error(error).startswith(reason)
    assert may_have_been_sent(error) is sent
    assert "object at 0x" not in describe_error(error)


def test_a_broken_chunk_is_a_broken_connection() -> None:
    error = aiohttp.ClientPayloadError("Response payload is not completed: <TransferEncodingError>")
    error.__cause__ = ValueError()
    assert describe_error(error) == "the connection broke in the middle of the answer"
