"""Posts events to a URL: each as a structured CloudEvent, in order, signed where a key is set."""

import errno
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import aiohttp
import anyio
from anyio.lowlevel import checkpoint
from yarl import URL

from reactive_desched._version import __version__
from reactive_desched.api.sink import SinkHost
from reactive_desched.errors import EventRejected, SinkError, SinkUnavailable
from reactive_desched.journal.disk import DiskThread
from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import WebhookSettings
from reactive_desched.primitives.client_tls import client_tls_context
from reactive_desched.primitives.proxies import Proxy, ProxyError, environment_proxy
from reactive_desched.sinks.type_filter import TypeFilter
from reactive_desched.sinks.webhook.responses import WebhookResponse, classify_response
from reactive_desched.sinks.webhook.signing import WebhookSigner

MAX_BATCH_RECORDS: Final = 100
"""So many records are looked at in one go, and nothing is sent after the first second of it."""
MAX_BATCH_S: Final = 1.0
MAX_RESPONSE_BYTES: Final = 16 * 1024
_DRAIN_TIMEOUT_S: Final = 1.0
_CONNECTION_CLOSED: Final = "it closed the connection without an answer"
_CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"


class WebhookSink:
    """Posts each event that is wanted and waits for its answer before the next one.

    Follows no redirect and stores no cookie; a proxy comes from `environ`. Of an answer only its
    status and Retry-After count: the rest of an answer may repeat our secrets, so it is in no
    error. `wall` is the time of day and `clock` monotonic, both in seconds.
    """

    settings = WebhookSettings
    from_start = False

    @classmethod
    def open(cls, settings: WebhookSettings, host: SinkHost) -> "WebhookSink":
        """Return a sink that has no connection yet."""
        return cls(settings, wall=host.wall, clock=host.clock, name=host.name)

    def __init__(
        self,
        settings: WebhookSettings,
        *,
        wall: Callable[[], float],
        clock: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
        name: str = "webhook",
    ) -> None:
        self.name = name
        self._type_filter = TypeFilter(settings.types)
        self._url = URL(settings.url)
        self._ca_file = settings.ca_file
        self._timeout_s = settings.timeout_s
        self._signer = WebhookSigner(settings.secret_file, settings.token_file)
        self._wall = wall
        self._clock = clock
        self._file_thread: DiskThread | None = None
        self._environ = environ
        self._session: aiohttp.ClientSession | None = None
        self._proxy: Proxy | None = None
        self._is_reusable = False
        self._pending_error: tuple[int, SinkError] | None = None

    async def deliver(self, entries: Sequence[JournalRecord]) -> int:
        """Post events until one fails, and return how many were delivered or skipped.

        What went wrong behind those is raised when the rest is handed over again.
        """
        await checkpoint()
        self._raise_pending_error(entries[0].seq)
        portion, ends_at = entries[:MAX_BATCH_RECORDS], self._clock() + MAX_BATCH_S
        for done, entry in enumerate(portion):
            try:
                await self._deliver_one(entry)
            except SinkError as error:
                if not done:
                    raise
                self._pending_error = entry.seq, error
                return done
            if self._clock() >= ends_at:
                return done + 1
        return len(portion)

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

    def _raise_pending_error(self, seq: int) -> None:
        owed, self._pending_error = self._pending_error, None
        if owed is not None and owed[0] == seq:
            raise owed[1]

    async def _deliver_one(self, entry: JournalRecord) -> None:
        event = self._type_filter.match(entry)
        if event is None:
            return
        if not (event.id.isascii() and event.id.isprintable()):
            raise EventRejected("its id cannot stand in a header")
        reply = await self._post(event.id, entry.raw)
        if (error := classify_response(reply, str(self._url.origin()), self._wall())) is not None:
            raise error

    async def _post(self, id_: str, body: bytes) -> WebhookResponse:
        """Post once; twice when a connection kept from before turns out to be closed."""
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
                await _drain(answer)
                return WebhookResponse(answer.status, answer.headers.get("Retry-After"))
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
                    "content-type": _CONTENT_TYPE,
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
        """Load the trusted certificate authorities; blocks."""
        try:
            return client_tls_context(self._ca_file)
        except OSError as error:
            text = f"caFile {self._ca_file} cannot be used: {error.strerror or error}"
            raise SinkUnavailable(text) from error

    def _error_text(self, error: Exception) -> str:
        """Describe an error without any text of the request, which may hold secrets."""
        if (proxy := self._proxy) is not None:
            if isinstance(error, aiohttp.ClientHttpProxyError):
                return proxy.refusal(error.status, error.headers.items() if error.headers else ())
            if isinstance(error, aiohttp.ClientConnectorError) and error.host == proxy.host:
                number = error.errno or 0
                cause = os.strerror(number) if number > 0 else error.strerror
                return f"no connection to {proxy}: {cause or type(error).__name__}"
        described = self._describe(error)
        return described if proxy is None else f"{described}, through {proxy}"

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


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read a short answer to its end, so that the connection can be used again; or leave it.

    The status has come, and it alone counts: errors here are ignored.
    """
    left = MAX_RESPONSE_BYTES
    with anyio.move_on_after(_DRAIN_TIMEOUT_S):
        try:
            while left > 0 and (part := await response.content.read(left)):
                left -= len(part)
        except (aiohttp.ClientError, OSError):
            response.close()
