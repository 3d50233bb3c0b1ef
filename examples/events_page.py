#!/usr/bin/env python3
"""Serves events.html and passes the event stream on, for a browser on this machine.

The controller lets no page of another origin read its stream, so page and stream come from here.
Listens on loopback alone.
"""

import shutil
import sys
import urllib.error
import urllib.request
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

PAGE = Path(__file__).with_name("events.html")
SILENCE_S = 60  # heartbeats come four times as often
PASSED_ON = ("Last-Event-ID", "Accept")


class Page(BaseHTTPRequestHandler):
    """Answers / with the page and /events with the stream of the controller."""

    controller: str

    def do_GET(self) -> None:
        """Answer a request."""
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        if path == "/":
            self.begin(200, "text/html; charset=utf-8")
            self.wfile.write(PAGE.read_bytes())
        elif path == "/events":
            self.stream(f"{self.controller}/events?{query}")
        else:
            self.send_error(404)

    def stream(self, url: str) -> None:
        """Pass on what the controller says until one of the two ends it."""
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - given by who runs this
        try:
            with urllib.request.urlopen(request, timeout=SILENCE_S) as answer:  # noqa: S310 - as above
                self.begin(answer.status, answer.headers["Content-Type"])
                self.pass_on(answer)
        except urllib.error.HTTPError as error:
            with error:
                self.begin(error.code, "text/plain")
                shutil.copyfileobj(error, self.wfile)
        except ConnectionError:
            pass  # the browser has gone
        except OSError as error:
            self.log_message("the stream ended: %s", error)

    def pass_on(self, answer: HTTPResponse) -> None:
        """Write each piece as soon as it comes."""
        while piece := answer.read1(65536):
            self.wfile.write(piece)
            self.wfile.flush()

    def begin(self, status: int, content_type: str) -> None:
        """Write the status and headers."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.end_headers()


def main(controller: str, port: str) -> None:
    """Serve until interrupted."""
    Page.controller = controller.rstrip("/")
    with ThreadingHTTPServer(("127.0.0.1", int(port)), Page) as server:
        print(f"open http://127.0.0.1:{server.server_port}/", flush=True)  # noqa: T201 - port 0 is any
        server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) != 3:  # noqa: PLR2004 - as the usage says
        sys.exit("usage: events_page.py CONTROLLER PORT, such as http://localhost:8080 8000")
    main(*sys.argv[1:])
