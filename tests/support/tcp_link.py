"""A link to a server that can be cut as a network is: nothing arrives, and nothing says so."""

import contextlib
import socket
import threading
import time
from functools import partial
from typing import Self

_AT_ONCE = threading.Event()
_AT_ONCE.set()
_ANSWER_S = 2.0
"""So long a request that was held stays alone: a client that is gone has closed TLS behind it."""


class TcpLink:
    """Carries connections from a loopback port to a server on loopback while the block lasts.

    While it is cut, connections stay open, new ones are accepted, and every byte is lost. What
    clients send over a connection that it holds arrives only after `release`, also when they have
    ended; `holds_bytes` says whether there is any.
    """

    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._cut = threading.Event()
        self._may_send: list[threading.Event] = []
        self._holds_new = self.holds_bytes = False
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        """Begin to carry."""
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close every connection."""
        self.release()
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(5)

    def cut(self) -> None:
        """Lose every byte from now on."""
        self._cut.set()

    def hold(self) -> None:
        """Keep what clients send over connections that are open, or opened until `carry_new`.

        What the server sends still arrives, and so does a client's first greeting: it sends its
        request only when it was answered.
        """
        self._holds_new = True
        for each in self._may_send:
            each.clear()

    def carry_new(self) -> None:
        """Carry the connections that are opened from now on."""
        self._holds_new = False

    def lead_to(self, target_port: int) -> None:
        """Break every connection, and carry new ones to another server."""
        self._target = ("127.0.0.1", target_port)
        for each in tuple(self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Deliver what was held."""
        self._holds_new = self.holds_bytes = False
        for each in self._may_send:
            each.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                may_send = threading.Event()
                may_send.set()
                greets = self._holds_new
                self._may_send.append(may_send)
                self._sockets += (client, server)
                requests = partial(self._pump, client, server, may_send, greets=greets)
                answers = partial(self._pump, server, client, _AT_ONCE)
                for pump in (requests, answers):
                    thread = threading.Thread(target=pump, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        may_send: threading.Event,
        *,
        greets: bool = False,
    ) -> None:
        was_held = False
        with contextlib.suppress(OSError):
            if greets:
                sink.sendall(source.recv(1 << 16))
                if self._holds_new:
                    may_send.clear()
            while data := source.recv(1 << 16):
                is_held = not may_send.is_set()
                was_held |= is_held
                self.holds_bytes |= is_held
                may_send.wait()
                if not self._cut.is_set():
                    sink.sendall(data)
                if is_held:  # what follows may end the connection, which would cancel the request
                    time.sleep(_ANSWER_S)
            if not was_held:  # as a proxy that finishes what it held: an end would cancel that
                sink.shutdown(socket.SHUT_WR)
