"""An HTTP server on a loopback port, which answers as a test says."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from threading import Thread

Respond = Callable[[BaseHTTPRequestHandler], None]


def answer_request(
    request: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    kind: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> None:
    """Answer a request with a body of this content type, and more headers."""
    request.send_response(status)
    for name, value in {"Content-Type": kind, **(headers or {})}.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def serving(respond: Respond, tls: SSLContext | None = None) -> Iterator[int]:
    """Serve GET and POST on a loopback port while the block lasts; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            respond(self)

        def do_POST(self) -> None:
            respond(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        poll = {"poll_interval": 0.01}
        thread = Thread(target=server.serve_forever, kwargs=poll, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
