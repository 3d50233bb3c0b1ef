"""Posts to one URL, over one connection that is kept; its errors hold nothing of a request."""

import errno
import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import aiohttp
import anyio
from yarl import URL

from reactive_desched._version import __version__
from reactive_desched.errors import SinkUnavailable
from reactive_desched.journal.disk import DiskThread
from reactive_desched.primitives.client_tls import client_tls_context, load_client_certificate
from reactive_desched.primitives.http_failures import proxy_failure
from reactive_desched.primitives.proxies import Proxy, ProxyError, environment_proxy
from reactive_desched.sinks.webhook.responses import WebhookResponse

MAX_RESPONSE_BYTES: Final = 16 * 1024
_DRAIN_TIMEOUT_S: Final = 1.0
_CONNECTION_CLOSED: Final = "it closed the connection without an answer"


class WebhookAddress(NamedTuple):
    """The URL and the type of what is posted; `timeout_s` is that of one request.

    `cert_file` and `key_file` are of a client certificate, empty where there is none.
    """

    url: URL
    content_type: str
    ca_file: str
    timeout_s: float
    cert_file: str = ""
    key_file: str = ""


class RequestHeaders(Protocol):
    """Returns the headers of one request, besides those of every one."""

    def headers(self, id_: str, sent_at: int, body: bytes) -> Mapping[str, str]:
        """Return them for a body that is sent at this time of day; blocks.

        Raises SinkUnavailable naming the file that cannot be used.
        """
        ...


class WebhookClient:
    """Posts to one URL.

    Follows no redirect and stores no cookie; a proxy comes from `environ`. Of an answer only its
    status and Retry-After count: the rest of an answer may repeat our secrets, so it is in no
    error. `wall` is the time of day in seconds.
    """

    def __init__(
        self,
        address: WebhookAddress,
        signer: RequestHeaders,
        wall: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._url, self._content_type, self._timeout_s = (
            address.url,
            address.content_type,
            address.timeout_s,
        )
        self._address = address
        self._signer = signer
        self._wall = wall
        self._file_thread: DiskThread | None = None
        self._environ = environ
        self._session: aiohttp.ClientSession | None = None
        self._proxy: Proxy | None = None
        self._is_reusable = False

    @property
    def origin(self) -> str:
        """The scheme, host and port of the URL: a path may be a secret."""
        return str(self._url.origin())

    async def close(self) -> None:
        """Close the connection, and end the thread that reads files."""
        await self._close_session()
        if self._file_thread is not None:
            self._file_thread.close()
        self._file_thread = None

    async def _close_session(self) -> None:
        """Close the connection; the next one trusts the authorities that `caFile` has by then."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def post(self, id_: str, body: bytes) -> WebhookResponse:
        """Post once; twice when a connection kept from before turns out to be closed.

        Raises SinkUnavailable where there is no answer.
        """
        session = await self._open()
        while True:
            was_reusable, self._is_reusable = self._is_reusable, False
            found = await self._post_once(session, id_, body)
            if isinstance(found, WebhookResponse):
                self._is_reusable = True
                return found
            if not (was_reusable and found.startswith(_CONNECTION_CLOSED)):
                await self._close_session()
                # Never raised from the client's own error, which holds our headers.
                raise SinkUnavailable(f"{self._url.origin()}: {found}")

    async def _post_once(
        self, session: aiohttp.ClientSession, id_: str, body: bytes
    ) -> WebhookResponse | str:
        """Post, and return the answer or what went wrong."""
        sent_at = int(self._wall())
        headers = await self._ensure_file_thread().run(
            lambda: self._signer.headers(id_, sent_at, body)
        )
        try:
            async with session.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                body = await _drain(answer)
                kept = body if answer.ok else b""
                return WebhookResponse(answer.status, answer.headers.get("Retry-After"), kept)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return self._error_text(error)

    async def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._proxy = self._read_proxy()
            tls = await self._ensure_file_thread().run(self._read_tls)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=1, ssl=tls),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=self._timeout_s),
                headers={
                    "content-type": self._content_type,
                    "user-agent": f"reactive-desched/{__version__}",
                },
                auto_decompress=False,
                proxy=None if self._proxy is None else self._proxy.url,
            )
        return self._session

    def _ensure_file_thread(self) -> DiskThread:
        if self._file_thread is None:
            self._file_thread = DiskThread("webhook files")
        return self._file_thread

    def _read_proxy(self) -> Proxy | None:
        try:
            return environment_proxy(str(self._url), self._environ)
        except ProxyError as error:
            raise SinkUnavailable(f"{self._url.origin()}: {error}") from None

    def _read_tls(self) -> ssl.SSLContext:
        return read_client_tls(self._address)

    def _error_text(self, error: Exception) -> str:
        """Describe an error without any text of the request, which may hold secrets."""
        if self._proxy is None:
            return self._describe(error)
        failure = proxy_failure(error, self._proxy)
        return failure or f"{self._describe(error)}, through {self._proxy}"

    def _describe(self, error: Exception) -> str:
        match error:
            case TimeoutError():
                return f"no answer within {self._timeout_s:g}s"
            case aiohttp.ClientConnectorCertificateError():
                why = getattr(error.certificate_error, "verify_message", "")
                return f"its certificate is not to be trusted: {why or 'it cannot be checked'}"
            case aiohttp.ServerDisconnectedError() | OSError(errno=errno.ECONNRESET | errno.EPIPE):
                return _CONNECTION_CLOSED
            case OSError():
                return f"no connection: {error.strerror or type(error).__name__}"
            case _:
                return f"no proper answer ({type(error).__name__})"


def read_client_tls(address: WebhookAddress) -> ssl.SSLContext:
    """Load the trusted authorities and the client certificate; blocks.

    Raises SinkUnavailable naming the file that cannot be used.
    """
    try:
        context = client_tls_context(address.ca_file)
    except OSError as error:
        text = f"caFile {address.ca_file} cannot be used: {error.strerror or error}"
        raise SinkUnavailable(text) from error
    if address.cert_file:
        files = f"certFile {address.cert_file} and keyFile {address.key_file}"
        try:
            pair = [Path(path).read_bytes() for path in (address.cert_file, address.key_file)]
            load_client_certificate(context, *pair)
        except OSError as error:
            text = f"{files} cannot be used: {error.strerror or error}"
            raise SinkUnavailable(text) from error
    return context


async def _drain(response: aiohttp.ClientResponse) -> bytes:
    """Read a short answer to its end, so that the connection can be used again; or leave it.

    The status has come, and counts: errors here are ignored.
    """
    parts: list[bytes] = []
    left = MAX_RESPONSE_BYTES
    with anyio.move_on_after(_DRAIN_TIMEOUT_S):
        try:
            while left > 0 and (part := await response.content.read(left)):
                parts.append(part)
                left -= len(part)
        except (aiohttp.ClientError, OSError):
            response.close()
    return b"".join(parts)
