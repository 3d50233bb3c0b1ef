"""An OIDC token endpoint on a loopback port that keeps what it was asked."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

__all__ = ["TokenEndpoint", "token_endpoint", "unsigned_token"]


class TokenEndpoint:
    """What it answers next, and the requests that it had: their login and their form.

    `answer` may make one for each request, perhaps slowly.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = 200
        self.answer: Any = {"access_token": "token-1", "expires_in": 100}
        self.logins: list[str] = []
        self.forms: list[dict[str, list[str]]] = []


@contextmanager
def token_endpoint() -> Iterator[TokenEndpoint]:
    """Serve while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            endpoint.forms.append(parse_qs(self.rfile.read(length).decode()))
            login = self.headers["authorization"].removeprefix("Basic ")
            endpoint.logins.append(base64.b64decode(login).decode())
            answer = endpoint.answer() if callable(endpoint.answer) else endpoint.answer
            body = json.dumps(answer).encode()
            self.send_response(endpoint.status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        endpoint = TokenEndpoint(f"http://127.0.0.1:{server.server_port}/token")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield endpoint
        server.shutdown()
        thread.join()


def unsigned_token(subject: str, at: float, lifetime_s: float = 3600) -> str:
    """Return a token without a signature, which a broker takes whose validator is not set."""
    claims = {"sub": subject, "iat": at, "exp": at + lifetime_s}
    return ".".join((_part({"alg": "none"}), _part(claims), ""))


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
