#!/usr/bin/env python3
"""Receives the webhook of reactive-desched: checks each signature, and takes each event once.

Signatures are Standard Webhooks: HMAC-SHA256 over "ID.TIMESTAMP.BODY", in base64. For the secret
file, write one secret, the same as in the sender's; while it is exchanged, two, each on a line.
"""

import base64
import hmac
import json
import re
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

TOLERANCE_S = 300
MOST_BYTES = 1 << 20
SILENCE_S = 30
NAMES = ("id", "timestamp", "signature")
NUMBER = re.compile("[0-9]{1,12}")


class Refused(Exception):  # noqa: N818 - it is raised as the fact it names
    """The request does not prove that it comes from a holder of the secret."""


def keys(secrets: bytes) -> list[bytes]:
    """Return the keys of a secret file, one on each line; after whsec_ comes base64."""
    return [
        base64.b64decode(line.removeprefix(b"whsec_") + b"==")
        if line.startswith(b"whsec_")
        else line
        for line in map(bytes.strip, secrets.splitlines())
        if line
    ]


def check(secrets: bytes, id_: str, timestamp: str, signatures: str, body: bytes) -> None:
    """Raise Refused unless one of the signatures is right and the request is new."""
    if not NUMBER.fullmatch(timestamp) or abs(time.time() - int(timestamp)) > TOLERANCE_S:
        raise Refused("the timestamp is missing, or too far from now")
    signed = f"{id_}.{timestamp}.".encode() + body
    for key in keys(secrets):
        right = b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
        if any(hmac.compare_digest(right, one.encode()) for one in signatures.split(" ")):
            return
    raise Refused("none of the signatures is right")


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 when an event is safely stored, so that the sender goes on to the next.

    Each connection has a thread, so that no client waits for another; one that is silent is closed.
    """

    protocol_version = "HTTP/1.1"
    timeout = SILENCE_S
    secret_file: Path
    store: sqlite3.Connection
    one_at_a_time = Lock()

    def do_POST(self) -> None:
        """Take one event."""
        size = self.headers.get("Content-Length", "")
        if not NUMBER.fullmatch(size) or int(size) > MOST_BYTES:
            self.close_connection = True  # what follows is not read
            return self.answer(413 if size.isdecimal() else 411)
        body = self.rfile.read(int(size))
        id_, timestamp, signatures = (self.headers.get(f"webhook-{n}", "") for n in NAMES)
        try:
            check(self.secret_file.read_bytes(), id_, timestamp, signatures, body)
        except Refused as refused:
            self.log_message("refused: %s", refused)
            return self.answer(401)
        self.take(json.loads(body))
        return self.answer(204)

    def take(self, event: dict[str, object]) -> None:
        """Store an event, once; the store's transaction is where your own effect belongs."""
        row = (event["source"], event["id"])
        with self.one_at_a_time:
            with self.store:
                new = self.store.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", row).rowcount
            if new:
                print(event["time"], event["type"], event["subject"], flush=True)  # noqa: T201 - as said

    def answer(self, status: int) -> None:
        """Answer with nothing but a status."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


def main(host: str, port: str, secret_file: str, database: str) -> None:
    """Serve until interrupted."""
    Receiver.secret_file = Path(secret_file)
    Receiver.store = sqlite3.connect(database, check_same_thread=False)  # the lock guards it
    Receiver.store.execute("CREATE TABLE IF NOT EXISTS seen (source, id, PRIMARY KEY (source, id))")
    with ThreadingHTTPServer((host, int(port)), Receiver) as server:
        print(f"listening on port {server.server_port}", flush=True)  # noqa: T201 - port 0 is any
        server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) != 5:  # noqa: PLR2004 - as the usage says
        sys.exit("usage: webhook_receiver.py HOST PORT SECRET-FILE DATABASE")
    main(*sys.argv[1:])
