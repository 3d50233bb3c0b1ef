"""The load server: an API server's lists, watches and evictions at the speed of a memory copy.

It runs in a process of its own, one thread per connection: nearly all its time passes in system
calls and encryption, both of which leave the interpreter free. It stamps events and evictions
with the system's monotonic clock, which every process shares.
"""

import argparse
import contextlib
import json
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.generate import cache_folder, ensure
from bench.resources import Resource, Versions, open_resources
from bench.stage import EventPlayer, Watcher
from bench.tls import self_signed
from bench.wire import WATCH_HEAD, Connection, Request, chunk

_SWITCH_S = 0.0005


class LoadServer:
    """Answers requests from stored bytes."""

    def __init__(
        self, stage: EventPlayer, *, streaming: bool = False, chunked: bool = False
    ) -> None:
        """Serve the stage's resources.

        `streaming` also serves streaming lists; `chunked` sends lists item by item.
        """
        self.stage = stage
        self._streaming, self._chunked = streaming, chunked
        self._control: dict[str, Callable[[Request], object]] = {
            "/bench/prepare": self._handle_prepare,
            "/bench/play": self._handle_play,
            "/bench/expire": lambda request: self.stage.expire_watches(request.query["path"]),
            "/bench/delete": lambda _: self.stage.delete_evicted(),
            "/stats": self._handle_stats,
        }

    def handle(self, connection: Connection, request: Request) -> bool:
        """Answer one request; return whether the connection stays open."""
        now = time.monotonic_ns()
        if request.method == "POST" and request.path.endswith("/eviction"):
            self.stage.record_eviction(request.path.split("/")[-2], now)
            connection.answer(201, b'{"kind":"Status","apiVersion":"v1","status":"Success"}')
        elif resource := self.stage.resources.get(request.path):
            return self._collection(connection, request, resource)
        elif control := self._control.get(request.path):
            connection.answer(200, json.dumps(control(request)).encode())
        else:
            self._handle_other(connection, request)
        return True

    def _collection(self, connection: Connection, request: Request, resource: Resource) -> bool:
        if request.query.get("watch") in ("1", "true"):
            return self._watch(connection, request, resource)
        limit = int(request.query.get("limit") or 0)
        first = int(request.query.get("continue", "p0")[1:])
        parts = resource.page(self.stage.version_of_lists(), limit, first)
        if self._chunked:
            last = min(resource.count, first + limit) if limit else resource.count
            connection.answer_chunked(
                [parts[0], *_with_commas(resource.each(first, last)), parts[2]]
            )
        else:
            connection.answer(200, *parts)
        return True

    def _watch(self, connection: Connection, request: Request, resource: Resource) -> bool:
        initial = request.query.get("sendInitialEvents") == "true"
        since = request.query.get("resourceVersion", "")
        any_version = since == "0" and not initial
        if initial and not self._streaming:
            connection.answer(422, _status(422, "Invalid", "sendInitialEvents is forbidden"))
            return True
        watcher = Watcher(connection)
        connection.sock.sendall(WATCH_HEAD)
        if initial:
            self._send_initial(watcher, resource)
        if any_version:
            self._send_all(watcher, resource)
        follows = since.isdecimal() and not initial and not any_version
        self.stage.open_watch(request.path, watcher, int(since) if follows else None)
        if not watcher.closed.wait(float(request.query.get("timeoutSeconds") or 600)):
            watcher.end()
        with contextlib.suppress(ValueError):
            self.stage.watchers[request.path].remove(watcher)
        return True  # as Go's server does; one that closes must say so before

    def _send_all(self, watcher: Watcher, resource: Resource) -> None:
        """Send what is there, as an API server does to a watch from version 0."""
        for item in resource.each(0, resource.count):
            watcher.send(chunk(resource.event("ADDED", item)))

    def _send_initial(self, watcher: Watcher, resource: Resource) -> None:
        self._send_all(watcher, resource)
        watcher.send(chunk(resource.bookmark(self.stage.versions.now, initial_end=True)))

    def _handle_other(self, connection: Connection, request: Request) -> None:
        if request.path == "/version":
            connection.answer(200, b'{"major":"1","minor":"33","gitVersion":"v1.33.2"}')
        elif request.method == "POST":
            connection.answer(201, request.body)
        elif (pod := self._find_pod(request.path)) is not None:
            connection.answer(200, b'{"kind":"Pod","apiVersion":"v1",', pod[1:])
        else:
            connection.answer(404, _status(404, "NotFound", f"no {request.path}"))

    def _find_pod(self, path: str) -> bytes | None:
        match path.rsplit("/", 3):
            case [_, namespace, "pods", name]:
                return self.stage.find_pod(namespace, name)
        return None

    def _handle_prepare(self, request: Request) -> int:
        query = request.query
        return self.stage.prepare(query["script"], int(query["count"]), query.get("slot", ""))

    def _handle_play(self, request: Request) -> bool:
        self.stage.play(float(request.query.get("pace", "0")), request.query.get("slot", ""))
        return True

    def _handle_stats(self, request: Request) -> object:
        """Answer when the play is over and so many evictions came, or it has been long enough."""
        stage, query = self.stage, request.query
        stage.await_playbacks()
        stage.await_evictions(int(query.get("evictions", "0")), float(query.get("within", "0")))
        return {
            "sent": stage.sent,
            "evictions": stage.evictions,
            "late": stage.late,
            "overdue": tuple(stage.overdue),
        }


def _with_commas(items: Iterable[bytes]) -> Iterable[bytes]:
    """Yield items as a list encoder writes them: a comma before each but the first."""
    for turn, item in enumerate(items):
        yield b"," + item if turn else item


def _status(code: int, reason: str, message: str) -> bytes:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {}}
    return json.dumps(body | {"code": code, "reason": reason, "message": message}).encode()


class Listener:
    """The port of a load server; it can be closed for a while, with every connection."""

    def __init__(self, server: LoadServer, context: ssl.SSLContext | None) -> None:
        self._server, self._context = server, context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._connections: set[socket.socket] = set()
        self._is_open = threading.Event()
        self._is_open.set()
        self.port: int = self._socket.getsockname()[1]

    def serve(self) -> None:
        """Accept connections, each on a thread of its own, until `close`."""
        while True:
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = self._socket.accept()
                    threading.Thread(target=self._connect, args=(sock,), daemon=True).start()
            if self._is_open.is_set():
                return  # closed for good
            self._is_open.wait()

    def close(self) -> None:
        """Accept no more connections."""
        _shut_down(self._socket)

    def interrupt(self, seconds: float) -> int:
        """Close the port and every connection, and open it again; return when, in nanoseconds."""
        self._is_open.clear()
        for sock in (self._socket, *tuple(self._connections)):
            _shut_down(sock)
        self._server.stage.drop_watches()
        time.sleep(seconds)
        self._socket = socket.create_server(("127.0.0.1", self.port))
        self._is_open.set()
        return time.monotonic_ns()

    def _connect(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as closing:
            closing.enter_context(sock)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context:
                sock = closing.enter_context(self._context.wrap_socket(sock, server_side=True))
            self._connections.add(sock)
            closing.callback(self._connections.discard, sock)
            connection = Connection(sock)
            while (request := connection.read()) is not None:
                if not self._server.handle(connection, request):
                    return


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def main() -> None:
    """Print the address and the certificate's file, and serve until standard input ends.

    A line of JSON on standard input, with `seconds`, interrupts the service for so long.
    """
    parser = argparse.ArgumentParser(prog="bench.server")
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--streaming", action="store_true")
    parser.add_argument("--chunked", action="store_true")
    args = parser.parse_args()
    sys.setswitchinterval(_SWITCH_S)  # so that no thread delays another's stamp for long
    data = ensure(args.pods, args.nodes, cache_folder())
    stage = EventPlayer(data.cluster, open_resources(data), Versions())
    server = LoadServer(stage, streaming=args.streaming, chunked=args.chunked)
    with tempfile.TemporaryDirectory() as folder:
        certificate = self_signed(Path(folder))
        listener = Listener(server, None if args.plain else certificate.server_context())
        threading.Thread(target=listener.serve, daemon=True).start()
        scheme = "http" if args.plain else "https"
        _print({"url": f"{scheme}://127.0.0.1:{listener.port}", "ca": str(certificate.cert)})
        for line in sys.stdin:
            _print({"back_ns": listener.interrupt(json.loads(line)["seconds"])})


def _print(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
