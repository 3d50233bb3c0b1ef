"""One connection: it knows how long it may last, and answers what is no request in few words."""

import asyncio
from typing import Final

from aiohttp import web
from msgspec import Struct

REQUEST_HEAD_TIMEOUT_S: Final = 5.0
"""Whoever connects has this long to ask something."""

MAX_LIFETIME_S: Final = 60.0
"""No connection but a stream lasts longer, busy or idle; probes open another."""

MAX_LINE_BYTES, MAX_HEADERS = 4096, 64
"""A request with a longer line, or more of them, is answered with 400."""

_SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "reactive-desched",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_MALFORMED: Final = (
    f"this is no request, or one of its lines is longer than {MAX_LINE_BYTES} bytes,"
    f" or it has more than {MAX_HEADERS} of them\n"
)


class HttpCounters(Struct):
    """What is counted of the server."""

    malformed: int = 0
    crowded_out: int = 0


class HttpConnection(web.RequestHandler):
    """Answers one client's requests, one after the other.

    `ends_at` is when its time is up, and `is_busy` says that a request is under way: it could be
    read, and is not answered yet.
    """

    def __init__(
        self, server: web.Server, loop: asyncio.AbstractEventLoop, counters: HttpCounters
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # aiohttp's word for none
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            lingering_time=0.0,
        )
        self._counters = counters
        self._opened_at = loop.time()
        self.deadline = self._opened_at + REQUEST_HEAD_TIMEOUT_S
        self.is_busy = False

    def mark_request_started(self) -> None:
        """Note that a request is under way."""
        self.is_busy = True
        self.deadline = max(self.deadline, self._opened_at + MAX_LIFETIME_S)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send what is left of an answer; no request is under way then."""
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self.is_busy = False

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to what failed; what did before our code ran is counted, not logged."""
        if self.is_busy:
            return super().handle_error(request, status, exc, message)
        self._counters.malformed += 1
        response = web.Response(status=400, text=_MALFORMED)
        response.force_close()
        add_security_headers(response)
        return response


def add_security_headers(response: web.StreamResponse) -> None:
    """Give an answer the headers that all carry."""
    response.headers.update(_SECURITY_HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
