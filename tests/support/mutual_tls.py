"""A server that asks for a client certificate, and refuses one by an alert of TLS.

Those of asyncio close the connection instead; nginx, HAProxy and Go send the alert.
"""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["mutual_tls"]

EMPTY = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(EMPTY), EMPTY)
)


@contextmanager
def mutual_tls(context: ssl.SSLContext) -> Iterator[str]:
    """Answer every request with an empty list while the block lasts; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, context), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with suppress(OSError), context.wrap_socket(connection, server_side=True) as wrapped:
            if wrapped.recv(65536):  # a request of ours comes in one piece
                wrapped.sendall(ANSWER)
        connection.close()
