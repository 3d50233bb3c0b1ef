#!/usr/bin/env python3
"""Serves events.html and passes the event stream on, for a browser on this machine.

The controller lets no page of another origin read its stream, so page and stream come from here.
Listens on loopback alone.
"""

import base64
import contextlib
import hashlib
import re
import sys
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

PAGE = Path(__file__).with_name("events.html")
SILENCE_S = 60  # heartbeats come four times as often
PASSED_ON = ("Last-Event-ID", "Accept")
OURS = ("127.0.0.1", "localhost")  # under another name a stranger's page could read the stream


class Page(BaseHTTPRequestHandler):
    """Answers / with the page and /events with the stream of the controller."""

    controller: str

    def do_GET(self) -> None:
        """Answer a request."""
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        with contextlib.suppress(ConnectionError):  # the browser may go at any time
            if self.headers.get("Host", "").rpartition(":")[0] not in OURS:
                self.send_error(421)
            elif path == "/":
                page = PAGE.read_bytes()
                self.begin(200, "text/html; charset=utf-8", rules(page))
                self.wfile.write(page)
            elif path == "/events":
                self.stream(f"{self.controller}/events?{query}")
            else:
                self.send_error(404)

    def stream(self, url: str) -> None:
        """Pass on what the controller says until one of the two ends it."""
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - given by who runs this
        try:
            answer = urllib.request.urlopen(request, timeout=SILENCE_S)  # noqa: S310 - as above
        except urllib.error.HTTPError as error:
            with error:
                self.refuse(error.code, error.read())
        except (OSError, HTTPException) as error:
            why = getattr(error, "reason", error)
            self.refuse(502, f"the controller does not answer: {why}\n".encode())
        else:
            with answer:
                self.begin(answer.status, answer.headers["Content-Type"])
                self.pass_on(answer)

    def pass_on(self, answer: HTTPResponse) -> None:
        """Write each piece as soon as it comes."""
        try:
            while piece := answer.read1(65536):
                self.wfile.write(piece)
                self.wfile.flush()
        except (OSError, HTTPException) as error:
            self.log_message("the stream ended: %s", error)

    def refuse(self, status: int, text: bytes) -> None:
        """Say why there is no stream."""
        self.begin(status, "text/plain; charset=utf-8")
        self.wfile.write(text)

    def begin(self, status: int, content_type: str, policy: str = "default-src 'none'") -> None:
        """Write the status and headers."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()


def rules(page: bytes) -> str:
    """Return what the page may do: run its own script, have its own style, and read from here."""
    parts = re.findall(rb"<(script|style)>(.*?)</", page, re.DOTALL)
    own = {name: base64.b64encode(hashlib.sha256(text).digest()).decode() for name, text in parts}
    hashes = (f"{name.decode()}-src 'sha256-{digest}'" for name, digest in own.items())
    fixed = ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'")
    return "; ".join((*fixed, *hashes))


def main(controller: str, port: str) -> None:
    """Serve until interrupted."""
    Page.controller = controller.rstrip("/")
    with ThreadingHTTPServer(("127.0.0.1", int(port)), Page) as server:
        print(f"open http://127.0.0.1:{server.server_port}/", flush=True)  # noqa: T201 - port 0 is any
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) != 3:  # noqa: PLR2004 - as the usage says
        sys.exit("usage: events_page.py CONTROLLER PORT, such as http://localhost:10258 8000")
    main(*sys.argv[1:])
