import errno
import socket
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from reactive_desched.kube.client.failures import may_have_been_sent
from reactive_desched.primitives.http_failures import describe_error
from tests.support.golden import Golden

KEY = ConnectionKey("10.0.0.1", 443, True, True, None, None, None)


@pytest.mark.parametrize(
    ("error", "sent"),
    [
        (
            aiohttp.ClientConnectorError(KEY, OSError(111, "Connection refused")),
            False,
        ),
        (
            aiohttp.ClientConnectorCertificateError(KEY, ssl.CertificateError("self-signed")),
            False,
        ),
        (aiohttp.ConnectionTimeoutError("x"), False),
        (TimeoutError(), True),
        (aiohttp.ServerTimeoutError("x"), True),
        (
            aiohttp.ServerDisconnectedError(),
            True,
        ),
        (aiohttp.ClientPayloadError("too long"), True),
        (ConnectionResetError(104, "reset by peer"), True),
        (aiohttp.ClientError(), True),
    ],
    ids=[
        "refused",
        "certificate",
        "connection timeout",
        "timeout",
        "server timeout",
        "disconnected",
        "payload",
        "reset",
        "other",
    ],
)
def test_a_failure_is_named_and_known_to_be_before_or_after_sending(
    error: Exception, golden: Golden, *, sent: bool
) -> None:
    assert describe_error(error).startswith(golden())
    assert may_have_been_sent(error) is sent
    assert "object at 0x" not in describe_error(error)


def test_a_broken_chunk_is_a_broken_connection(golden: Golden) -> None:
    error = aiohttp.ClientPayloadError("Response payload is not completed: <TransferEncodingError>")
    error.__cause__ = ValueError()
    assert describe_error(error) == golden()


def test_a_lack_of_open_files_is_not_described_as_an_unknown_name() -> None:
    lack = aiohttp.ClientConnectorDNSError(KEY, OSError(errno.EMFILE, "x"))
    assert "open files" in describe_error(lack)
    assert "resolved" not in describe_error(lack)
    assert "resolved" in describe_error(
        aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "x"))
    )
